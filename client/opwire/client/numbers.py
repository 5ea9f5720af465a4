"""Numbers in place of tensors: tensors of one element, whose data type and sizes follow from the other operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..fields import TensorMember
from ..level import HIGHEST
from ..operators import OPERATORS
from ..rules.tensors import SameRank, SameSizes, SameType
from ..support import row_for
from ..tensor import Array, DataType
from .arrays import Strided, number_of, strided
from .signatures import argument_name


def filled(operator: str, member: TensorMember, value: Any, given: Mapping[str, Array]) -> Strided:
    """Returns the tensor that a number stands for.

    It has the data type and the rank of the operands that it must agree with, or else of the first one; where it must
    have their sizes, strides of 0 repeat its element.

    Args:
        operator: the name of the operator type.
        member: the tensor.
        value: a number of Python or NumPy; the latter has a data type of its own.
        given: the operands that are arrays.

    Raises:
        TypeError: there are no other operands, the data type cannot be known, or it lacks the number.
    """
    what = f"{argument_name(member.name)} is {value!r}"
    if not given:
        raise TypeError(f"{what}; its data type must be known: use numpy.array(..., dtype=...)")
    data_type = _data_type(operator, member, value, given, what)
    number = number_of(value, data_type)
    if number is None:
        raise TypeError(f"{what}, which is no {data_type.name}")
    with np.errstate(over="ignore"):  # a large number is infinite, as in NumPy
        element = np.full((), number).astype(data_type.dtype)
    return strided(np.broadcast_to(element, _sizes(operator, member, given)))


def _data_type(operator: str, member: TensorMember, value: Any, given: Mapping[str, Array], what: str) -> DataType:
    if isinstance(value, np.number):
        return DataType.of(value.dtype)
    allowed, _ = _limits(operator, member)
    equal = [DataType.of(array.dtype) for array in _bound(operator, member, given, SameType)]
    known = [each for each in (*equal, DataType.of(next(iter(given.values())).dtype)) if each in allowed]
    if not known and len(allowed) > 1:
        names = ", ".join(each.name for each in allowed)
        raise TypeError(f"{what}; its data type may be any of {names}: use numpy.array(..., dtype=...)")
    return (equal or known or allowed)[0]


def _sizes(operator: str, member: TensorMember, given: Mapping[str, Array]) -> tuple[int, ...]:
    for array in _bound(operator, member, given, SameSizes):
        return array.shape
    _, (least, greatest) = _limits(operator, member)
    same = [*_bound(operator, member, given, SameRank), *given.values()]
    return (1,) * min(max(same[0].ndim, least), greatest)


def _limits(operator: str, member: TensorMember) -> tuple[list[DataType], tuple[int, int]]:
    """Returns the data types and ranks of a tensor at the highest level, with any attributes."""
    types: list[DataType] = []
    ranks: list[int] = []
    for _, rows in OPERATORS[operator].support.groups:
        row = row_for(rows, HIGHEST)
        if row is not None:
            limits = row.tensors[member.name]
            types += [each for each in limits.data_types if each not in types]
            ranks += limits.ranks
    return types, (min(ranks), max(ranks))


def _bound(
    operator: str,
    member: TensorMember,
    given: Mapping[str, Array],
    kind: type[SameType] | type[SameSizes] | type[SameRank],
) -> Iterator[Array]:
    """Yields the operands that the rules of a kind relate a tensor to."""
    for whole in OPERATORS[operator].rules:
        for rule, _ in whole.parts():
            if isinstance(rule, kind) and member.name in rule.tensors and getattr(rule, "but_along", None) is None:
                yield from (given[each] for each in rule.tensors if each in given)
