"""Keeps and breaks the rules of convolutions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from opwire.operators.filters import FilterFits, FiltersFillOutput, OutputPaddingFits, PaddingLeavesOutput, PerFilter
from opwire.rules import Rule
from opwire.rules.numbers import Between, Number
from opwire.rules.tensors import SameRank, SameSizes

from .changes import changed
from .descs import Desc, Drawn, holds_as_drawn
from .faults import BREAK as ANY
from .faults import Change
from .outputs import Sizes, convolved

ARRAYS = ("Strides", "Dilations", "StartPadding", "EndPadding", "OutputPadding")


def _steps(rule: Number, drawn: Drawn, draw: st.DrawFn) -> None:
    for name in rule.attributes:
        drawn.desc[name] = [max(given, 1) for given in drawn.desc[name]]


def _standing(rule: Number, drawn: Drawn) -> Iterator[Change]:
    for name in rule.attributes:
        yield {**drawn.desc, name: [0, *drawn.desc[name][1:]]}, "out_of_range", f"/{name}/0"


def _many_dimensions(rule: Between, drawn: Drawn) -> Iterator[Change]:
    more = {name: [int(not name.endswith("Padding"))] * 3 + drawn.desc[name] for name in ARRAYS}
    yield {**drawn.desc, **more}, "out_of_range", "/Strides"


def _channels(rule: PerFilter, drawn: Drawn, draw: st.DrawFn) -> None:
    if rule.tensor in drawn.desc:
        filters = drawn.desc[rule.filters]["Sizes"][0]
        rank = draw(st.integers(*drawn.row.tensors[rule.tensor].ranks))
        each = draw(st.sampled_from([1, filters]))
        drawn.desc[rule.tensor] |= {"Sizes": [each if i == 1 else 1 for i in range(rank)], "Strides": None}


def _other_channels(rule: PerFilter, drawn: Drawn) -> Iterator[Change]:
    if rule.tensor not in drawn.desc:
        return
    filters, rank = drawn.desc[rule.filters]["Sizes"][0], len(drawn.desc[rule.tensor]["Sizes"])
    for i in range(rank):
        for size in (filters + 2, *[filters] * (i != 1 and filters > 1)):
            sizes = [1] * i + [size] + [1] * (rank - i - 1)
            yield changed(drawn, rule.tensor, Sizes=sizes), "sizes_mismatch", f"/{rule.tensor}/Sizes/{i}"


def _same_sizes(rule: SameSizes | SameRank, drawn: Drawn, draw: st.DrawFn) -> None:
    first, second, *_ = rule.tensors
    if first.endswith("ScaleTensor") and second in drawn.desc:
        drawn.desc[second] |= {"Sizes": list(drawn.desc[first]["Sizes"]), "Strides": None}


def _other_parameters(rule: SameSizes, drawn: Drawn) -> Iterator[Change]:
    filters = drawn.desc["FilterTensor"]["Sizes"][0]
    sizes = drawn.desc.get(rule.tensors[1], {"Sizes": []})["Sizes"]
    if len(sizes) > 1 and filters > 1:
        other = [1, 1 if sizes[1] > 1 else filters, *sizes[2:]]
        yield changed(drawn, rule.tensors[1], Sizes=other, Strides=None), "sizes_mismatch", f"/{rule.tensors[1]}/Sizes"


def _pads(rule: OutputPaddingFits, drawn: Drawn, draw: st.DrawFn) -> None:
    sizes = convolved(drawn.desc)[2:]
    drawn.desc["OutputPadding"] = [
        min(given, size - 1) for given, size in zip(drawn.desc["OutputPadding"], sizes, strict=False)
    ]


def _pads_all(rule: OutputPaddingFits, drawn: Drawn) -> Iterator[Change]:
    padding = [convolved(drawn.desc)[2], *drawn.desc["OutputPadding"][1:]]
    yield {**drawn.desc, "OutputPadding": padding}, "out_of_range", "/OutputPadding/0"


def _output(drawn: Drawn, sizes: Sizes) -> Desc:
    alike = (drawn.desc.get("OutputZeroPointTensor") or drawn.desc["InputTensor"])["DataType"]
    data_type = "INT32" if drawn.operator.name == "CONVOLUTION_INTEGER" else alike
    return {**drawn.desc, "OutputTensor": {"DataType": data_type, "Sizes": sizes}}


def _one_element(drawn: Drawn, desc: Desc) -> Desc:
    """Returns a desc with an output that has one element along dimensions where no filter fits."""
    return _output(drawn, [max(size, 1) for size in convolved(desc)]) | desc


def _long_filter(rule: FilterFits, drawn: Drawn) -> Iterator[Change]:
    for desc, code, place in ANY[FilterFits](rule, drawn):
        yield _one_element(drawn, desc), code, place


def _cropped(rule: PaddingLeavesOutput, drawn: Drawn) -> Iterator[Change]:
    for desc, code, place in ANY[PaddingLeavesOutput](rule, drawn):
        yield _one_element(drawn, desc), code, place


def _larger(rule: FiltersFillOutput, drawn: Drawn) -> Iterator[Change]:
    sizes = convolved(drawn.desc)
    for i in range(2, len(sizes)):
        more = [size + 100 * (i == at) for at, size in enumerate(sizes)]
        yield _output(drawn, more), "sizes_mismatch", f"/OutputTensor/Sizes/{i}"


def _other_rank(rule: SameRank, drawn: Drawn) -> Iterator[Change]:
    if "OutputTensor" not in rule.tensors:
        yield from ANY[SameRank](rule, drawn)
        return
    batch, channels, *rest = convolved(drawn.desc)
    _, greatest = drawn.row.tensors["OutputTensor"].ranks
    if len(rest) + 2 < greatest:
        yield _output(drawn, [batch, channels, 1, *rest]), "ranks_differ", "/OutputTensor/Sizes"


NAMES = ("CONVOLUTION_INTEGER", "QUANTIZED_LINEAR_CONVOLUTION")

FAMILIES = ("convolution",)

SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = dict.fromkeys(NAMES, convolved)

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    Between: holds_as_drawn,
    FiltersFillOutput: holds_as_drawn,
    Number: _steps,
    OutputPaddingFits: _pads,
    PerFilter: _channels,
    SameRank: _same_sizes,
    SameSizes: _same_sizes,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    Between: _many_dimensions,
    FilterFits: _long_filter,
    FiltersFillOutput: _larger,
    Number: _standing,
    OutputPaddingFits: _pads_all,
    PaddingLeavesOutput: _cropped,
    PerFilter: _other_channels,
    SameRank: _other_rank,
    SameSizes: _other_parameters,
}
