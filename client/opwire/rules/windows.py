"""Sliding windows over the spatial dimensions of a tensor, and the rules of pooling operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..violation import Code, Fault
from .dimension import Dimension
from .rule import Rule, Values, either

PADDINGS = ("StartPadding", "EndPadding")
_ARRAYS = ("Strides", "WindowSize", *PADDINGS)
_DILATED = (*_ARRAYS, "Dilations")


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a pooling operator.

    Attributes:
        over: the tensor that they slide over.
        dilated: whether they can be dilated.
        most: the number of dimensions that may be given whatever the rank, with the excess ignored; 0 for none.
    """

    over: str = "InputTensor"
    dilated: bool = True
    most: int = 0

    @property
    def arrays(self) -> tuple[str, ...]:
        """The attributes with one number per spatial dimension."""
        return _DILATED if self.dilated else _ARRAYS

    @property
    def steps(self) -> tuple[str, ...]:
        """The attributes that are at least 1 if windows are to hold elements."""
        return ("Strides", "WindowSize", "Dilations") if self.dilated else ("Strides", "WindowSize")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset((self.over, *self.arrays))

    def dimensions(self, values: Values) -> list[Dimension]:
        """Returns the spatial dimensions, outermost first, or none if the attributes have the wrong lengths."""
        spatial = values[self.over].sizes[2:]
        arrays = [values[name] for name in self.arrays]
        given = len(arrays[0])
        if any(len(array) != given for array in arrays) or not spatial:
            return []
        if given != len(spatial) and not len(spatial) < given == self.most:
            return []
        if not self.dilated:
            arrays.append((1,) * len(spatial))
        return [Dimension(*members) for members in zip(spatial, *arrays, strict=False)]

    def output_sizes(self, values: Values) -> tuple[Sequence[int], ...]:
        """Returns the allowed sizes of the output: for each spatial dimension the floor size, then the ceiling size."""
        sizes = values[self.over].sizes
        spatial = (dimension.output_sizes for dimension in self.dimensions(values))
        return ((sizes[0],), (sizes[1],), *spatial)


@dataclass(frozen=True, slots=True)
class Spatial(Rule):
    """Arrays have one number per spatial dimension of a tensor, that is, all but the first two."""

    code = Code.COUNT_MISMATCH
    words = "{arrays} have one element per dimension of {of} but the first two"

    arrays: tuple[str, ...]
    of: str

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor = values[self.of]
        spatial = tensor.rank - 2
        found = len(values[self.arrays[0]])
        if found != spatial:
            message = f"{found} spatial dimensions given; {self.of}, of rank {tensor.rank}, has {spatial}"
            yield Fault(self.code, (self.arrays[0],), message, [spatial])


@dataclass(frozen=True, slots=True)
class WindowSteps(Rule):
    """Windows have elements and move on, and dilated ones do not read an element twice."""

    code = Code.OUT_OF_RANGE

    windows: Windows

    def faults(self, values: Values) -> Iterator[Fault]:
        count = len(self.windows.dimensions(values))
        for name in self.windows.steps:
            for i, given in enumerate(values[name][:count]):
                if not given:
                    yield Fault(self.code, (name, i), f"0 given for {name}; it must be at least 1")


@dataclass(frozen=True, slots=True)
class Pooled(Rule):
    """A tensor has the spatial sizes of the pooled output.

    Attributes:
        exact: whether its sizes must be rounded down, and 1 if the window is larger than the padded input.
    """

    code = Code.SIZES_MISMATCH

    windows: Windows
    tensor: str
    exact: bool = False

    def faults(self, values: Values) -> Iterator[Fault]:
        tensor = values[self.tensor]
        dimensions = self.windows.dimensions(values)
        if len(dimensions) != tensor.rank - 2:
            return
        for i, (given, dimension) in enumerate(zip(tensor.sizes[2:], dimensions, strict=True), 2):
            sizes = (dimension.gradient_size,) if self.exact else dimension.output_sizes
            if given not in sizes and sizes[0] > 0:
                message = f"size {given} given for dimension {i} of {self.tensor}; allowed: {either(sizes)}"
                yield Fault(self.code, (self.tensor, "Sizes", i), message, list(sizes))


@dataclass(frozen=True, slots=True)
class WindowHoldsElement(Rule):
    """Each window of an output contains at least one element of the input, not just padding."""

    code = Code.NOT_COMPUTABLE

    windows: Windows
    output: str

    def faults(self, values: Values) -> Iterator[Fault]:
        dimensions = self.windows.dimensions(values)
        sizes = values[self.output].sizes[2:]
        if len(dimensions) != len(sizes):
            return
        for i, (count, dimension) in enumerate(zip(sizes, dimensions, strict=True), 2):
            if not (dimension.stride and dimension.window and dimension.dilation):
                continue
            empty = count - dimension.windows_with_element(count)
            if empty:
                message = f"{empty} of the {count} windows along dimension {i} contain only padding and have no maximum"
                yield Fault(self.code, (self.output, "Sizes", i), message)


def spatial(*arrays: str, of: str) -> Rule:
    """``DimensionCount == rank(InputTensor) - 2`` for the arrays that it counts; violations point to the first."""
    return Spatial(arrays, of)


def window_steps(windows: Windows) -> Rule:
    """``Strides[i], WindowSize[i], Dilations[i] >= 1``"""
    return WindowSteps(windows)


def pooled(windows: Windows, tensor: str, *, exact: bool = False) -> Rule:
    """``A.Sizes[i+2] in {floor(e) + 1, ceil(e) + 1}``: a given tensor has the size of the pooled output.

    If ``exact``, it is ``max(floor(e), 0) + 1``.
    """
    return Pooled(windows, tensor, exact)


def window_holds_element(windows: Windows, output: str = "OutputTensor") -> Rule:
    """``every window holds at least one element of InputTensor``"""
    return WindowHoldsElement(windows, output)
