"""Draws descs of operators that move, select and write elements, and breaks their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from math import prod
from typing import Any

from hypothesis import strategies as st

from opwire.operators.arithmetic import GrayOrColor
from opwire.operators.folds import BlockFits, ColumnsFit, ImageHasRank
from opwire.operators.slices import (
    GradientFits,
    GradientReaches,
    SliceFits,
    SliceNotEmpty,
    StrideIsSigned,
    WindowInside,
)
from opwire.rules import Rule
from opwire.rules.expressions import ConstantQuantity, Measure, Size
from opwire.rules.numbers import Between, Divides, Equal, Length, NotEmpty, Number
from opwire.rules.tensors import SameRank, SumAlong

from .changes import resized
from .descs import SATISFY as satisfying
from .descs import Desc, Drawn, holds_as_drawn
from .faults import BREAK as breaking
from .faults import Change
from .moved import SEVERAL, SIZES, columns, positions, sliced_sizes
from .numbers import number_of, set_number

__all__ = ["BREAK", "FAMILIES", "PREPARE", "SATISFY", "SEVERAL", "SHAPED", "SIZES"]


def _counted(name: str, drawn: Drawn) -> tuple[str, ...]:
    """Returns the arrays that share a count with ``name``."""
    return next(count.counts for count in drawn.operator.members.counts if name in count.counts)


def _of_length(name: str, length: int, drawn: Drawn) -> Desc:
    """Returns the arrays that share a count with ``name``, truncated or padded with ones."""
    return {each: ([*drawn.desc[each], *[1] * length])[:length] for each in _counted(name, drawn)}


# Numbers and lengths


def _length(rule: Length, drawn: Drawn, draw: st.DrawFn) -> None:
    name = rule.arrays[0]
    if isinstance(rule.wanted, Size):
        set_number(rule.wanted, len(drawn.desc[name]), drawn.desc)
    else:
        drawn.desc.update(_of_length(name, number_of(rule.wanted, drawn.desc), drawn))


def _wrong_length(rule: Length, drawn: Drawn) -> Iterator[Change]:
    name = rule.arrays[0]
    found = len(drawn.desc[name])
    for length in {1, found + 1, found + 2} - {found}:
        yield {**drawn.desc, **_of_length(name, length, drawn)}, "count_mismatch", f"/{name}"


def _empty(rule: NotEmpty, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, rule.array: []}, "count_mismatch", f"/{rule.array}"


def _number(rule: Number, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in rule.attributes:
        value = drawn.desc[name]
        if isinstance(value, list) and all(isinstance(each, int) for each in value):
            drawn.desc[name] = [each if rule.holds(each) else 1 for each in value]
        else:
            satisfying[Number](rule, drawn, draw)


def _wrong_number(rule: Number, drawn: Drawn) -> Iterator[Change]:
    arrays = [name for name in rule.attributes if isinstance(drawn.desc[name], list)]
    for name in arrays:
        unsigned = all(isinstance(each, int) for each in drawn.desc[name])
        for wrong in (0,) if unsigned else (0, -1):
            if not rule.holds(wrong):
                yield {**drawn.desc, name: [wrong, *drawn.desc[name][1:]]}, "out_of_range", f"/{name}/0"
    if not arrays:
        yield from breaking[Number](rule, drawn)


def _between(rule: Between, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    match rule.number:
        case Measure(tensor, "product of sizes"):
            if prod(desc[tensor]["Sizes"]) < number_of(rule.least, desc):
                desc[tensor]["Sizes"][-1] = number_of(rule.least, desc)
        case Measure(array, "length"):
            if len(desc[array]) > 6:
                rank = len(desc["InputTensor"]["Sizes"])
                desc.update(_of_length(array, draw(st.integers(1, rank - 2)), drawn))
        case Measure(_, "rank"):
            pass  # the operator's own strategy drew it
        case Measure(attribute, ""):
            member: Any = next(each for each in drawn.operator.members.attributes if each.name == attribute)
            least, greatest = member.least or 0, number_of(rule.greatest, desc)
            if desc[attribute] > greatest:
                desc[attribute] = draw(st.integers(least, greatest))
        case Size(tensor, str() as axis):
            size = number_of(rule.greatest, desc)
            for each in (tensor, "UpdatesTensor"):
                desc[each]["Sizes"][desc[axis]] = min(desc[each]["Sizes"][desc[axis]], size)
        case _:
            raise TypeError(f"{rule.number!r} cannot be set")


def _not_between(rule: Between, drawn: Drawn) -> Iterator[Change]:
    desc = drawn.desc
    match rule.number:
        case Measure(tensor, "product of sizes"):
            changed = deepcopy(desc)
            changed[tensor]["Sizes"] = [1] * len(desc[tensor]["Sizes"])
            yield changed, "out_of_range", f"/{tensor}/Sizes"
        case Measure(array, "length"):
            length = number_of(rule.greatest, desc) + 1
            yield {**desc, **_of_length(array, length, drawn)}, "out_of_range", f"/{array}"
        case Measure(image, "rank"):
            sizes = drawn.desc[image]["Sizes"]
            if len(sizes) < 8:
                longer = {**drawn.desc[image], "Sizes": [*sizes, 1], "Strides": None}
                yield {**drawn.desc, image: longer}, "out_of_range", f"/{image}/Sizes"
        case Size(tensor, str() as axis):
            changed = deepcopy(desc)
            for each in (tensor, "UpdatesTensor"):
                changed[each]["Sizes"][desc[axis]] = number_of(rule.greatest, desc) + 1
            yield changed, "out_of_range", f"/{tensor}/Sizes"
        case _:
            yield from breaking[Between](rule, drawn)


def _equal(rule: Equal, drawn: Drawn, draw: st.DrawFn) -> None:
    match rule:
        case Equal(Size(tensor, str() as axis), ConstantQuantity(number)):
            drawn.desc[tensor]["Sizes"][drawn.desc[axis]] = number
        case _:
            satisfying[Equal](rule, drawn, draw)


def _unequal(rule: Equal, drawn: Drawn) -> Iterator[Change]:
    match rule:
        case Equal(Size(tensor, str() as axis), ConstantQuantity(number)):
            yield resized(drawn, tensor, drawn.desc[axis], number + 1), "sizes_mismatch", f"/{tensor}/Sizes"
        case _:
            yield from breaking[Equal](rule, drawn)


def _undivided(rule: Divides, drawn: Drawn) -> Iterator[Change]:
    if "BlockSize" not in drawn.desc:
        yield from breaking[Divides](rule, drawn)
        return
    assert isinstance(rule.of, Size)
    sizes = [4] * 4
    sizes[int(rule.of.dimension)] = 5
    changed = {**drawn.desc, "BlockSize": 2, "InputTensor": {**drawn.desc["InputTensor"], "Sizes": sizes}}
    yield changed, "sizes_mismatch", "/InputTensor/Sizes"


# Tensors


def _add_up(rule: SumAlong, drawn: Drawn, draw: st.DrawFn) -> None:
    axis = drawn.desc[rule.axis]
    drawn.desc[rule.whole]["Sizes"][axis] = sum(part["Sizes"][axis] for part in drawn.desc[rule.array])


def _left_over(rule: SumAlong, drawn: Drawn) -> Iterator[Change]:
    axis = drawn.desc[rule.axis]
    size = drawn.desc[rule.whole]["Sizes"][axis]
    yield resized(drawn, rule.whole, axis, size + 1), "sizes_mismatch", f"/{rule.array}"


def _rank(rule: SameRank, drawn: Drawn) -> Iterator[Change]:
    yield from breaking[SameRank](rule, drawn)
    last = rule.tensors[-1]
    if drawn.operator.name == "NONZERO_COORDINATES":
        sizes = drawn.desc["InputTensor"]["Sizes"]
        end = [1] if last == "OutputCountTensor" else [prod(sizes), len(sizes)]
        other = 9 - len(sizes)
        tensor = {"DataType": "UINT32", "Sizes": [1] * (other - len(end)) + end}
        yield {**drawn.desc, last: tensor}, "ranks_differ", f"/{last}/Sizes"


def _gray(rule: GrayOrColor, drawn: Drawn, draw: st.DrawFn) -> None:
    if len(drawn.desc["Bias"]) not in (1, 3):
        drawn.desc["Bias"] = drawn.desc["Bias"][: draw(st.sampled_from([1, 3]))]


def _two_channels(rule: GrayOrColor, drawn: Drawn) -> Iterator[Change]:
    yield {**resized(drawn, "InputTensor", 1, 2), "Bias": [0, 1]}, "value_not_allowed", "/Bias"


# Slices


def _slice(rule: SliceFits, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    for i, whole in enumerate(desc["InputTensor"]["Sizes"]):
        desc["Strides"][i] = draw(st.integers(1, 3))
        desc["Offsets"][i] = draw(st.integers(0, whole - 1))
        desc["Sizes"][i] = draw(st.integers(1, len(range(desc["Offsets"][i], whole, desc["Strides"][i]))))


def _taken_beyond(rule: SliceFits, drawn: Drawn) -> Iterator[Change]:
    offsets = [drawn.desc["InputTensor"]["Sizes"][0], *drawn.desc["Offsets"][1:]]
    yield {**drawn.desc, "Offsets": offsets}, "out_of_range", "/Offsets/0"


def _nothing_taken(rule: SliceNotEmpty, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, "Sizes": [0, *drawn.desc["Sizes"][1:]]}, "out_of_range", "/Sizes/0"


def _window(rule: WindowInside, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    offsets, sizes = desc["InputWindowOffsets"], desc["InputWindowSizes"]
    for i, whole in enumerate(desc[rule.sliced]["Sizes"]):
        if not sizes[i] or offsets[i] + sizes[i] > whole:
            offsets[i] = draw(st.integers(0, whole - 1))
            sizes[i] = draw(st.integers(1, whole - offsets[i]))


def _window_outside(rule: WindowInside, drawn: Drawn) -> Iterator[Change]:
    longer = [drawn.desc[rule.sliced]["Sizes"][0] + 1, *drawn.desc["InputWindowSizes"][1:]]
    yield {**drawn.desc, "InputWindowSizes": longer}, "out_of_range", "/InputWindowSizes/0"


def _gradient(rule: GradientFits, drawn: Drawn, draw: st.DrawFn) -> None:
    sizes = drawn.desc["InputGradientTensor"]["Sizes"]
    sizes[:] = [min(size, most) for size, most in zip(sizes, sliced_sizes(drawn.desc), strict=True)]


def _gradient_too_long(rule: GradientFits, drawn: Drawn) -> Iterator[Change]:
    desc = resized(drawn, "InputGradientTensor", 0, 2)
    window = {"InputWindowOffsets": 0, "InputWindowSizes": 1, "InputWindowStrides": 1}
    for name, number in window.items():
        desc[name] = [number, *desc[name][1:]]
    desc["OutputGradientTensor"]["Sizes"][0] = 2
    yield desc, "sizes_mismatch", "/InputGradientTensor/Sizes/0"


def _gradient_beyond(rule: GradientReaches, drawn: Drawn) -> Iterator[Change]:
    desc = resized(drawn, "InputGradientTensor", 0, 2)
    whole = desc["OutputGradientTensor"]["Sizes"][0]
    desc |= {"InputWindowStrides": [whole, *desc["InputWindowStrides"][1:]]}
    yield desc, "out_of_range", "/InputWindowOffsets/0"


def _long_stride(rule: StrideIsSigned, drawn: Drawn) -> Iterator[Change]:
    yield {**drawn.desc, "Strides": [2**31, *drawn.desc["Strides"][1:]]}, "out_of_range", "/Strides/0"


# Blocks of images


def _image(name: str) -> Callable[[Drawn, st.DrawFn], None]:
    """Draws an image of any rank, and windows for all its dimensions but the first two."""

    def arrange(drawn: Drawn, draw: st.DrawFn) -> None:
        rank = draw(st.integers(3, 8))
        sizes = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
        drawn.desc[name] |= {"Sizes": sizes, "Strides": None}
        drawn.desc.update(_of_length("WindowSizes", rank - 2, drawn))

    return arrange


def _image_too_flat(rule: ImageHasRank, drawn: Drawn) -> Iterator[Change]:
    rank = len(drawn.desc[rule.folding.image]["Sizes"])
    if rank < 8:
        desc = {**drawn.desc, **_of_length("WindowSizes", rank - 1, drawn)}
        yield desc, "ranks_differ", f"/{rule.folding.image}/Sizes"


def _blocks(rule: BlockFits, drawn: Drawn, draw: st.DrawFn) -> None:
    for i, count in enumerate(positions(drawn.desc, rule.folding.image)):
        if not count:
            drawn.desc["WindowSizes"][i] = 1


def _block_too_large(rule: BlockFits, drawn: Drawn) -> Iterator[Change]:
    desc = drawn.desc
    size = desc[rule.folding.image]["Sizes"][-len(desc["WindowSizes"])]
    longer = size + desc["StartPadding"][0] + desc["EndPadding"][0] + 1
    yield {**desc, "WindowSizes": [longer, *desc["WindowSizes"][1:]]}, "window_too_large", "/WindowSizes/0"


def _columns_fit(rule: ColumnsFit, drawn: Drawn, draw: st.DrawFn) -> None:
    drawn.desc[rule.columns] |= {"Sizes": columns(drawn.desc, rule.folding.image), "Strides": None}


def _other_columns(rule: ColumnsFit, drawn: Drawn) -> Iterator[Change]:
    sizes = drawn.desc[rule.columns]["Sizes"]
    for at, size in enumerate(sizes):
        yield resized(drawn, rule.columns, at, size + 1), "sizes_mismatch", f"/{rule.columns}/Sizes/{at}"


FAMILIES = ("movement", "gather", "selection", "constants", "cumulative", "arithmetic")
"""The operator families that these tables apply to."""

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    Length: _length,
    NotEmpty: holds_as_drawn,
    Number: _number,
    Between: _between,
    Equal: _equal,
    SumAlong: _add_up,
    GrayOrColor: _gray,
    SliceNotEmpty: holds_as_drawn,
    SliceFits: _slice,
    WindowInside: _window,
    GradientFits: _gradient,
    GradientReaches: holds_as_drawn,
    StrideIsSigned: holds_as_drawn,
    ImageHasRank: holds_as_drawn,
    BlockFits: _blocks,
    ColumnsFit: _columns_fit,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    Length: _wrong_length,
    NotEmpty: _empty,
    Number: _wrong_number,
    Between: _not_between,
    Equal: _unequal,
    Divides: _undivided,
    SameRank: _rank,
    SumAlong: _left_over,
    GrayOrColor: _two_channels,
    SliceNotEmpty: _nothing_taken,
    SliceFits: _taken_beyond,
    WindowInside: _window_outside,
    GradientFits: _gradient_too_long,
    GradientReaches: _gradient_beyond,
    StrideIsSigned: _long_stride,
    ImageHasRank: _image_too_flat,
    BlockFits: _block_too_large,
    ColumnsFit: _other_columns,
}


def _diagonal(drawn: Drawn) -> None:
    source = drawn.desc.get("InputTensor")
    if source is not None:
        drawn.desc["OutputTensor"] |= {"DataType": source["DataType"], "Sizes": list(source["Sizes"])}


PREPARE: dict[str, Callable[[Drawn], None]] = {"DIAGONAL_MATRIX1": _diagonal}
SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = {
    "FOLD": _image("OutputTensor"),
    "UNFOLD": _image("InputTensor"),
}
