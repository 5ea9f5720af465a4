"""Sliding windows over the spatial dimensions of a tensor, and the rules of pooling operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..violation import Code, Fault
from .dimension import Dimension
from .rule import Rule, Values, listed

PADDINGS = ("StartPadding", "EndPadding")
_ARRAYS = ("Strides", "WindowSize", *PADDINGS)
_DILATED = (*_ARRAYS, "Dilations")


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a pooling operator: the tensor that they slide over, and whether they can be dilated."""

    over: str = "InputTensor"
    dilated: bool = True

    @property
    def arrays(self) -> tuple[str, ...]:
        """The attributes with one number per spatial dimension."""
        return _DILATED if self.dilated else _ARRAYS

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.over, *self.arrays))

    def dimensions(self, values: Values) -> list[Dimension]:
        """Returns the spatial dimensions, outermost first, or none if the attributes have the wrong lengths."""
        spatial = values[self.over].sizes[2:]
        arrays = [values[name] for name in self.arrays]
        if {len(spatial), *map(len, arrays)} != {len(spatial)}:
            return []
        if not self.dilated:
            arrays.append((1,) * len(spatial))
        return [Dimension(*members) for members in zip(spatial, *arrays, strict=True)]

    def output_sizes(self, values: Values) -> tuple[Sequence[int], ...]:
        """Returns the allowed sizes of the output: for each spatial dimension the floor size, then the ceiling size."""
        sizes = values[self.over].sizes
        spatial = (dimension.output_sizes for dimension in self.dimensions(values))
        return ((sizes[0],), (sizes[1],), *spatial)


@dataclass(frozen=True, slots=True)
class Spatial(Rule):
    """Arrays have one number per spatial dimension of a tensor, that is, all but the first two."""

    code = Code.COUNT_MISMATCH

    arrays: tuple[str, ...]
    of: str

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.of, *self.arrays))

    @property
    def text(self) -> str:
        return f"{listed(self.arrays)} have one element per dimension of {self.of} but the first two"

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor = values[self.of]
        spatial = tensor.rank - 2
        found = len(values[self.arrays[0]])
        if found != spatial:
            message = f"{found} spatial dimensions given; {self.of}, of rank {tensor.rank}, has {spatial}"
            yield Fault(self.code, (self.arrays[0],), message, [spatial])


@dataclass(frozen=True, slots=True)
class WindowFits(Rule):
    """The dilated window is no larger than the padded input."""

    code = Code.WINDOW_TOO_LARGE

    windows: Windows

    @property
    def reads(self) -> frozenset[str]:
        return self.windows.reads

    def faults(self, values: Values) -> Iterator[Fault]:
        for i, dimension in enumerate(self.windows.dimensions(values)):
            if dimension.dilated_window > dimension.padded:
                message = (
                    f"the dilated window spans {dimension.dilated_window} positions, and the padded input has only "
                    f"{dimension.padded}"
                )
                yield Fault(self.code, ("WindowSize", i), message)


@dataclass(frozen=True, slots=True)
class Pooled(Rule):
    """A tensor has the sizes of the pooled output."""

    code = Code.SIZES_MISMATCH

    windows: Windows
    tensor: str

    @property
    def reads(self) -> frozenset[str]:
        return self.windows.reads | {self.tensor}

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor, over = values[self.tensor], values[self.windows.over]
        if not 2 < tensor.rank == over.rank:
            return
        allowed = self.windows.output_sizes(values)
        if len(allowed) != tensor.rank:
            return
        for i, (given, sizes) in enumerate(zip(tensor.sizes, allowed, strict=True)):
            if given not in sizes and sizes[0] > 0:
                listed = " or ".join(map(str, sizes))
                message = f"size {given} given for dimension {i} of {self.tensor}; allowed: {listed}"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, list(sizes))


@dataclass(frozen=True, slots=True)
class WindowHoldsElement(Rule):
    """Each window of an output contains at least one element of the input, not just padding."""

    code = Code.WINDOW_WITHOUT_ELEMENT

    windows: Windows
    output: str

    @property
    def reads(self) -> frozenset[str]:
        return self.windows.reads | {self.output}

    def faults(self, values: Values) -> Iterator[Fault]:
        output = values[self.output]
        if output.rank != values[self.windows.over].rank:
            return
        for i, dimension in enumerate(self.windows.dimensions(values)):
            if dimension.dilated_window > dimension.padded:
                continue
            count = output.sizes[i + 2]
            empty = count - dimension.windows_with_element(count)
            if empty:
                message = (
                    f"{empty} of the {count} windows along dimension {i + 2} contain only padding and have no maximum"
                )
                yield Fault(self.code, (self.output, "Sizes", i + 2), message)


def spatial(*arrays: str, of: str) -> Rule:
    """``DimensionCount == rank(InputTensor) - 2`` for the arrays that it counts; violations point to the first."""
    return Spatial(arrays, of)


def window_fits(windows: Windows) -> Rule:
    """``(WindowSize[i] - 1) * Dilations[i] + 1 <= InputTensor.Sizes[i+2] + StartPadding[i] + EndPadding[i]``"""
    return WindowFits(windows)


def pooled(windows: Windows, tensor: str) -> Rule:
    """``A.Sizes[i+2] in {floor(e) + 1, ceil(e) + 1}``: a given tensor has the size of the pooled output."""
    return Pooled(windows, tensor)


def window_holds_element(windows: Windows, output: str = "OutputTensor") -> Rule:
    """``every window holds at least one element of InputTensor``"""
    return WindowHoldsElement(windows, output)
