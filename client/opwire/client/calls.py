"""Turns the arguments of the client's methods into calls: operators in the form of the contract, with their arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from operator import index
from reprlib import repr as short_repr
from typing import Any, Literal, Protocol, SupportsIndex

import numpy as np

from ..desc import Report, data_type_name, show
from ..enums import AxisDirection, ReduceFunction
from ..fields import TensorMember
from ..schema import PREFIX, find, schema_of
from ..tensor import Array, BufferTensorDesc, DataType, packed_strides
from ..tensor_desc import read_tensor
from ..tensor_names import element
from ..wire import Call
from .arrays import ArrayLike, DTypeLike, TensorLike, as_array, as_array_or_bytes, fit, layout_of, with_type_names

Axes = SupportsIndex | Iterable[SupportsIndex]
Direction = AxisDirection | Literal["INCREASING", "DECREASING"]
Function = (
    ReduceFunction
    | Literal[
        "ARGMAX",
        "ARGMIN",
        "AVERAGE",
        "L1",
        "L2",
        "LOG_SUM",
        "LOG_SUM_EXP",
        "MAX",
        "MIN",
        "MULTIPLY",
        "SUM",
        "SUM_SQUARE",
    ]
)
IndexType = DataType | DTypeLike | Literal["UINT32", "INT32", "UINT64", "INT64"]
PoolingOperator = Literal["MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"]

_NO_LISTS = (str, bytes, bytearray, memoryview, Mapping)
"""Iterables that are not lists of integers."""


def argreduce(name: str, x: ArrayLike, axes: Axes, direction: Direction, output_type: IndexType) -> Call:
    """Returns a call of ARGMIN or ARGMAX."""
    array, listed = as_array(x, "x"), _axes(axes)
    desc = {
        "InputTensor": tensor_of(array),
        "OutputTensor": _reduced(array, listed, output_type),
        "AxisCount": len(listed),
        "Axes": listed,
        "AxisDirection": direction,
    }
    return _call(name, desc, array)


def reduce(x: ArrayLike, function: Function, axes: Axes, output_type: DataType | DTypeLike | str | None) -> Call:
    """Returns a call of REDUCE. Without an output type, the server derives it."""
    array, listed = as_array(x, "x"), _axes(axes, function)
    desc = {"Function": function, "InputTensor": tensor_of(array), "AxisCount": len(listed), "Axes": listed}
    if output_type is not None:
        desc["OutputTensor"] = _reduced(array, listed, output_type)
    return _call("REDUCE", desc, array)


def max_pooling(
    x: ArrayLike,
    window: Axes,
    *,
    strides: Axes | None,
    start_padding: Axes | None,
    end_padding: Axes | None,
    dilations: Axes | None,
    index_type: IndexType | None,
    ceil: bool,
    name: PoolingOperator | None,
) -> Call:
    """Returns a call of MAX_POOLING, MAX_POOLING1 or MAX_POOLING2: the oldest sufficient one, unless one is named."""
    array = as_array(x, "x")
    if name is None:
        plain: PoolingOperator = "MAX_POOLING" if index_type is None else "MAX_POOLING1"
        name = plain if dilations is None else "MAX_POOLING2"
    checked_name(name, "operator")
    spatial = array.ndim - 2
    sizes = _spatial(window, spatial, "window")
    desc: dict[str, Any] = {
        "InputTensor": tensor_of(array),
        "DimensionCount": len(sizes),
        "Strides": _spatial(1 if strides is None else strides, spatial, "strides"),
        "WindowSize": sizes,
        "StartPadding": _spatial(0 if start_padding is None else start_padding, spatial, "start_padding"),
        "EndPadding": _spatial(0 if end_padding is None else end_padding, spatial, "end_padding"),
    }
    if name == "MAX_POOLING2" or dilations is not None:
        desc["Dilations"] = _spatial(1 if dilations is None else dilations, spatial, "dilations")
    if ceil or index_type is not None:
        output = _pooled_sizes(array, desc, ceil=ceil)
        if output is not None:
            desc["OutputTensor"] = {"DataType": desc["InputTensor"]["DataType"], "Sizes": output}
            if index_type is not None:
                desc["OutputIndicesTensor"] = {"DataType": data_type_name(index_type), "Sizes": output}
    return _call(name, desc, array)


Inputs = TensorLike | Mapping[str, TensorLike | list[TensorLike]]
"""The tensors of a call by name, or a single tensor."""


class BuiltGraph(ABC):
    """A graph built in Python."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The graph as JSON, with nodes by name and without the tensors of its constants."""

    @property
    @abstractmethod
    def constants(self) -> Mapping[str, Array]:
        """The constants by the names of their nodes."""

    @property
    def inputs(self) -> Mapping[str, BufferTensorDesc]:
        """The descs of its inputs, as far as known."""
        return {}


