"""The structures that kernels take as parameters, and their constants: declared in the sources, and read from there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from .job import source_text

Structure = np.dtype[np.void]

_NUMBERS = {"u32": "<u4", "i32": "<i4", "u64": "<u8", "i64": "<i8", "float": "<f4", "double": "<f8"}
_ADDRESS = "<u8"

_STRUCT = r"^struct {name} \{{\n(?P<members>.*?)^\}};"
_COMMENT = re.compile(r"//.*")
_MEMBERS = re.compile(r"(?:const )?(?P<type>\w+)(?:<.*?>)?\s+(?P<names>[^;]+);")
_MEMBER = re.compile(r"(?P<pointer>\*?)(?P<name>\w+)(?:\[(?P<count>[^]]+)\])?")
_CONSTANTS = re.compile(r"^const (?:u32|int) (?P<values>.*?);", re.MULTILINE)
_CONSTANT = re.compile(r"(?P<name>\w+) = (?P<value>\d+)")


def structure(name: str, *sources: str, **macros: int) -> Structure:
    """Returns the memory layout of a structure.

    Args:
        name: its name.
        sources: the source files that declare it and the structures and constants in it; see ``Program.sources``.
        macros: the numbers that these files take from macros.
    """
    return _structure(name, sources, tuple(macros.items()))


@cache
def constant(name: str, source: str) -> int:
    """Returns a constant that a source file declares."""
    return _constants(source_text(source))[name]


def _constants(text: str) -> dict[str, int]:
    values = (each for found in _CONSTANTS.finditer(text) for each in found["values"].split(", "))
    return {found["name"]: int(found["value"]) for found in map(_CONSTANT.fullmatch, values) if found}


@cache
def _structure(name: str, sources: tuple[str, ...], macros: tuple[tuple[str, int], ...]) -> Structure:
    text = "\n".join(map(source_text, sources))
    found = re.search(_STRUCT.format(name=name), text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise KeyError(name)
    constants = _constants(text) | dict(macros)

    def type_of(member: str) -> Any:
        return _NUMBERS.get(member) or _structure(member, sources, macros)

    fields = [
        (member["name"], _ADDRESS if member["pointer"] else type_of(line["type"]), _shape(member["count"], constants))
        for line in _MEMBERS.finditer(_COMMENT.sub("", found["members"]))
        for member in _declared(line["names"])
    ]
    return np.dtype(fields, align=True)


def _declared(names: str) -> Iterator[re.Match[str]]:
    for each in names.split(","):
        found = _MEMBER.fullmatch(each.strip())
        assert found is not None, names
        yield found


def _shape(count: str | None, constants: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the shape of a member, whose count is a sum of numbers and constants."""
    if count is None:
        return ()
    terms = (each.strip() for each in count.split("+"))
    return (sum(int(each) if each.isdigit() else constants[each] for each in terms),)
