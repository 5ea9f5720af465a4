"""Turns the arguments of the generated operator methods into calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..desc import data_type_name
from ..fields import TensorMember
from ..schema import OperatorSchema, find, schema_of
from ..tensor import Array
from ..tensor_names import element
from ..wire import Call
from .arrays import as_array, is_number
from .calls import call_of, tensor_of
from .signatures import argument_name

_AXES = "AxisCount"


def operator_call(name: str, inputs: Sequence[Any], others: Mapping[str, Any]) -> Call:
    """Returns the call of an operator.

    Args:
        name: the name of its type.
        inputs: its input tensors in the order of the struct; None if omitted, a list for an array member.
        others: its other members by name; None if omitted.

    Raises:
        TypeError, ValueError: an input is not a tensor.
    """
    schema = schema_of(name)
    desc: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    numbers: list[tuple[TensorMember, Any]] = []
    for member, value in zip(schema.members.inputs, inputs, strict=True):
        if is_number(value) and not member.is_array:
            numbers.append((member, value))
        elif value is not None or not member.role.is_optional:
            desc[member.name] = _add(member, value, arrays)
    for member, value in numbers:  # what a number means depends on the rest
        desc[member.name] = _add(member, _filled(name, member, value, arrays), arrays)
    nested = {member.name for member in schema.members.nested}
    for other, value in others.items():
        if value is not None:
            desc[other] = _operators(value) if other in nested else _plain(value)
    _repeat(schema, desc, arrays)
    return call_of(name, desc, arrays)


def _filled(name: str, member: TensorMember, value: Any, arrays: Mapping[str, Array]) -> Any:
    """Returns the tensor that a number stands for."""
    from .numbers import filled  # the rules that it asks are imported with the first family that is used

    return filled(name, member, value, arrays)


def _add(member: TensorMember, value: Any, arrays: dict[str, Array]) -> object:
    """Adds the tensors of a member to ``arrays`` and returns their desc."""
    argument = argument_name(member.name)
    if not member.is_array:
        arrays[member.name] = as_array(value, argument)
        return tensor_of(arrays[member.name])
    if not isinstance(value, Iterable) or isinstance(value, Mapping | str | bytes) or hasattr(value, "__array__"):
        raise TypeError(f"{argument} is of type {type(value).__name__}; it takes a list of tensors")
    listed = [as_array(item, element(argument, i)) for i, item in enumerate(value)]
    arrays.update((element(member.name, i), array) for i, array in enumerate(listed))
    return [tensor_of(array) for array in listed]


def _operators(value: Any) -> Any:
    """Returns a nested operator, or a list of them; a name stands for an activation without parameters."""
    if isinstance(value, str):
        short = value if find(value) else f"ACTIVATION_{value.upper()}"
        return {"Type": short if find(short) else value, "Desc": {}}
    return _plain(value) if isinstance(value, Mapping) else [_operators(each) for each in value]


_PLAIN = frozenset((bool, int, float, str))


def _plain(value: Any) -> Any:
    """Converts a value to its form in a desc."""
    if type(value) in _PLAIN:  # almost always
        return value
    value = data_type_name(value)
    if isinstance(value, Mapping):
        return {name: data_type_name(member) for name, member in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if hasattr(value, "_asdict"):  # named tuples represent structs
        return value._asdict()
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else value


def _repeat(schema: OperatorSchema, desc: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Expands single numbers to one per dimension: as many as a sibling list has, or one per spatial dimension.

    A single axis becomes a list of one.
    """
    for count in schema.members.counts:
        given = {name: desc[name] for name in count.counts if name in desc}
        lengths = [len(value) for value in given.values() if isinstance(value, list)]
        spatial = next((array.ndim - 2 for array in arrays.values()), 0)
        length = 1 if count.name == _AXES else max(lengths[0] if lengths else spatial, 0)
        desc |= {name: [value] * length for name, value in given.items() if isinstance(value, int | float)}
