"""Draws the values of members as JSON, by kind of member."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from opwire.fields import Array, Enumerated, Member, Nested, NestedArray, Scalar, Struct, TypeChoice, Union
from opwire.level import FeatureLevel
from opwire.schema import schema_of

Value = st.SearchStrategy[Any]

NUMBERS: dict[str, Callable[[int], Value]] = {
    "FLOAT": lambda least: st.floats(-100, 100, width=32) | st.sampled_from(["inf", "-Infinity", 3]),
    "UINT": lambda least: st.integers(least, 4),
    "INT": lambda least: st.integers(max(least, -4), 4),
    "BOOL": lambda least: st.booleans(),
}


def _scalar(member: Scalar, level: FeatureLevel) -> Value:
    return NUMBERS[member.number.name](member.least or 0)


def _array(member: Array, level: FeatureLevel) -> Value:
    return st.lists(NUMBERS[member.number.name](member.least or 0), min_size=8, max_size=8)


def _enum(member: Enumerated, level: FeatureLevel) -> Value:
    names = [row.name for row in member.type if member.later.get(row, level) <= level]
    written = [spelling for name in names for spelling in (name, member.prefix + name, member.values[name])]
    return st.sampled_from(written)


def _struct(member: Struct, level: FeatureLevel) -> Value:
    two = {"DML_SCALE_BIAS": ("Scale", "Bias", "FLOAT"), "DML_SIZE_2D": ("Width", "Height", "UINT")}
    first, second, number = two[member.struct]
    return st.fixed_dictionaries({name: NUMBERS[number](1) for name in (first, second)})


def _nested(member: Nested | NestedArray, level: FeatureLevel) -> Value:
    names = [name for name, since in member.activations.items() if since <= level]
    return st.sampled_from(names).flatmap(lambda name: _operator(name, level))


def _operator(name: str, level: FeatureLevel) -> Value:
    fields = {m.name: value(m, level) for m in schema_of(name).members.attributes if not m.optional}
    fields |= {name: st.just(1.5) for name in ("Alpha", "Steepness") if name in fields}
    kinds = st.sampled_from([{"Type": name}, {"type": f"DML_OPERATOR_{name}"}])
    desc = st.fixed_dictionaries(fields)
    return st.tuples(kinds, desc, st.booleans()).map(
        lambda drawn: {**drawn[0], **drawn[1]} if drawn[2] else {**drawn[0], "Desc": drawn[1]}
    )


VALUES: dict[type[Member], Callable[[Any, FeatureLevel], Value]] = {
    Scalar: _scalar,
    Array: _array,
    Enumerated: _enum,
    TypeChoice: lambda member, level: st.just("FLOAT32"),
    Struct: _struct,
    Union: lambda member, level: st.integers(0, 100),
    Nested: _nested,
    NestedArray: lambda member, level: st.lists(_nested(member, level), min_size=1, max_size=2),
}


def value(member: Member, level: FeatureLevel) -> Value:
    """Draws the value of an attribute, without regard to other members; arrays have eight elements."""
    return VALUES[type(member)](member, level)
