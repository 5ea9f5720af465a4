"""Turns the arguments of the generated operator methods into calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from ..fields import TensorMember
from ..schema import OperatorSchema, find, schema_of
from ..tensor import Array
from ..tensor_names import element
from ..wire import Call
from .arrays import as_array, data_type_name
from .calls import call_of, tensor_of
from .options import CallOptions

F = TypeVar("F", bound=Callable[..., Any])

_AXES = "AxisCount"

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[0-9]+")


def argument_name(member: str) -> str:
    """Returns the argument name of a desc struct's member: ``InputTensor`` becomes ``input_tensor``."""
    return "_".join(_WORD.findall(member)).lower()


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
    for member, value in zip(schema.members.inputs, inputs, strict=True):
        if value is not None or not member.role.is_optional:
            desc[member.name] = _add(member, value, arrays)
    nested = {member.name for member in schema.members.nested}
    desc |= {
        member: _operators(value) if member in nested else _plain(value)
        for member, value in others.items()
        if value is not None
    }
    _repeat(schema, desc, arrays)
    return call_of(name, desc, arrays)


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


def _plain(value: Any) -> Any:
    """Converts a value to its form in a desc."""
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


def explains_keywords(method: F) -> F:
    """Makes a method reject unknown keywords with a helpful message.

    The check runs before Python's own, which would first report the argument that a misspelled keyword was meant for
    as missing.
    """
    function = cast(FunctionType, method)
    code = function.__code__
    taken = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]  # all but self
    known = frozenset((*taken, *CallOptions.__annotations__))

    @wraps(method)
    def explained(*arguments: Any, **keywords: Any) -> Any:
        if not keywords.keys() <= known:
            raise TypeError(_unknown(function.__name__, min(keywords.keys() - known), taken))
        return method(*arguments, **keywords)

    return cast(F, explained)


def no_attribute(owner: object, name: str) -> str:
    """Returns the AttributeError for a missing attribute, with a hint: ``activation_relu`` for ``relu``."""
    said = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):  # copy, pickle, IPython and others ask for many
        return said
    names = sorted((each for each in dir(type(owner)) if not each.startswith("_")), key=len)
    word = name.lower()
    near = [each for each in names if f"_{word}_" in f"_{each}_"] or get_close_matches(word, names, n=1, cutoff=0.7)
    if len(word) > 2:
        near += [each for each in names if f"_{word}" in f"_{each}"]
    return f"{said}; did you mean {near[0]}?" if near else said


def _unknown(method: str, keyword: str, taken: Sequence[str]) -> str:
    plain = {each.replace("_", ""): each for each in reversed(taken)}
    same = plain.get(keyword.replace("_", "").lower())  # DirectML's own spelling, such as transA
    near = [same] if same else get_close_matches(keyword, taken, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    options = ", ".join(CallOptions.__annotations__)
    return f"{method}() has no argument {keyword!r}{hint} It takes {', '.join(taken)}, and the options {options}"