class FixedGraph(BuiltGraph):
    """A graph as it is now. Clients in this process check it once for all calls."""

    def __init__(self, graph: BuiltGraph) -> None:
        self._json, self._constants, self._inputs = graph.to_json(), dict(graph.constants), dict(graph.inputs)

    def to_json(self) -> dict[str, Any]:
        """See ``BuiltGraph``."""
        return self._json

    @property
    def constants(self) -> Mapping[str, Array]:
        """See ``BuiltGraph``."""
        return self._constants

    @property
    def inputs(self) -> Mapping[str, BufferTensorDesc]:
        """See ``BuiltGraph``."""
        return self._inputs


class HasGraph(Protocol):
    """A model that is a graph: ``opwire.onnx.Model``."""

    @property
    def graph(self) -> BuiltGraph: ...


AnyGraph = Mapping[str, Any] | BuiltGraph | str
"""A graph as JSON, a graph built in Python, or the name of a registered graph."""


def is_graph(given: object) -> bool:
    """Returns whether something to run or check is a graph rather than an operator.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(given, BuiltGraph | str | Mapping):
        what = "the JSON of an operator or a graph as a dict, an opwire.Graph, or the name of a registered graph"
        raise TypeError(f"{short_repr(given)} given, of type {type(given).__name__}; expected {what}")
    return isinstance(given, BuiltGraph | str) or "nodes" in given or "Nodes" in given


def graph_call(graph: AnyGraph, inputs: Inputs) -> Call:
    """Returns a call of a graph, with the tensors of its inputs by name."""
    if not isinstance(inputs, Mapping):
        raise TypeError(f"inputs is of type {type(inputs).__name__}; a graph takes a dict of its inputs by name")
    descs = graph.inputs if isinstance(graph, BuiltGraph) else _declared_inputs(graph)
    arrays = {
        name: fit(value, descs[name], name) if name in descs else as_array_or_bytes(value, name)
        for name, value in _named(inputs)
    }
    layouts = {name: desc for name, desc in descs.items() if name in arrays and _differs_from_array(desc)}
    if isinstance(graph, BuiltGraph):
        fixed = graph if isinstance(graph, FixedGraph) else None
        return Call(graph.to_json(), arrays, layouts, is_graph=True, constants=graph.constants, fixed=fixed)
    if isinstance(graph, str):
        return Call({}, arrays, is_graph=True, graph_name=graph)
    return Call(with_type_names(graph), arrays, layouts, is_graph=True)


def _declared_inputs(graph: Mapping[str, Any] | str) -> dict[str, BufferTensorDesc]:
    """Returns the descs of the inputs that a graph given as JSON declares, as far as they can be read."""
    given = {} if isinstance(graph, str) else graph.get("inputs")
    read = {name: _read_tensor(desc) for name, desc in given.items()} if isinstance(given, Mapping) else {}
    return {name: desc for name, desc in read.items() if desc is not None}


def execute(operator: AnyGraph, inputs: Inputs) -> Call:
    """Returns a call of any operator or graph. Errors in the desc are left for the server to report."""
    if isinstance(operator, BuiltGraph | str) or is_graph(operator):
        return graph_call(operator, inputs)
    named: Mapping[str, Any] = with_type_names(operator)
    return _operator_call(named, inputs)


def _operator_call(operator: Mapping[str, Any], inputs: Inputs) -> Call:
    given = inputs if isinstance(inputs, Mapping) else {_only_input(operator): inputs}
    arrays: dict[str, Array] = {}
    layouts: dict[str, BufferTensorDesc] = {}
    for name, value, described in _tensors(operator, given):
        tensor = _read_tensor(described)
        arrays[name] = as_array_or_bytes(value, name) if tensor is None else fit(value, tensor, name)
        if tensor is not None and _differs_from_array(tensor):
            layouts[name] = tensor
    return Call(operator, arrays, layouts)


def checked_name(name: object, argument: str = "name") -> str:
    """Returns a name passed as an argument.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"{argument} is {short_repr(name)}, of type {type(name).__name__}; it must be a string")
    if not name:
        raise ValueError(f'{argument} is ""; it must not be empty')
    return name


