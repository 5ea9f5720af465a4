"""Reduces descs: makes them as simple as possible while something about them stays true."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .mutations import Desc, members, tensors_of

MOST_TRIES = 2000
"""Descs tried before a reduction ends."""


def reduced(type_: str, desc: Desc, holds: Callable[[Desc], bool]) -> Desc:
    """Returns a desc that cannot be simplified in one place without ``holds`` becoming false."""
    tries = 0
    while True:
        for simpler in _simpler(type_, desc):
            tries += 1
            if holds(simpler):
                desc = simpler
                break
            if tries > MOST_TRIES:
                return desc
        else:
            return desc


def _simpler(type_: str, desc: Desc) -> Iterator[Desc]:
    """Yields copies of a desc that are simpler, those that differ most first."""
    for member in members(type_):
        is_optional = member.get("optional") or str(member.get("role")).startswith("optional")
        if member["name"] in desc and (is_optional or member["kind"] == "count"):
            yield {name: value for name, value in desc.items() if name != member["name"]}
    yield from _simpler_everywhere(type_, desc)
    for member in members(type_):
        if desc.get(member["name"]) is not None:
            for value in _values(member, desc[member["name"]]):
                yield {**desc, member["name"]: value}


def _simpler_everywhere(type_: str, desc: Desc) -> Iterator[Desc]:
    """Yields descs all of whose tensors are simpler: in rank, type, or one size wherever it occurs."""
    for at in (0, -1):
        if all(len(tensor["Sizes"]) > 1 for tensor in tensors_of(type_, desc)):
            yield _with_tensors(type_, desc, partial(_drop_dimension, at=at))
    for size in sorted({size for tensor in tensors_of(type_, desc) for size in tensor["Sizes"]}, reverse=True):
        for simple in _numbers(size, least=1):
            yield _with_tensors(type_, desc, partial(_resize, before=size, after=simple))
    for name in {tensor["DataType"] for tensor in tensors_of(type_, desc)} - {"FLOAT32"}:
        yield _with_tensors(type_, desc, partial(_retype, before=name))


def _with_tensors(type_: str, desc: Desc, change: Callable[[Desc], None]) -> Desc:
    changed = copy.deepcopy(desc)
    for tensor in tensors_of(type_, changed):
        change(tensor)
    return changed


def _drop_dimension(tensor: Desc, at: int) -> None:
    for name in ("Sizes", "Strides"):
        if tensor.get(name):
            tensor[name].pop(at)


def _resize(tensor: Desc, before: int, after: int) -> None:
    tensor["Sizes"] = [after if size == before else size for size in tensor["Sizes"]]


def _retype(tensor: Desc, before: str) -> None:
    if tensor["DataType"] == before:
        tensor["DataType"] = "FLOAT32"


def _values(member: Desc, value: Any) -> Iterator[Any]:
    """Yields simpler values of a member."""
    match member["kind"]:
        case "tensor":
            yield from _tensors(value)
        case "tensors":
            for i, tensor in enumerate(value):
                yield [*value[:i], *value[i + 1 :]]
                yield from ([*value[:i], each, *value[i + 1 :]] for each in _tensors(tensor))
        case "scalar" if member["number"] != "BOOL":
            yield from _numbers(value)
        case "array":
            for i, number in enumerate(value):
                yield from ([*value[:i], each, *value[i + 1 :]] for each in _numbers(number))
        case "operator" if value != _RELU:
            yield _RELU


_RELU: Desc = {"Type": "ACTIVATION_RELU", "Desc": {}}


def _numbers(value: Any, least: int = 0) -> Iterator[int]:
    """Yields simpler numbers, simplest first; infinities and NaN are text."""
    if isinstance(value, str | float):
        yield from () if value in (-1, 0, 1) else (1, 0, -1)
    elif abs(value) > 1:
        below = {least, 1, 2, 3, value // 2, value - 1 if value > 0 else value + 1}
        yield from (each for each in sorted(below, key=abs) if least <= abs(each) < abs(value))


def _tensors(tensor: Desc) -> Iterator[Desc]:
    """Yields simpler tensors."""
    for name in ("Strides", "Flags", "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"):
        if name in tensor:
            yield {each: value for each, value in tensor.items() if each != name}
    for i, size in enumerate(tensor["Sizes"]):
        for simple in _numbers(size, least=1):
            yield {**tensor, "Sizes": [*tensor["Sizes"][:i], simple, *tensor["Sizes"][i + 1 :]]}
    if tensor["DataType"] != "FLOAT32":
        yield {**tensor, "DataType": "FLOAT32"}
