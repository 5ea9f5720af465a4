"""Attention: queries, keys and values in each layout, with optional tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from hypothesis import strategies as st

from opwire.operators.heads import KeysGiven, LengthsFit
from opwire.rules import Rule
from opwire.rules.numbers import Divides, Equal
from opwire.rules.presence import Absent, AnyGiven, AtMostOneGiven, GivenTogether, Required
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import SameRank

from .changes import changed
from .descs import Desc, Drawn, holds_as_drawn
from .faults import Change
from .outputs import Sizes

NAMES = ("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")
TYPED = ("QueryTensor", "StackedQueryKeyTensor", "StackedQueryKeyValueTensor")
LAYOUTS = (
    ("QueryTensor", "KeyTensor", "ValueTensor"),
    ("QueryTensor", "StackedKeyValueTensor"),
    ("StackedQueryKeyTensor", "ValueTensor"),
    ("StackedQueryKeyValueTensor",),
)
MASKS = ("NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "KEY_QUERY_SEQUENCE_LENGTH_START_END", "BOOLEAN")
PLAIN = ("QueryTensor", "KeyTensor", "ValueTensor", "OutputTensor")
"""The tensors that have one rank."""

FREE = {
    "QueryTensor": (0, 1, 2),
    "StackedQueryKeyTensor": (0, 1, 4),
    "StackedQueryKeyValueTensor": (0, 1, 4),
    "KeyTensor": (1,),
    "StackedKeyValueTensor": (1,),
    "ValueTensor": (2,),
    "PastKeyTensor": (2,),
}
"""Which of a tensor's trailing dimensions determine a size that other tensors must match."""


class Geometry(NamedTuple):
    """Sizes shared between tensors, by name."""

    batch: int
    sequence: int
    new: int
    past: int
    queries: int
    keys: int
    head: int
    value_head: int

    def sizes(self) -> dict[str, Sizes]:
        b, s, n, past, q, k, h, v = self
        return {
            "QueryTensor": [b, s, q * h],
            "KeyTensor": [b, n, k * h],
            "ValueTensor": [b, n, k * v],
            "StackedQueryKeyTensor": [b, s, q, 2, h],
            "StackedKeyValueTensor": [b, n, k, 2, h],
            "StackedQueryKeyValueTensor": [b, s, q, 3, h],
            "BiasTensor": [q * h + k * h + k * v],
            "RelativePositionBiasTensor": [b, q, s, past + n],
            "PastKeyTensor": [b, k, past, h],
            "PastValueTensor": [b, k, past, v],
            "PastSequenceLengthsTensor": [b],
            "OutputTensor": [b, s, q * v],
            "OutputPresentKeyTensor": [b, k, past + n, h],
            "OutputPresentValueTensor": [b, k, past + n, v],
        }

    def mask(self, kind: str) -> Sizes:
        rows = {"KEY_SEQUENCE_LENGTH": 1, "KEY_SEQUENCE_END_START": 2}
        if kind in rows:
            return [rows[kind], self.batch]
        if kind == "BOOLEAN":
            return [self.batch, self.queries, self.sequence, self.past + self.new]
        return [3 * self.batch + 2]


def _mask_type(desc: Mapping[str, Any]) -> str:
    given: int | str = desc["MaskType"]
    return MASKS[given] if isinstance(given, int) else given.removeprefix("DML_MULTIHEAD_ATTENTION_MASK_TYPE_")


def _geometry(draw: st.DrawFn, layout: tuple[str, ...], grouped: bool, past: bool) -> Geometry:
    batch, sequence, new, length, keys, head, value_head = draw(st.tuples(*[st.integers(1, 3)] * 7))
    stacked = layout[0].startswith("Stacked")
    return Geometry(
        batch,
        sequence,
        sequence if stacked else new,
        length if past else 0,
        keys * draw(st.integers(1, 2)) if grouped and not stacked else keys,
        keys,
        head,
        head if layout[-1] != "ValueTensor" else value_head,
    )


