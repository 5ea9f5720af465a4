"""What the operators with ``Axes`` share: the rules on axes and the sizes they leave."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..operator import Code, Fault, Tensors


def axis_faults(axes: tuple[int, ...], tensors: Tensors) -> Iterator[Fault]:
    """Every axis must be below the rank and named once. DirectML does not say what two equal axes mean."""
    rank = tensors["InputTensor"].rank
    seen: set[int] = set()
    for i, axis in enumerate(axes):
        if axis >= rank:
            yield Fault(
                Code.AXIS_OUT_OF_RANGE,
                ("Axes", i),
                f"axis {axis} given for an InputTensor of rank {rank}; axes go from 0 to {rank - 1}",
                list(range(rank)),
            )
        elif axis in seen:
            yield Fault(Code.DUPLICATE_AXIS, ("Axes", i), f"axis {axis} is given more than once")
        seen.add(axis)


def reduced_sizes(axes: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The one size that each dimension of the output may have: 1 where reduced, else that of the input."""
    return tuple((1,) if i in axes else (size,) for i, size in enumerate(sizes))


def reduced_count(axes: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """Elements that go into one element of the output."""
    return prod(sizes[axis] for axis in axes)


def elements_visited(attributes: object, tensors: Tensors) -> int:
    """A reduction visits each logical element of its input once."""
    return tensors["InputTensor"].element_count
