"""Slices of a tensor, and their gradient.

Source: the pages of ``DML_SLICE_OPERATOR_DESC``, ``DML_SLICE1_OPERATOR_DESC`` and ``DML_SLICE_GRAD_OPERATOR_DESC``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..operator import Attributes, BadExample, Example, Tensors, declare
from ..rules import (
    Derived,
    Rule,
    Sizes,
    Undecided,
    Values,
    at_least,
    computable,
    length_is,
    nonzero,
    observed,
    rank,
    same_rank,
    same_type,
)
from ..violation import Code, Fault
from .work import elements_written

_OFFSETS, _SIZES, _STRIDES = "InputWindowOffsets", "InputWindowSizes", "InputWindowStrides"


@dataclass(frozen=True, slots=True)
class SliceNotEmpty(Rule):
    """A slice is not empty; DirectML has no empty tensors."""

    code = Code.OUT_OF_RANGE
    members = ("Sizes",)

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, size in enumerate(values["Sizes"]):
            if size < 1:
                yield Fault(self.code, ("Sizes", i), "0 elements given; a slice must have at least 1 in each dimension")


@dataclass(frozen=True, slots=True)
class SliceFits(Rule):
    """The last element of a slice along each dimension is inside the input."""

    code = Code.OUT_OF_RANGE
    members = ("InputTensor", "Offsets", "Sizes", "Strides")

    def faults(self, values: Values) -> Iterator[Fault]:
        taken = zip(values["Offsets"], values["Sizes"], values["Strides"], strict=True)
        for i, ((offset, size, stride), whole) in enumerate(zip(taken, values["InputTensor"].sizes, strict=False)):
            last = offset + stride * max(size - 1, 0)
            if last >= whole:
                message = f"the slice extends to element {last} of dimension {i}; InputTensor has only {whole}"
                yield Fault(self.code, ("Offsets", i), message)


@dataclass(frozen=True, slots=True)
class WindowInside(Rule):
    """The window of a slice is inside the sliced tensor."""

    code = Code.OUT_OF_RANGE
    members = (_OFFSETS, _SIZES)

    sliced: str

    def faults(self, values: Values) -> Iterator[Fault]:
        windows = zip(values[_OFFSETS], values[_SIZES], values[self.sliced].sizes, strict=False)
        for i, (offset, size, whole) in enumerate(windows):
            if offset + size > whole:
                message = (
                    f"the window ends at {offset + size} in dimension {i}; {self.sliced} has only {whole} elements"
                )
                yield Fault(self.code, (_SIZES, i), message)


@dataclass(frozen=True, slots=True)
class StrideIsSigned(Rule):
    """Strides fit in 31 bits, even where a slice of one element does not use them."""

    code = Code.OUT_OF_RANGE
    members = ("Strides",)

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, stride in enumerate(values["Strides"]):
            if stride >= 2**31:
                yield Fault(self.code, ("Strides", i), f"{stride} given; a stride must be less than 2^31")


@dataclass(frozen=True, slots=True)
class GradientReaches(Rule):
    """The elements of the gradient, a stride apart from the offset on, fit in the output."""

    code = Code.OUT_OF_RANGE
    members = ("InputGradientTensor", "OutputGradientTensor", _OFFSETS, _STRIDES)

    def faults(self, values: Values) -> Iterator[Fault]:
        counts, wholes = values["InputGradientTensor"].sizes, values["OutputGradientTensor"].sizes
        taken = zip(values[_OFFSETS], counts, values[_STRIDES], wholes, strict=False)
        for i, (offset, count, stride, whole) in enumerate(taken):
            last = (offset + (count - 1) * abs(stride)) % 2**32  # as DirectML computes it
            if last >= whole:
                message = f"the gradient extends to element {last} of dimension {i} of an output with only {whole}"
                yield Fault(self.code, (_OFFSETS, i), message)


def _steps(values: Values) -> tuple[int, ...]:
    """Returns the number of elements that the window has along each dimension, given its strides."""
    pairs = zip(values[_SIZES], values[_STRIDES], strict=False)
    return tuple(1 + (size - 1) // max(abs(stride), 1) for size, stride in pairs)


def _offered(values: Values) -> Sizes:
    """Returns sizes of up to all elements of the windows."""
    return tuple(range(most, 0, -1) for most in _steps(values))


@dataclass(frozen=True, slots=True)
class GradientFits(Rule):
    """The gradient of a slice has no more elements than its window."""

    code = Code.SIZES_MISMATCH
    members = (*GradientReaches.members, _SIZES)

    def faults(self, values: Values) -> Iterator[Fault]:
        if 0 in values[_SIZES] or any(GradientReaches().faults(values)):
            return
        for i, (given, most) in enumerate(zip(values["InputGradientTensor"].sizes, _steps(values), strict=False)):
            if given > most:
                message = f"size {given} given for dimension {i} of InputGradientTensor; the window has only {most}"
                yield Fault(self.code, ("InputGradientTensor", "Sizes", i), message)


def _gradient_written(attributes: Attributes, tensors: Tensors) -> int:
    count: int = tensors["OutputGradientTensor"].element_count
    return count


def _slice(sizes: list[int], offsets: list[int], taken: list[int], strides: list[int]) -> dict[str, Any]:
    tensor = {"DataType": "FLOAT32", "Sizes": sizes}
    return {"InputTensor": tensor, "Offsets": offsets, "Sizes": taken, "Strides": strides}


def _window(offsets: list[int], sizes: list[int], strides: list[int], **tensors: list[int]) -> dict[str, Any]:
    given = {name: {"DataType": "FLOAT32", "Sizes": sizes} for name, sizes in tensors.items()}
    return {**given, _OFFSETS: offsets, _SIZES: sizes, _STRIDES: strides}


_SQUARE = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]

SLICES = (
    declare(
        "SLICE",
        rules=(length_is(rank("InputTensor"), "Offsets"), SliceNotEmpty(), SliceFits(), observed(StrideIsSigned())),
        outputs={
            "OutputTensor": Derived(lambda values: tuple((size,) for size in values["Sizes"]), like="InputTensor")
        },
        work=elements_written,
        examples=(
            Example(
                "block",
                _slice([1, 1, 4, 4], [0, 0, 1, 2], [1, 1, 3, 2], [1, 1, 1, 1]),
                {"InputTensor": _SQUARE},
                {"OutputTensor": [[[[7, 8], [11, 12], [15, 16]]]]},
                source="DML_SLICE_OPERATOR_DESC, worked example",
            ),
            Example(
                "strided",
                _slice([1, 1, 4, 4], [0, 0, 1, 0], [1, 1, 2, 2], [1, 1, 2, 3]),
                {"InputTensor": _SQUARE},
                {"OutputTensor": [[[[5, 8], [13, 16]]]]},
                source="DML_SLICE_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample("beyond_the_input", _slice([4, 4], [0, 2], [4, 2], [1, 2]), Code.OUT_OF_RANGE, "/Offsets/1"),
            BadExample("too_few_numbers", _slice([4, 4], [0], [4], [1]), Code.COUNT_MISMATCH, "/Offsets"),
        ),
    ),
    declare(
        "SLICE1",
        rules=(length_is(rank("InputTensor"), _OFFSETS), nonzero(_STRIDES), WindowInside("InputTensor")),
        outputs={"OutputTensor": Derived(_offered, like="InputTensor")},
        work=elements_written,
        examples=(
            Example(
                "strided",
                _window([0, 0, 0, 1], [1, 1, 4, 3], [1, 1, 2, 2], InputTensor=[1, 1, 4, 4]),
                {"InputTensor": _SQUARE},
                {"OutputTensor": [[[[2, 4], [10, 12]]]]},
                source="DML_SLICE1_OPERATOR_DESC, worked example",
            ),
            Example(
                "backwards",
                _window([0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2], InputTensor=[1, 1, 4, 4]),
                {"InputTensor": _SQUARE},
                {"OutputTensor": [[[[14, 16], [6, 8]]]]},
                source="DML_SLICE1_OPERATOR_DESC, worked example",
            ),
        ),
        bad_examples=(
            BadExample(
                "window_outside", _window([0, 2], [4, 3], [1, 1], InputTensor=[4, 4]), Code.OUT_OF_RANGE, f"/{_SIZES}/1"
            ),
            BadExample(
                "more_than_the_window_offers",
                _window([0, 0], [4, 4], [1, -3], InputTensor=[4, 4], OutputTensor=[4, 3]),
                Code.SIZES_MISMATCH,
                "/OutputTensor/Sizes/1",
            ),
        ),
    ),
    declare(
        "SLICE_GRAD",
        rules=(
            length_is(rank("InputGradientTensor"), _OFFSETS),
            nonzero(_STRIDES),
            same_type("InputGradientTensor", "OutputGradientTensor"),
            same_rank("InputGradientTensor", "OutputGradientTensor"),
            WindowInside("OutputGradientTensor"),
            observed(GradientReaches()),
            computable(at_least(1, _SIZES), GradientFits()),
        ),
        outputs={"OutputGradientTensor": Undecided()},
        work=_gradient_written,
        examples=(
            Example(
                "spread",
                _window([0, 0], [3, 3], [2, 2], InputGradientTensor=[2, 2], OutputGradientTensor=[4, 4]),
                {"InputGradientTensor": [[1, 3], [9, 11]]},
                {"OutputGradientTensor": [[1, 0, 3, 0], [0, 0, 0, 0], [9, 0, 11, 0], [0, 0, 0, 0]]},
                source="DML_SLICE_GRAD_OPERATOR_DESC, worked example with numbers in place of letters",
            ),
        ),
        bad_examples=(
            BadExample("without_output", _window([0], [3], [1], InputGradientTensor=[3]), Code.MISSING_FIELD, ""),
            BadExample(
                "more_than_the_window_offers",
                _window([0], [3], [1], InputGradientTensor=[4], OutputGradientTensor=[4]),
                Code.NOT_COMPUTABLE,
                "/InputGradientTensor/Sizes/0",
            ),
        ),
    ),
)