def _attention(drawn: Drawn, draw: st.DrawFn) -> None:
    desc, row = drawn.desc, drawn.row.tensors
    grouped = "KeyValueHeadCount" in desc
    layout = draw(st.sampled_from(LAYOUTS))
    past = "PastKeyTensor" in desc
    extents = _geometry(draw, layout, grouped, past)
    _count_heads(desc, extents)
    sizes = extents.sizes()
    chosen = [*layout, *(["PastKeyTensor", "PastValueTensor"] if past else [])]
    beside = ["BiasTensor", "RelativePositionBiasTensor", "PastSequenceLengthsTensor"]
    chosen += [name for name in beside if name in desc]
    outputs = [member.name for member in drawn.operator.members.outputs]
    chosen += draw(st.lists(st.sampled_from(outputs), unique=True))
    if "PastSequenceLengthsTensor" in chosen:
        chosen += ["OutputPresentKeyTensor", "OutputPresentValueTensor"]
    if _mask_type(desc) != "NONE" and draw(st.integers(0, 3)):
        chosen.append("MaskTensor")
        sizes["MaskTensor"] = extents.mask(_mask_type(desc))
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    plain = draw(st.integers(3, 5))
    for name in row:
        desc.pop(name, None)
        if name in chosen:
            rank = plain if name in PLAIN else draw(st.integers(len(sizes[name]), row[name].ranks[1]))
            ones = [1] * (rank - len(sizes[name]))
            integers = name in ("MaskTensor", "PastSequenceLengthsTensor")
            desc[name] = {"DataType": "INT32" if integers else data_type, "Sizes": ones + sizes[name]}
    if "PastSequenceLengthsTensor" in desc:
        _cache(desc, draw)


def _cache(desc: Desc, draw: st.DrawFn) -> None:
    """Present tensors may be larger than the lengths require, and lengths may be a column."""
    for name in ("OutputPresentKeyTensor", "OutputPresentValueTensor"):
        if name in desc:
            desc[name]["Sizes"][-2] += draw(st.integers(0, 3))
    lengths = desc["PastSequenceLengthsTensor"]["Sizes"]
    if len(lengths) < 5 and draw(st.booleans()):
        lengths.append(1)


def _count_heads(desc: Desc, extents: Geometry) -> None:
    if "HeadCount" in desc:
        desc["HeadCount"] = extents.keys
    else:
        desc |= {"QueryHeadCount": extents.queries, "KeyValueHeadCount": extents.keys}


def _output(desc: Mapping[str, Any]) -> Sizes:
    if "OutputTensor" in desc:
        return list(desc["OutputTensor"]["Sizes"])
    queries, keys = (desc.get(name, desc.get("HeadCount")) for name in ("QueryHeadCount", "KeyValueHeadCount"))
    stacked = [desc[name]["Sizes"] for name in desc if name.startswith("Stacked")]
    value_head = desc["ValueTensor"]["Sizes"][-1] // keys if "ValueTensor" in desc else stacked[0][-1]
    batch, sequence = desc["QueryTensor"]["Sizes"][-3:-1] if "QueryTensor" in desc else stacked[0][:2]
    ones = next((len(desc[name]["Sizes"]) - 3 for name in PLAIN if name in desc), 0)
    return [*[1] * ones, batch, sequence, queries * value_head]


def _layout(desc: Desc) -> tuple[str, ...]:
    return next(layout for layout in LAYOUTS if all(name in desc for name in layout))


def _bare(drawn: Drawn, extents: Geometry, *tensors: str) -> Desc:
    """Returns the desc with only the given tensors."""
    desc = {name: value for name, value in deepcopy(drawn.desc).items() if name not in drawn.row.tensors}
    sizes = extents.sizes()
    desc |= {name: {"DataType": "FLOAT32", "Sizes": sizes[name]} for name in tensors}
    desc["MaskType"] = "NONE"
    _count_heads(desc, extents)
    return desc


def _none_given(rule: AnyGiven, drawn: Drawn) -> Iterator[Change]:
    yield {name: value for name, value in drawn.desc.items() if name not in rule.tensors}, "missing_tensor", ""


def _no_keys(rule: KeysGiven, drawn: Drawn) -> Iterator[Change]:
    """Yields descs without keys and values, and one with past keys and a bias."""
    sources = {"KeyTensor", "ValueTensor", "BiasTensor", *(name for name in drawn.desc if name.startswith("Stacked"))}
    desc = {name: value for name, value in drawn.desc.items() if name not in sources}
    yield {name: value for name, value in desc.items() if not name.startswith("Past")}, "missing_tensor", ""
    if "PastKeyTensor" in desc and "BiasTensor" in drawn.desc:
        yield {**desc, "BiasTensor": drawn.desc["BiasTensor"]}, "unexpected_tensor", "/BiasTensor"


TWO_SOURCES = (
    ("QueryTensor", "StackedQueryKeyTensor", "ValueTensor"),
    ("QueryTensor", "KeyTensor", "StackedKeyValueTensor"),
    ("QueryTensor", "StackedKeyValueTensor", "ValueTensor"),
)


