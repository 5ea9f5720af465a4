"""Keeps and breaks the rules of poolings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from opwire.operators.pooling import PerChannel
from opwire.rules import Rule
from opwire.rules.expressions import Measure
from opwire.rules.numbers import Between
from opwire.rules.tensors import SameSizes
from opwire.rules.windows import Pooled, WindowHoldsElement
from opwire.schema import CATALOG

from . import common
from .changes import changed
from .descs import SATISFY as ANY_VALID
from .descs import Drawn
from .faults import BREAK as ANY
from .faults import Change
from .numbers import number_of
from .outputs import SIZES as KNOWN
from .outputs import Sizes


def pooled_sizes(desc: Mapping[str, Any], over: str = "InputTensor") -> Sizes:
    """Counts the windows that fit, one by one."""
    return KNOWN["MAX_POOLING"]({**desc, "InputTensor": desc[over]})


def _window_of_padding(rule: WindowHoldsElement, drawn: Drawn) -> Iterator[Change]:
    if rule.output not in drawn.desc:
        yield from ANY[WindowHoldsElement](rule, drawn)
        return
    desc = {**drawn.desc, "StartPadding": [drawn.desc["WindowSize"][0], *drawn.desc["StartPadding"][1:]]}
    desc[rule.output] = {**desc[rule.output], "Sizes": pooled_sizes(desc, rule.windows.over), "Strides": None}
    yield desc, "not_computable", f"/{rule.output}/Sizes/2"


def _pool(rule: Pooled, drawn: Drawn, draw: st.DrawFn) -> None:
    drawn.desc[rule.tensor]["Sizes"] = pooled_sizes(drawn.desc, rule.windows.over)


def _unpool(rule: Pooled, drawn: Drawn) -> Iterator[Change]:
    sizes = drawn.desc[rule.tensor]["Sizes"]
    wrong = [*sizes[:2], sizes[2] + 2, *sizes[3:]]  # 2 more than the floor exceeds the ceiling, too
    yield changed(drawn, rule.tensor, Sizes=wrong), "sizes_mismatch", f"/{rule.tensor}/Sizes/2"


def _count(rule: Between, drawn: Drawn, draw: st.DrawFn) -> None:
    match rule.number:
        case Measure(_, "length"):
            for name in drawn.operator.members.counts[0].counts:
                drawn.desc[name] = drawn.desc[name][: number_of(rule.greatest, drawn.desc)]
        case _:
            ANY_VALID[Between](rule, drawn, draw)


def _miscount(rule: Between, drawn: Drawn) -> Iterator[Change]:
    if rule.number.what != "length":  # type: ignore[attr-defined]
        yield from common.BREAK[Between](rule, drawn)
        return
    for end, step in ((rule.least, -1), (rule.greatest, 1)):
        length = -1 if end is None else number_of(end, drawn.desc) + step
        if length > 0:
            names = drawn.operator.members.counts[0].counts
            desc = {**drawn.desc, **{name: [*drawn.desc[name], 1, 1, 1][:length] for name in names}}
            yield desc, "out_of_range", f"/{rule.number.place[0]}"


def _by_channel(rule: PerChannel, drawn: Drawn, draw: st.DrawFn) -> None:
    channels = drawn.desc[rule.of]["Sizes"][1]
    for name in rule.parameters:
        if drawn.desc.get(name) is not None:
            rank = draw(st.integers(1, 5))
            at = 1 if rank > 3 else draw(st.integers(0, rank - 1))
            sizes = [draw(st.sampled_from([1, channels])) if i == at else 1 for i in range(rank)]
            drawn.desc[name] |= {"Sizes": sizes, "Strides": None}


def _not_by_channel(rule: PerChannel, drawn: Drawn) -> Iterator[Change]:
    channels = drawn.desc[rule.of]["Sizes"][1]
    cases = [([channels + 1], 0), ([1, channels + 1], 1), ([1, channels + 1, 1, 1], 1), ([1, 1, 1, 2], 3)]
    if channels > 1:
        cases += [([channels, channels], 1), ([channels, 1, 1, 1], 0)]
    for name in rule.parameters:
        for sizes, at in cases if drawn.desc.get(name) is not None else ():
            yield changed(drawn, name, Sizes=sizes, Strides=None), "sizes_mismatch", f"/{name}/Sizes/{at}"


def _other_parameters(rule: SameSizes, drawn: Drawn) -> Iterator[Change]:
    """Gives a zero point for each channel with a single scale, or the reverse."""
    if drawn.operator.name != "QUANTIZED_LINEAR_AVERAGE_POOLING":
        yield from ANY[SameSizes](rule, drawn)
        return
    name = rule.tensors[1]
    if drawn.desc.get(name) is not None:
        sizes, channels = drawn.desc[name]["Sizes"], drawn.desc["InputTensor"]["Sizes"][1]
        axis = 1 if len(sizes) > 3 else 0
        other = [channels if i == axis and set(sizes) == {1} else 1 for i in range(len(sizes))]
        if other != sizes:
            yield changed(drawn, name, Sizes=other, Strides=None), "sizes_mismatch", f"/{name}/Sizes"


def _given(name: str) -> Callable[[Mapping[str, Any]], Sizes]:
    """Reads the sizes of an output that cannot be derived."""
    return lambda desc: list(desc[name]["Sizes"])


FAMILIES = ("pooling", "max_pooling")
"""The operator families that these tables apply to."""

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    **common.SATISFY,
    Between: _count,
    Pooled: _pool,
    PerChannel: _by_channel,
}
BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    **common.BREAK,
    Between: _miscount,
    SameSizes: _other_parameters,
    Pooled: _unpool,
    PerChannel: _not_by_channel,
    WindowHoldsElement: _window_of_padding,
}
SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = {
    **{name: pooled_sizes for name, kind in CATALOG.items() if kind.family == "pooling"},
    "AVERAGE_POOLING_GRAD": _given("OutputGradientTensor"),
    "MAX_UNPOOLING": _given("OutputTensor"),
}
