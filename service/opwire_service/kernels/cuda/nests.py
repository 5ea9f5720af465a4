"""Nested loops that walk several tensors at once, and the offset of an index in each of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array, BufferTensorDesc


class NestLoop(NamedTuple):
    """A loop: its size, and its element step in each tensor."""

    size: int
    steps: tuple[int, ...]


Nest = tuple[NestLoop, ...]
"""Loops, outermost first."""


def division(size: int) -> tuple[int, int, int]:
    """Returns the magic numbers that replace a 32-bit division by multiplication: a factor and two shifts."""
    bits = (size - 1).bit_length()
    factor = (2**32 * (2**bits - size)) // size + 1
    return factor, min(bits, 1), max(bits - 1, 0)


def write_nest(nest: Nest, into: Array) -> None:
    """Writes a nest to the structure ``Nest`` of ``nests.cu``; steps may be negative."""
    into["count"] = len(nest)
    for i, axis in enumerate(reversed(nest)):
        steps = [step % 2**32 for step in axis.steps]
        into["axis"][i] = (axis.size, *division(axis.size), steps)


def merged(axes: Iterable[NestLoop]) -> Nest:
    """Drops loops of size 1, and merges each loop into the enclosing one where a single step covers both."""
    found: list[NestLoop] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if found and all(a == b * axis.size for a, b in zip(found[-1].steps, axis.steps, strict=True)):
            found[-1] = NestLoop(found[-1].size * axis.size, axis.steps)
        else:
            found.append(axis)
    return tuple(found)


def size_of(nest: Nest) -> int:
    """Returns the number of indices of a nest."""
    return prod(axis.size for axis in nest)


def in_packs(nest: Nest, lanes: int) -> Nest:
    """Returns the nest over packs of ``lanes`` adjacent elements of the innermost loop."""
    if lanes == 1:
        return nest
    inner = nest[-1]
    return (*nest[:-1], NestLoop(inner.size // lanes, tuple(step * lanes for step in inner.steps)))


def offsets(nest: Nest, indices: Array, tensor: int) -> Array:
    """Returns the int64 offsets of indices in a tensor."""
    rest = indices.astype(np.int64)
    found = np.zeros(rest.shape, np.int64)
    for axis in reversed(nest):
        rest, place = np.divmod(rest, axis.size)
        found += place * axis.steps[tensor]
    return found


def stretched_strides(desc: BufferTensorDesc | None, sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a tensor broadcast to ``sizes``; all 0 if there is no tensor."""
    if desc is None:
        return (0,) * len(sizes)
    missing = len(sizes) - desc.rank
    strides = (0,) * missing + tuple(desc.element_strides)
    own = (1,) * missing + tuple(desc.sizes)
    return tuple(0 if one == 1 else step for one, step in zip(own, strides, strict=True))


def coordinates_at(desc: BufferTensorDesc, place: int) -> tuple[int, ...]:
    """Returns the coordinate of the element at a memory position of a dense tensor."""
    found, strides = [0] * desc.rank, desc.element_strides
    for i in sorted(range(desc.rank), key=strides.__getitem__, reverse=True):
        if desc.sizes[i] > 1:
            found[i], place = divmod(place, strides[i])
    return tuple(found)


def strided(desc: BufferTensorDesc, flat: Array) -> Array:
    """Returns a tensor as a strided view of the elements of its extent."""
    strides = [step * flat.itemsize for step in desc.element_strides]
    view: Array = np.lib.stride_tricks.as_strided(flat, desc.sizes, strides, writeable=False)
    return view