def checked_flag(flag: object, argument: str) -> bool:
    """Returns a flag passed as an argument.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(flag, bool | np.bool_):
        raise TypeError(f"{argument} is {short_repr(flag)}, of type {type(flag).__name__}; it must be True or False")
    return bool(flag)


def checked_calls(calls: Iterable[object]) -> list[Call]:
    """Returns calls passed as an argument.

    Raises:
        TypeError: they are something else.
    """
    try:
        given = iter(calls)
    except TypeError:
        raise TypeError(f"calls are of type {type(calls).__name__}; {_CALLS}") from None
    found: list[Call] = []
    for i, call in enumerate(given):
        if not isinstance(call, Call):
            raise TypeError(f"calls[{i}] is of type {type(call).__name__}; {_CALLS}")
        found.append(call)
    return found


_CALLS = "execute_many takes a list of calls made with the methods of opwire.prepare"


def _differs_from_array(tensor: BufferTensorDesc) -> bool:
    """Returns whether the buffer differs from a contiguous array of the elements."""
    return tensor.data_type.is_packed or tensor.element_strides != packed_strides(tensor.sizes)


def call_of(name: str, desc: Mapping[str, Any], arrays: Mapping[str, Array]) -> Call:
    """Returns a call of an operator type."""
    layouts = {member: layout for member, array in arrays.items() if (layout := layout_of(array)) is not None}
    return Call({"type": PREFIX + name, "desc": desc}, arrays, layouts)


def _call(name: str, desc: Mapping[str, Any], array: Array) -> Call:
    return call_of(name, desc, {"InputTensor": array})


def tensor_of(array: Array) -> dict[str, Any]:
    """Returns the desc of an array, with strides only if it keeps its own."""
    desc = {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape)}
    layout = layout_of(array)
    return desc if layout is None else {**desc, "Strides": list(layout.element_strides)}


def _integers(given: Any, name: str) -> int | list[int]:
    """Returns an integer, or the integers of a list."""
    is_list = isinstance(given, Iterable) and getattr(given, "ndim", 1) != 0 and not isinstance(given, _NO_LISTS)
    try:
        return [_index(number) for number in given] if is_list else _index(given)
    except TypeError:
        raise TypeError(f"{name} is {short_repr(given)}; it takes an integer or a list of integers") from None


def _index(given: Any) -> int:
    if isinstance(given, bool):
        raise TypeError
    return index(given)


def _axes(axes: Axes, function: object = None) -> list[int]:
    try:
        given = _integers(axes, "axes")
    except TypeError as error:
        two = f"ELEMENT_WISE_{getattr(function, 'name', function)}"
        hint = f"; {two.lower()} takes two tensors" if hasattr(axes, "__array__") and find(two) else ""
        raise TypeError(f"{error}{hint}") from None
    listed = [given] if isinstance(given, int) else given
    for axis in listed:
        if axis < 0:
            raise ValueError(f"axis {axis}: DirectML's axes are unsigned; they count from the first dimension, 0")
    return listed


def _reduced(array: Array, axes: list[int], data_type: DataType | DTypeLike | str) -> dict[str, Any]:
    sizes = [1 if i in axes else size for i, size in enumerate(array.shape)]
    return {"DataType": data_type_name(data_type), "Sizes": sizes}


def _spatial(given: Axes, count: int, name: str) -> list[int]:
    """Returns one number per spatial dimension; a single number applies to all of them."""
    numbers = _integers(given, name)
    return [numbers] * count if isinstance(numbers, int) else numbers


def _pooled_sizes(array: Array, desc: Mapping[str, Any], *, ceil: bool) -> list[int] | None:
    """Returns the sizes of the output, or None if the arguments are invalid, which is for the server to report."""
    from ..operators.max_pooling import MaxPooling  # families are imported on first use

    names = ("Strides", "WindowSize", "StartPadding", "EndPadding", "Dilations")
    attributes = MaxPooling(**{name: tuple(desc[name]) for name in names if name in desc})
    try:
        spatial = [dimension.output_sizes[-1 if ceil else 0] for dimension in attributes.dimensions(array.shape)]
    except (ValueError, ZeroDivisionError):  # the wrong number of dimensions; a stride of 0
        return None
    return [*array.shape[:2], *spatial] if min(spatial, default=0) > 0 else None


def _named(inputs: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in inputs.items():
        if not isinstance(name, str):
            raise TypeError(f"inputs has the key {short_repr(name)}, of type {type(name).__name__}; its keys are names")
        yield name, value


def _tensors(operator: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, Any, object]]:
    """Yields each tensor by name with its desc; for array members, each element of the list."""
    desc = operator.get("desc")
    descs = desc if isinstance(desc, Mapping) else {}
    arrays = {member.name for member in _inputs(operator) if member.is_array}
    for name, value in _named(given):
        if name not in arrays:
            yield name, value, descs.get(name)
            continue
        if not isinstance(value, list | tuple):
            raise TypeError(f"{name} is of type {type(value).__name__}; it takes a list of tensors")
        described = descs.get(name)
        listed = described if isinstance(described, list | tuple) else ()
        for i, item in enumerate(value):
            yield element(name, i), item, listed[i] if i < len(listed) else None


def _inputs(operator: Mapping[str, Any]) -> tuple[TensorMember, ...]:
    """Returns the inputs of an operator's type, or none if the type is unknown."""
    kind = find(operator.get("type"))
    return () if kind is None else schema_of(kind.name).members.inputs


def _only_input(operator: Mapping[str, Any]) -> str:
    members = _inputs(operator)
    names = [member.name for member in members] or ["InputTensor"]
    required = [member.name for member in members if not member.role.is_optional]
    if len(required) == 1:
        return required[0]
    if len(names) > 1:
        raise TypeError(f"{show(operator.get('type'))} has several inputs; pass a dict of {', '.join(names)}")
    return names[0]


def _read_tensor(given: object) -> BufferTensorDesc | None:
    """Returns a tensor desc, or None if it cannot be read."""
    tensor = read_tensor(given, "", Report(), output=False)
    return None if tensor is None else tensor.desc
