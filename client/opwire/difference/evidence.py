"""What is known of a tensor that is not exact: its errors, those it may have, and how to compute it otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import OpwireError
from ..tensor import Array
from .bounds import SLICE, Errors, Limit, apart, moved, signs, spacing, unit
from .chain import Chain, Key
from .subjects import Runner, Subject, SubjectNode

_FEW = 0.01
"""The share of integers that may differ by 1 from those of a variant: quotients near a tie are rounded otherwise."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A tensor of a side that is not the exact one.

    Attributes:
        actual, exact: the elements, one after the other.
        sizes: its sizes.
        limit: the errors that it may have.
        chain: the operators that compute it, if they can be varied.
        key: its buffer in the chain.
        others: yields variants of the node in the model's own words, as chains that have not run, with their buffers.
        is_alone: whether the errors are of the node alone, so that what it does otherwise can be known.
    """

    actual: Array
    exact: Array
    sizes: tuple[int, ...]
    limit: Limit
    chain: Chain | None
    key: Key | None
    others: Callable[[], Iterator[tuple[str, Chain, Key]]]
    is_alone: bool = True

    def is_likely(self, other: Array, room: float = 1) -> bool:
        """Returns whether every element is as near to another tensor as is likely for the exact one."""
        if other.shape != self.actual.shape:
            return False
        return all(self._beyond(part, other, room) == 0 for part in self._parts())

    def is_about(self, other: Array) -> bool:
        """Returns whether it is as near to a variant as a backend that computes that variant would be."""
        if other.shape != self.actual.shape:
            return False
        if self.exact.dtype.kind == "f":
            # Elements that have few terms may have many in the variant, and errors as those of others.
            return all(
                np.all(apart(self.actual[part], other[part]) <= 2 * np.maximum(self.limit(part).likely, self._usual))
                for part in self._parts()
            )
        away = apart(self.actual, other)
        return bool(np.count_nonzero(away) <= _FEW * away.size and away.max(initial=0) <= 1)

    def _beyond(self, part: slice, other: Array, room: float) -> int:
        error = apart(self.actual[part], other[part])
        return int(np.count_nonzero(error > room * self.limit(part).likely))

    @cached_property
    def _usual(self) -> float:
        """The likely error that nine elements in ten do not exceed, of the first ones."""
        return float(np.quantile(self.limit(slice(0, SLICE)).likely, 0.9))

    @cached_property
    def beyond_possible(self) -> int:
        return sum(
            int(np.count_nonzero(apart(self.actual[part], self.exact[part]) > self.limit(part).possible))
            for part in self._parts()
        )

    @cached_property
    def excess(self) -> float:
        """The largest error as a multiple of what is likely."""
        found = 0.0
        for part in self._parts():
            error = apart(self.actual[part], self.exact[part])
            likely = np.maximum(self.limit(part).likely, 1e-300)
            found = max(found, float(np.max(error / likely, initial=0)))
        return found

    @cached_property
    def unlikely(self) -> Array:
        """Which elements are further from the exact ones than is likely."""
        found = np.zeros(self.exact.size, np.bool_)
        for part in self._parts():
            found[part] = apart(self.actual[part], self.exact[part]) > self.limit(part).likely
        return found

    def _parts(self) -> list[slice]:
        return [slice(start, start + SLICE) for start in range(0, self.exact.size, SLICE)]

    def distance(self, other: Array) -> float:
        """Returns the root of the mean squared error from another tensor; infinite if any is not finite."""
        total = 0.0
        for part in self._parts():
            error = apart(self.actual[part], other[part])
            with np.errstate(over="ignore"):
                total += float(np.square(error).sum())
        return float(np.sqrt(total / max(self.exact.size, 1)))

    def elements(self, buffers: Mapping[Key, Array], key: Key | None = None) -> Array | None:
        """Returns the elements of the tensor among the buffers of a varied chain, as the model has them."""
        key = key or self.key
        found = None if key is None else buffers.get(key)
        if found is None or found.size != self.exact.size:
            return None
        if found.dtype.itemsize != self.exact.dtype.itemsize:
            return None
        return found if found.dtype == self.exact.dtype else found.view(self.exact.dtype)


def sampled(
    subject: Subject,
    node: SubjectNode,
    before: Sequence[SubjectNode],
    tensors: Mapping[str, Array],
    runner: Runner,
    name: str,
    exact: Array,
) -> Limit:
    """Returns the errors of a tensor whose nodes have no operators that can be varied, from inputs that move."""
    flat = np.ascontiguousarray(exact).reshape(-1)
    if flat.dtype.kind != "f":
        return lambda part: Errors(np.zeros(flat[part].size), np.zeros(flat[part].size))
    largest = np.zeros(flat.size)
    for seed in range(4):
        known = {each: _moved(array, seed) for each, array in tensors.items()}
        try:
            for each in (*before, node):
                known |= subject.run(each, known, runner)
        except OpwireError:
            break
        found = np.ascontiguousarray(known[name]).reshape(-1)
        if found.shape == flat.shape:
            np.fmax(largest, np.nan_to_num(apart(found, flat), posinf=0), out=largest)

    def at(part: slice) -> Errors:
        likely = 16 * largest[part] + 16 * spacing(flat[part])
        return Errors(likely, 16 * likely)

    return at


def _moved(array: Array, seed: int) -> Array:
    if array.dtype.kind != "f" or array.size == 0:
        return array
    by = np.nan_to_num(np.abs(array.astype(np.float64)), posinf=0) * 2 * unit(array.dtype)
    return moved(array.reshape(-1), by.reshape(-1) * signs(seed, array.size, 0)).reshape(array.shape)
