"""The client writes requests: operators with their arrays as a body in one of three encodings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pybase64
from pydantic_core import to_json

from ..desc import pointer_to, show
from ..jsontensor import write_numbers
from ..tensor import Array, BufferTensorDesc
from ..tensor_names import grouped, ungrouped
from .framing import BINARY, HEAD_LENGTH, JSON, Buffer
from .requests import OutputFormat


class Encoding(StrEnum):
    """How the client sends tensors; it asks for the answer in the same form."""

    BINARY = "binary"
    BASE64 = "base64"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True)
class Call:
    """One operator or graph for the service to run.

    Attributes:
        operator: ``{"type": ..., "desc": {...}}``, or the graph; empty where the graph is named.
        inputs: for each input its logical elements, an array of the shape ``Sizes``; the tensors of an array go by
            ``NAME[0]``, ``NAME[1]``, ... in their order.
        layouts: the descs of those inputs whose bytes do not lie packed.
        options: further members of the request (``feature_level``, ``timeout_ms``, ...).
        is_graph: whether it is a graph.
        graph_name: of a registered graph.
        constants: of a graph that is spelt by names and has their nodes without tensors, by the names of the nodes.
    """

    operator: Mapping[str, Any]
    inputs: Mapping[str, Array]
    layouts: Mapping[str, BufferTensorDesc] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    is_graph: bool = False
    constants: Mapping[str, Array] = field(default_factory=dict)
    graph_name: str | None = None


def write_call(call: Call, encoding: Encoding) -> tuple[dict[str, str], list[Buffer]]:
    """Headers and body pieces of an execute request."""
    tail: list[Buffer] = []
    return _request(_call_json(call, encoding, tail), encoding, tail)


def write_calls(calls: Iterable[Call], encoding: Encoding) -> tuple[dict[str, str], list[Buffer]]:
    """Headers and body pieces of a batch."""
    tail: list[Buffer] = []
    requests = [_call_json(call, encoding, tail) for call in calls]
    return _request({"requests": requests}, encoding, tail)


def _call_json(call: Call, encoding: Encoding, tail: list[Buffer]) -> dict[str, object]:
    target = call.operator if call.graph_name is None else call.graph_name
    request: dict[str, object] = {"graph" if call.is_graph else "operator": target, "inputs": {}, **call.options}
    if encoding is Encoding.NUMBERS:
        request["output_format"] = OutputFormat.NUMBERS.value
    inputs = ungrouped(grouped(call.inputs))  # in their order in the JSON, which is that in the tail
    request["inputs"] = grouped(
        {name: _write_tensor(array, call.layouts.get(name), encoding, tail) for name, array in inputs.items()}
    )
    if call.constants:
        request["graph"] = _with_constants(call.operator, call.constants, encoding, tail)
    return request


def write_registration(
    graph: Mapping[str, Any], constants: Mapping[str, Array], level: str | int | None
) -> tuple[dict[str, str], list[Buffer]]:
    """Headers and body pieces of a request to register a graph.

    Args:
        graph: as JSON.
        constants: its constants, if it is spelt by names and has their nodes without tensors.
        level: to check it against; None for the highest.
    """
    tail: list[Buffer] = []
    request: dict[str, object] = {"graph": _with_constants(graph, constants, Encoding.BINARY, tail)}
    if level is not None:
        request["feature_level"] = level
    return _request(request, Encoding.BINARY, tail)


def _with_constants(
    graph: Mapping[str, Any], constants: Mapping[str, Array], encoding: Encoding, tail: list[Buffer]
) -> Mapping[str, Any]:
    """A graph with its constants; in the tail they come behind the inputs, in the order of their nodes."""
    if not constants:
        return graph
    nodes = {
        name: {"constant": _write_tensor(constants[name], None, encoding, tail)} if name in constants else node
        for name, node in graph["nodes"].items()
    }
    return {**graph, "nodes": nodes}


def _write_tensor(array: Array, layout: BufferTensorDesc | None, encoding: Encoding, tail: list[Buffer]) -> object:
    if array.dtype.kind == "V":  # of ml_dtypes: elements of 4 bits, a byte each
        layout = layout or BufferTensorDesc.packed(array)
        array = array.astype(layout.data_type.dtype)
    if encoding is Encoding.NUMBERS:
        return {"data": write_numbers(array)}
    data = _contiguous(array) if layout is None else _laid_out(array, layout)
    if encoding is Encoding.BASE64:
        return pybase64.b64encode_as_string(data)
    tail.append(data)
    return {"binary_data_size": len(data)}


def _contiguous(array: Array) -> memoryview:
    contiguous = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return contiguous.reshape(-1).view(np.uint8).data


def _laid_out(array: Array, layout: BufferTensorDesc) -> memoryview:
    laid_out = layout.lay_out(array)
    if laid_out is None:
        raise ValueError(f"with strides {layout.strides} elements share an address, and the array's differ there")
    buffer, _ = laid_out
    return buffer.data


def write_json(request: Mapping[str, object]) -> bytes:
    """A request, or what is in it, as JSON; a numpy scalar or array is written as its numbers.

    Raises:
        ValueError: it has a value that JSON cannot express; the message says where.
    """
    try:
        return to_json(request, fallback=_plain)
    except ValueError:
        pointer, value = _inexpressible(request)
        what = f"{pointer} is {show(value)}" if pointer else show(value)
        raise ValueError(f"{what}, of type {type(value).__name__}, which JSON cannot express") from None


def _plain(value: object) -> object:
    """The JSON value that a numpy scalar or array in a desc stands for."""
    if isinstance(value, np.generic | np.ndarray):
        found = value.tolist()
        if not isinstance(found, np.generic):  # as a longdouble stays
            return found
    raise TypeError


def _inexpressible(value: object, pointer: str = "", depth: int = 0) -> tuple[str, object]:
    """The first value that JSON cannot express, and where it is."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, item in items:
        try:
            to_json(item, fallback=_plain)
        except ValueError:
            if depth < _MOST_DEPTH:  # it may hold itself
                return _inexpressible(item, pointer_to(pointer, name), depth + 1)
    return pointer, value


_MOST_DEPTH = 20


_TAIL_ALIGNMENT = 64


def _request(
    request: Mapping[str, object], encoding: Encoding, tail: list[Buffer]
) -> tuple[dict[str, str], list[Buffer]]:
    head = write_json(request)
    if encoding is not Encoding.BINARY:
        return {"Content-Type": JSON, "Accept": JSON, "Content-Length": str(len(head))}, [head]
    # Blanks behind the head align the tail, so that the receiver can use it where it is.
    head += b" " * (-len(head) % _TAIL_ALIGNMENT)
    size = len(head) + sum(len(data) for data in tail)
    headers = {"Content-Type": BINARY, "Accept": BINARY, HEAD_LENGTH: str(len(head)), "Content-Length": str(size)}
    return headers, [head, *tail]
