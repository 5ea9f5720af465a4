"""The words in which ``rules/FAMILY.json`` says where results may differ from DirectML's.

A rule takes what was seen of an output and returns the elements that it explains. It never looks at which case it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opwire.tensor import Array
from tests.directml.computed import UNWRITTEN, Computed

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Seen:
    """An output of a case: opwire's and DirectML's.

    Attributes:
        case: The case.
        output: Name of the output.
        ours: opwire's values.
        theirs: What the card wrote, or the only machine that ran the case.
    """

    case: Computed
    output: str
    ours: Array
    theirs: Array

    def input(self, name: str) -> Array:
        """Returns an input, broadcast to the output where its shape allows that."""
        return np.asarray(np.broadcast_to(self.case.arrays[name], self.ours.shape))

    def aligned(self) -> list[Array]:
        """Returns the float inputs that have an element for every element of the output."""
        arrays = self.case.arrays.values()
        return [array for array in arrays if array.dtype.kind == "f" and array.shape == self.ours.shape]

    @property
    def floats(self) -> list[Array]:
        """The inputs that hold floats."""
        return [array for array in self.case.arrays.values() if array.dtype.kind == "f"]

    @property
    def finfo(self) -> Any:
        """The limits of the output's float type."""
        return np.finfo(self.ours.dtype)


def nan_lost(seen: Seen) -> Mask:
    """opwire gives NaN, DirectML a number."""
    return np.asarray(np.isnan(seen.ours) & ~np.isnan(seen.theirs))


def nan_made(seen: Seen) -> Mask:
    """DirectML gives NaN where opwire gives a value: infinities meet in an intermediate result."""
    return np.asarray(np.isnan(seen.theirs) & ~np.isnan(seen.ours))


def overflows(seen: Seen) -> Mask:
    """opwire gives a number; DirectML an infinity or NaN, from an intermediate result beyond the type's range."""
    return np.isfinite(seen.ours) & ~np.isfinite(seen.theirs)


def neither_is_finite(seen: Seen) -> Mask:
    """Neither gives a finite number, and not the same one: intermediate results overflow elsewhere."""
    return ~np.isfinite(seen.ours) & ~np.isfinite(seen.theirs)


def saturates(seen: Seen) -> Mask:
    """opwire gives an infinity, DirectML the largest number of the type with its sign."""
    ends = np.copysign(seen.finfo.max, seen.ours)
    return np.asarray(np.isinf(seen.ours) & (seen.theirs == ends))


def denormals_are_zero(seen: Seen) -> Mask:
    """An input, of as many elements as the output, is a denormal number, which DirectML takes as zero."""
    found = np.zeros(seen.ours.shape, bool)
    for array in seen.aligned():
        found |= (array != 0) & (np.abs(array) < np.finfo(array.dtype).tiny)
    return found


def denormal_results_are_zero(seen: Seen) -> Mask:
    """opwire gives a denormal number, DirectML zero."""
    return np.asarray((seen.theirs == 0) & (np.abs(seen.ours) < seen.finfo.tiny))


def special_inputs(seen: Seen) -> bool:
    """An input holds NaN or an infinity."""
    return any(not np.isfinite(array).all() for array in seen.floats)


def squares_overflow(seen: Seen) -> bool:
    """An input holds a number whose square is beyond the range of the output's type."""
    beyond = np.sqrt(float(seen.finfo.max))
    return any(bool((np.isfinite(array) & (np.abs(array) > beyond)).any()) for array in seen.floats)


def mean_is_rounded(seen: Seen) -> Mask:
    """Both give numbers no further from each other than the type can tell for the greatest element of the input."""
    source = seen.case.arrays["InputTensor"].astype(np.float64)
    greatest = np.max(np.abs(source[np.isfinite(source)]), initial=0)
    return within(seen, absolute=float(greatest * seen.finfo.eps))


def huge_inputs(seen: Seen, beyond: float) -> bool:
    """An input holds a number beyond a bound, or no number."""
    return any(bool((~(np.abs(array) <= beyond)).any()) for array in seen.floats)


def huge_arguments(seen: Seen, beyond: float) -> Mask:
    """The argument of the element is beyond a bound, or no number."""
    found = np.zeros(seen.ours.shape, bool)
    for array in seen.aligned():
        found |= ~(np.abs(array) <= beyond)
    return found


def within(seen: Seen, absolute: float = 0, relative: float = 0) -> Mask:
    """Both give numbers no further from each other than a bound."""
    ours, theirs = seen.ours.astype(np.float64), seen.theirs.astype(np.float64)
    return np.asarray(np.abs(ours - theirs) <= absolute + relative * np.abs(ours))


def cancels(seen: Seen, relative: float) -> Mask:
    """Both give numbers no further from each other than a share of the operands, of which most cancels."""
    largest = np.max([np.abs(array.astype(np.float64)) for array in seen.aligned()], axis=0)
    return np.asarray(np.abs(seen.ours.astype(np.float64) - seen.theirs) <= relative * largest)


