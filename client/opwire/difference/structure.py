"""Where the wrong elements of a tensor are, and simple relations between it and the exact one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from ..tensor import Array
from .evidence import Evidence


def structure_of(evidence: Evidence) -> Iterator[str]:
    """Yields what the wrong elements have in common, the most definite first."""
    wrong = evidence.unlikely.reshape(evidence.sizes)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return
    if count == 1:
        at = [int(each[0]) for each in np.nonzero(wrong)]
        yield f"1 element, at {at}"
        return
    yield from _one_index(wrong, evidence.exact.reshape(evidence.sizes))
    yield from _related(evidence)
    yield from _moved(evidence)
    if count <= max(8, 1e-3 * wrong.size):
        yield f"{count} elements"


def _one_index(wrong: Array, exact: Array) -> Iterator[str]:
    """Yields the index along an axis that all wrong elements have, if many of those of the index are wrong."""
    places = np.nonzero(wrong)
    fixed = [
        (axis, int(place[0]))
        for axis, place in enumerate(places)
        if wrong.shape[axis] > 1 and place.min() == place.max()
    ]
    for axis, index in fixed:
        changeable = np.count_nonzero(exact.take(index, axis))  # a factor changes no zeros
        if len(fixed) == 1 and np.count_nonzero(wrong.take(index, axis)) * 4 >= changeable:
            yield f"channel {index} of axis {axis}" if axis == 1 else f"index {index} of axis {axis}"
    if len(fixed) > 1:
        yield "the elements at " + ", ".join(f"index {index} of axis {axis}" for axis, index in fixed)


def _related(evidence: Evidence) -> Iterator[str]:
    """Yields the factor or offset between the tensor and the exact one."""
    actual, exact = evidence.actual, evidence.exact
    if exact.dtype.kind != "f" or exact.size < 4:
        return
    finite = np.isfinite(actual) & np.isfinite(exact)
    a, b = actual[finite].astype(np.float64), exact[finite].astype(np.float64)
    if a.size < 4 or not np.dot(b, b):
        return
    factor = float(np.dot(a, b) / np.dot(b, b))
    if not factor:
        yield "all elements are zero"
    elif evidence.is_likely((exact.astype(np.float64) * factor).astype(exact.dtype), 2):
        yield f"{factor:.6g} times the exact result"
    offset = float(np.median(a - b))
    if evidence.is_likely((exact.astype(np.float64) + offset).astype(exact.dtype), 2):
        yield f"the exact result plus {offset:.6g}"
    yield from _along_an_axis(evidence)


def _along_an_axis(evidence: Evidence) -> Iterator[str]:
    """Yields an axis along which each index has an offset of its own, as a bias does."""
    difference = (evidence.actual.astype(np.float64) - evidence.exact.astype(np.float64)).reshape(evidence.sizes)
    for axis, size in enumerate(evidence.sizes):
        others = tuple(each for each in range(difference.ndim) if each != axis)
        if not 1 < size < difference.size // 2:
            continue
        offsets = np.median(difference, axis=others, keepdims=True)
        moved = evidence.exact.astype(np.float64).reshape(evidence.sizes) + offsets
        if evidence.is_likely(moved.astype(evidence.exact.dtype).reshape(-1), 2):
            yield f"an offset for each index of axis {axis}, as of a bias that is left out or added"


def _moved(evidence: Evidence) -> Iterator[str]:
    """Yields how the elements of the exact tensor are arranged otherwise."""
    exact = evidence.exact.reshape(evidence.sizes)
    ours, theirs = (np.sort(each).astype(np.float64) for each in (evidence.exact, evidence.actual))
    if not np.allclose(theirs, ours, rtol=1e-2, atol=1e-6, equal_nan=True):
        return
    for axis, size in enumerate(evidence.sizes):
        if size > 1 and evidence.is_likely(np.ascontiguousarray(np.flip(exact, axis)).reshape(-1), 4):
            yield f"reversed along axis {axis}"
    if exact.ndim <= 5:
        for order in permutations(range(exact.ndim)):
            turned = np.ascontiguousarray(exact.transpose(order)).reshape(-1)
            if evidence.is_likely(turned, 4):
                yield f"axes in the order {[*order]}"
    for axis, size in enumerate(evidence.sizes):
        for by in {1, -1, size // 2} - {0}:
            if size > 1 and evidence.is_likely(np.ascontiguousarray(np.roll(exact, by, axis)).reshape(-1), 4):
                yield f"shifted by {by} along axis {axis}"