def _two_given(rule: AtMostOneGiven, drawn: Drawn) -> Iterator[Change]:
    for tensors in TWO_SOURCES:
        given = [name for name in rule.tensors if name in tensors]
        if len(given) == 2:
            desc = _bare(drawn, Geometry(1, 2, 2, 0, 2, 2, 3, 3), *tensors)
            yield desc, "unexpected_tensor", f"/{given[1]}"


def _past_alone(rule: GivenTogether, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors:
        if name in drawn.desc:
            yield {given: value for given, value in drawn.desc.items() if given != name}, "missing_tensor", ""


def _mask_given(rule: Absent, drawn: Drawn) -> Iterator[Change]:
    mask = {"DataType": "INT32", "Sizes": [1, 1]}
    yield {**drawn.desc, rule.tensor: mask}, "unexpected_tensor", f"/{rule.tensor}"


def _present_left_out(rule: Required, drawn: Drawn) -> Iterator[Change]:
    yield {name: value for name, value in drawn.desc.items() if name != rule.tensor}, "missing_tensor", ""


def _other_rank(rule: SameRank, drawn: Drawn) -> Iterator[Change]:
    output = _output(drawn.desc)
    if len(output) < 5:
        data_type = next(drawn.desc[name]["DataType"] for name in TYPED if name in drawn.desc)
        desc = {**drawn.desc, "OutputTensor": {"DataType": data_type, "Sizes": [1, *output]}}
        if any(name in desc for name in PLAIN[:3]):
            yield desc, "ranks_differ", "/OutputTensor/Sizes"


def _disagreeing(rule: Shapes, drawn: Drawn) -> Iterator[Change]:
    for name in rule.shapes:
        if name not in drawn.desc:
            continue
        sizes = drawn.desc[name]["Sizes"]
        lead = len(sizes) - sum(each is not ... for each in rule.shapes[name])
        free = {lead + at for at in FREE.get(name, ())}
        if "HeadCount" in drawn.desc and name == "QueryTensor" and "KeyTensor" not in drawn.desc:
            free.add(lead + 2)  # the size of a head is rounded down
        for i in set(range(len(sizes))) - free:
            other = [*sizes[:i], sizes[i] + 1, *sizes[i + 1 :]]
            yield changed(drawn, name, Sizes=other), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _uneven(rule: Divides, drawn: Drawn) -> Iterator[Change]:
    if "HeadCount" in drawn.desc:
        desc = _bare(drawn, Geometry(1, 2, 2, 0, 3, 3, 2, 1), *LAYOUTS[0])
        for name in LAYOUTS[0][:2]:
            desc[name]["Sizes"][-1] += 1
        yield desc, "sizes_mismatch", "/QueryTensor/Sizes"
    else:
        yield from _uneven_groups(drawn)


def _uneven_groups(drawn: Drawn) -> Iterator[Change]:
    for tensors in LAYOUTS[:2]:
        yield _bare(drawn, Geometry(1, 2, 2, 0, 3, 2, 1, 1), *tensors), "sizes_mismatch", "/QueryHeadCount"


def _stacked_groups(rule: Equal, drawn: Drawn) -> Iterator[Change]:
    layout = _layout(drawn.desc)
    yield _bare(drawn, Geometry(1, 2, 2, 0, 2, 1, 3, 3), *layout), "sizes_mismatch", "/QueryHeadCount"


def _other_lengths(rule: LengthsFit, drawn: Drawn) -> Iterator[Change]:
    if rule.tensor in drawn.desc:
        sizes = drawn.desc[rule.tensor]["Sizes"]
        for other in ([*sizes[:-1], sizes[-1] + 1], [sizes[0] + 1, *sizes[1:]]):
            yield changed(drawn, rule.tensor, Sizes=other), "sizes_mismatch", f"/{rule.tensor}/Sizes"


FAMILIES = ("attention",)

SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = dict.fromkeys(NAMES, _attention)

SIZES: dict[str, Callable[[Mapping[str, Any]], Sizes]] = dict.fromkeys(NAMES, _output)

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = dict.fromkeys(
    (
        KeysGiven,
        LengthsFit,
        AnyGiven,
        AtMostOneGiven,
        GivenTogether,
        Absent,
        Required,
        SameRank,
        Shapes,
        Divides,
        Equal,
    ),
    holds_as_drawn,
)

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    KeysGiven: _no_keys,
    LengthsFit: _other_lengths,
    AnyGiven: _none_given,
    AtMostOneGiven: _two_given,
    GivenTogether: _past_alone,
    Absent: _mask_given,
    Required: _present_left_out,
    SameRank: _other_rank,
    Shapes: _disagreeing,
    Divides: _uneven,
    Equal: _stacked_groups,
}