def logarithm_cancels(seen: Seen, relative: float) -> Mask:
    """A negative result is the logarithm of a difference, most of which cancels, or of nothing."""
    ours, theirs = seen.ours.astype(np.float64), seen.theirs.astype(np.float64)
    off = np.abs(ours - theirs) <= relative * np.exp(2 * np.abs(ours))
    return np.asarray((ours < 0) & (off | ~np.isfinite(theirs)))


def nan_as_zero(seen: Seen) -> Mask:
    """DirectML computes an integer from NaN, which is 0, where opwire gives 1."""
    return np.asarray((seen.ours == 1) & (seen.theirs == 0))


def unusual_scales(seen: Seen) -> bool:
    """A scale is 0, or no finite number."""
    scales = [array for name, array in seen.case.arrays.items() if "Scale" in name]
    return any(not (np.isfinite(scale) & (scale != 0)).all() for scale in scales)


def index_out_of_range(seen: Seen) -> Mask:
    """An index that the element is gathered by is out of range; DirectML reads whatever lies at that distance."""
    desc, indices = seen.case.operator["desc"], seen.case.arrays["IndicesTensor"]
    source = seen.case.arrays["InputTensor"].shape
    if "Axis" in desc:
        kept = indices[(0,) * (indices.ndim - desc["IndexDimensions"])]
        wrong = _out_of_range(kept, source[desc["Axis"]])
        return _over(seen, wrong, len(source) - desc["Axis"] - 1)
    batches = desc.get("BatchDimensionCount", 0)
    sizes = source[len(source) - desc["InputDimensionCount"] + batches :]
    tuples = indices[(0,) * (indices.ndim - desc["IndicesDimensionCount"])]
    length = tuples.shape[-1]
    is_wrong = np.any(_out_of_range(tuples, np.array(sizes[:length], object)), axis=-1)
    return _over(seen, np.asarray(is_wrong), len(sizes) - length)


def _out_of_range(indices: Array, size: Any) -> Mask:
    numbers = indices.astype(object)
    return np.asarray((numbers >= size) | (numbers < -size), bool)


def _over(seen: Seen, mask: Mask, behind: int) -> Mask:
    """Returns a mask of some dimensions of the output, with ``behind`` dimensions after them, for all elements."""
    return np.broadcast_to(mask[(..., *(None,) * behind)], seen.ours.shape)


def written_twice(seen: Seen) -> bool:
    """Several updates go to one place, or none has a place, since indices are out of range."""
    desc, indices = seen.case.operator["desc"], seen.case.arrays["IndicesTensor"]
    if "Axis" in desc:
        rows = np.sort(np.moveaxis(indices, desc["Axis"], -1), axis=-1)
        return bool((rows[..., 1:] == rows[..., :-1]).any())
    tuples = indices.reshape(-1, indices.shape[-1])
    sizes = seen.ours.shape[seen.ours.ndim - desc["InputDimensionCount"] :][: tuples.shape[-1]]
    repeated = len(np.unique(tuples, axis=0)) < len(tuples)
    return repeated or bool(_out_of_range(tuples, np.array(sizes, object)).any())


def nan_beside(seen: Seen) -> Mask:
    """NaN is among the elements that the element is compared with; DirectML leaves their order to its algorithm."""
    desc, source = seen.case.operator["desc"], seen.case.arrays["InputTensor"]
    axes = desc.get("Axes", [desc.get("Axis", source.ndim - 1)])
    found = np.isnan(source).any(axis=tuple(set(axes)), keepdims=True)
    return np.broadcast_to(found, seen.ours.shape)


def value_behind_the_last_dimension(seen: Seen) -> bool:
    """The last dimension of the values has one element; DirectML reads the second at that dimension's stride."""
    values = seen.case.plan.inputs["ValuesTensor"]
    return values.sizes[-1] == 1 and values.strides is not None


def unwritten(seen: Seen) -> Mask:
    """DirectML left the element as it was before."""
    raw = np.full(1, UNWRITTEN, np.uint8).repeat(seen.ours.dtype.itemsize).view(seen.ours.dtype)
    same: Mask = np.ascontiguousarray(seen.theirs).view(f"u{seen.ours.dtype.itemsize}") == raw.view(
        f"u{seen.ours.dtype.itemsize}"
    )
    return same


RULES: dict[str, Callable[..., Mask | bool]] = {
    "NaN is lost": nan_lost,
    "NaN is made": nan_made,
    "overflows": overflows,
    "neither is finite": neither_is_finite,
    "saturates": saturates,
    "denormals are zero": denormals_are_zero,
    "denormal results are zero": denormal_results_are_zero,
    "special inputs": special_inputs,
    "squares overflow": squares_overflow,
    "mean is rounded": mean_is_rounded,
    "huge inputs": huge_inputs,
    "huge arguments": huge_arguments,
    "within": within,
    "cancels": cancels,
    "logarithm cancels": logarithm_cancels,
    "NaN as zero": nan_as_zero,
    "unusual scales": unusual_scales,
    "index out of range": index_out_of_range,
    "written twice": written_twice,
    "NaN beside": nan_beside,
    "value behind the last dimension": value_behind_the_last_dimension,
    "unwritten": unwritten,
}
"""The rules by name."""
