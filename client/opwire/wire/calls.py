"""Writes requests in the client: operators with their arrays, as a body in one of three encodings."""

from __future__ import annotations

import sys
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
from ..tensor_names import element, grouped
from .framing import BINARY, HEAD_LENGTH, JSON, Buffer
from .requests import OutputFormat


class Encoding(StrEnum):
    """How the client sends tensors. It requests the answer in the same form."""

    BINARY = "binary"
    BASE64 = "base64"
    NUMBERS = "numbers"


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or graph for the service to run.

    Attributes:
        operator: ``{"type": ..., "desc": {...}}``, or the graph; empty for a registered graph.
        inputs: the logical elements of each input, as an array of shape ``Sizes``. The tensors of an array are named
            ``NAME[0]``, ``NAME[1]``, ... in order.
        layouts: the descs of the inputs whose buffers are not contiguous.
        options: additional members of the request (``feature_level``, ``timeout_ms``, ...).
        is_graph: whether it is a graph.
        constants: the tensors of constants by the names of their nodes, for a graph in named form without them.
        graph_name: the name of a registered graph.
        fixed: what identifies a graph that never changes, for all its calls.
    """

    operator: Mapping[str, Any]
    inputs: Mapping[str, Array]
    layouts: Mapping[str, BufferTensorDesc] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    is_graph: bool = False
    constants: Mapping[str, Array] = field(default_factory=dict)
    graph_name: str | None = None
    fixed: object = None

    def with_options(self, options: Mapping[str, object]) -> Call:
        """Returns a call with other options, several times as fast as ``dataclasses.replace``."""
        return Call(
            self.operator, self.inputs, self.layouts, options, self.is_graph, self.constants, self.graph_name,
            self.fixed,
        )  # fmt: skip


def write_call(call: Call, encoding: Encoding) -> tuple[dict[str, str], list[Buffer]]:
    """Returns the headers and body chunks of an execute request."""
    tail: list[Buffer] = []
    return _request(call_json(call, encoding, tail), encoding, tail)


def write_calls(calls: Iterable[Call], encoding: Encoding) -> tuple[dict[str, str], list[Buffer]]:
    """Returns the headers and body chunks of a batch."""
    tail: list[Buffer] = []
    requests = [call_json(call, encoding, tail) for call in calls]
    return _request({"requests": requests}, encoding, tail)


def call_json(call: Call, encoding: Encoding, tail: list[Buffer]) -> dict[str, object]:
    """Returns the JSON of an execute request, whose tensors are added to ``tail`` if the encoding is binary."""
    target = call.operator if call.graph_name is None else call.graph_name
    request: dict[str, object] = {"graph" if call.is_graph else "operator": target, "inputs": {}, **call.options}
    if encoding is Encoding.NUMBERS:
        request["output_format"] = OutputFormat.NUMBERS.value

    def write(name: str, array: Array) -> object:
        return _write_tensor(array, call.layouts.get(name), encoding, tail)

    request["inputs"] = {
        member: [write(element(member, i), array) for i, array in enumerate(given)]
        if isinstance(given, list)
        else write(member, given)
        for member, given in grouped(call.inputs).items()  # in their order in the tail
    }
    if call.constants:
        request["graph"] = _with_constants(call.operator, call.constants, encoding, tail)
    return request


def write_registration(
    graph: Mapping[str, Any], constants: Mapping[str, Array], options: Mapping[str, object]
) -> tuple[dict[str, str], list[Buffer]]:
    """Returns the headers and body chunks of a request to register a graph.

    Args:
        graph: the graph as JSON.
        constants: the tensors of constants by the names of their nodes, for a graph in named form without them.
        options: further members of the request.
    """
    tail: list[Buffer] = []
    return _request(registration_json(graph, constants, options, tail), Encoding.BINARY, tail)


def registration_json(
    graph: Mapping[str, Any], constants: Mapping[str, Array], options: Mapping[str, object], tail: list[Buffer]
) -> dict[str, object]:
    """Returns the JSON of a request to register a graph, whose constants are added to ``tail``."""
    return {"graph": _with_constants(graph, constants, Encoding.BINARY, tail), **options}


def _with_constants(
    graph: Mapping[str, Any], constants: Mapping[str, Array], encoding: Encoding, tail: list[Buffer]
) -> Mapping[str, Any]:
    """Adds the constants to a graph; in the tail they follow the inputs, in the order of their nodes.

    They are never numbers: nodes may read their bytes with other sizes and strides.
    """
    if not constants:
        return graph
    encoding = Encoding.BASE64 if encoding is Encoding.NUMBERS else encoding
    nodes = {
        name: {"constant": _write_tensor(constants[name], None, encoding, tail)} if name in constants else node
        for name, node in graph["nodes"].items()
    }
    return {**graph, "nodes": nodes}


def constant_bytes(array: Array) -> memoryview:
    """Returns the bytes of a contiguous tensor as they are sent."""
    tail: list[Buffer] = []
    _write_tensor(array, None, Encoding.BINARY, tail)
    return memoryview(tail[0])


def _write_tensor(array: Array, layout: BufferTensorDesc | None, encoding: Encoding, tail: list[Buffer]) -> object:
    if array.dtype.kind == "V":  # ml_dtypes: 4-bit elements, one per byte
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
    is_little = array.dtype.isnative and sys.byteorder == "little"
    contiguous = np.ascontiguousarray(array, None if is_little else array.dtype.newbyteorder("<"))
    return np.ndarray(contiguous.nbytes, np.uint8, contiguous).data


def _laid_out(array: Array, layout: BufferTensorDesc) -> memoryview:
    laid_out = layout.lay_out(array)
    if laid_out is None:
        raise ValueError(f"with strides {layout.strides} elements share an address, but differ in the array")
    buffer, _ = laid_out
    return buffer.data


def write_json(request: Mapping[str, object]) -> bytes:
    """Encodes a request, or a part of one, as JSON; numpy scalars and arrays become numbers.

    Raises:
        ValueError: it has a value that JSON cannot express; the message says where.
    """
    try:
        return to_json(request, fallback=_plain)
    except ValueError:
        pointer, value = _inexpressible(request)
        what = f"{pointer} is {show(value)}" if pointer else show(value)
        raise ValueError(f"{what}, of type {type(value).__name__}, which JSON cannot represent") from None


def _plain(value: object) -> object:
    """Returns the JSON value of a numpy scalar or array in a desc."""
    if isinstance(value, np.generic | np.ndarray):
        found = value.tolist()
        if not isinstance(found, np.generic):  # a longdouble stays one
            return found
    raise TypeError


def _inexpressible(value: object, pointer: str = "", depth: int = 0) -> tuple[str, object]:
    """Returns the pointer to the first value that JSON cannot represent, and the value."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, item in items:
        try:
            to_json(item, fallback=_plain)
        except ValueError:
            if depth < _MAX_DEPTH:  # it may contain itself
                return _inexpressible(item, pointer_to(pointer, name), depth + 1)
    return pointer, value


_MAX_DEPTH = 20


_TAIL_ALIGNMENT = 64


def _request(
    request: Mapping[str, object], encoding: Encoding, tail: list[Buffer]
) -> tuple[dict[str, str], list[Buffer]]:
    head = write_json(request)
    if encoding is not Encoding.BINARY:
        return {"Content-Type": JSON, "Accept": JSON, "Content-Length": str(len(head))}, [head]
    # Padding the head with blanks aligns the tail, so that the receiver can use it in place.
    head += b" " * (-len(head) % _TAIL_ALIGNMENT)
    size = len(head) + sum(len(data) for data in tail)
    headers = {"Content-Type": BINARY, "Accept": BINARY, HEAD_LENGTH: str(len(head)), "Content-Length": str(size)}
    return headers, [head, *tail]
