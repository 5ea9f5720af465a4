"""Draws descs of operators that gather and scatter by index, and breaks their rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from opwire.operators.gather import IndicesNotBatched, LeadingIndices
from opwire.operators.tuples import BatchesAgree, EachWritten, TupleLength, TuplesFitRank, UpdatesFit
from opwire.rules import Rule
from opwire.rules.tensors import LeadingOnes

from .changes import resized
from .descs import SATISFY as satisfying
from .descs import Drawn, holds_as_drawn
from .faults import BREAK as breaking
from .faults import Change
from .moved import addressed, at_rank


def _leading(rule: LeadingOnes, drawn: Drawn, draw: st.DrawFn) -> None:
    if rule.tensor in drawn.desc:
        satisfying[LeadingOnes](rule, drawn, draw)


def _not_leading(rule: LeadingOnes, drawn: Drawn) -> Iterator[Change]:
    if rule.tensor in drawn.desc:
        yield from breaking[LeadingOnes](rule, drawn)
        return
    desc = deepcopy(drawn.desc)
    source, axis = desc["InputTensor"], desc["Axis"]
    indices = {**desc["IndicesTensor"], "Sizes": [1] * len(source["Sizes"])}
    sizes = [2, *source["Sizes"][:axis], *source["Sizes"][axis + 1 :]]
    output = {"DataType": source["DataType"], "Sizes": sizes}
    desc |= {"IndexDimensions": 0, "IndicesTensor": indices, rule.tensor: output}
    yield desc, "sizes_mismatch", f"/{rule.tensor}/Sizes/0"


def _tuple_length(rule: TupleLength, drawn: Drawn, draw: st.DrawFn) -> None:
    most = drawn.desc["InputDimensionCount"] - drawn.desc.get("BatchDimensionCount", 0)
    sizes = drawn.desc["IndicesTensor"]["Sizes"]
    if sizes[-1] > most:
        sizes[-1] = draw(st.integers(1, max(most, 1)))


def _tuples_too_long(rule: TupleLength, drawn: Drawn) -> Iterator[Change]:
    desc = drawn.desc
    most = desc["InputDimensionCount"] - desc.get("BatchDimensionCount", 0)
    last = len(desc["IndicesTensor"]["Sizes"]) - 1
    yield resized(drawn, "IndicesTensor", last, most + 1), "out_of_range", f"/IndicesTensor/Sizes/{last}"


def _tuples_fit(rule: TuplesFitRank, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    if len(addressed(desc)) > len(desc[rule.tensor]["Sizes"]):
        desc[draw(st.sampled_from(["InputDimensionCount", "IndicesDimensionCount"]))] = 1
        if rule.tuples.batch:
            desc[rule.tuples.batch] = 0


def _too_much_addressed(rule: TuplesFitRank, drawn: Drawn) -> Iterator[Change]:
    desc = deepcopy(drawn.desc)
    rank = len(desc["InputTensor"]["Sizes"])
    if rank > 2:
        desc["InputTensor"]["Sizes"] = [2] * rank
        desc["IndicesTensor"]["Sizes"] = [2] * (rank - 1) + [1]
        desc |= {"InputDimensionCount": rank, "IndicesDimensionCount": rank}
        if rule.tuples.batch:
            desc[rule.tuples.batch] = 0
        yield desc, "ranks_differ", "/IndicesDimensionCount"


def _own_indices(rule: EachWritten, drawn: Drawn, draw: st.DrawFn) -> None:
    strides = drawn.desc["IndicesTensor"]["Strides"]
    drawn.desc["IndicesTensor"]["Strides"] = strides and [max(stride, 1) for stride in strides]


def _broadcast_indices(rule: EachWritten, drawn: Drawn) -> Iterator[Change]:
    sizes = drawn.desc["IndicesTensor"]["Sizes"]
    for i, size in enumerate(sizes):
        if size > 1:
            strides = [int(at != i) for at in range(len(sizes))]
            tensor = {**drawn.desc["IndicesTensor"], "Strides": strides}
            yield {**drawn.desc, "IndicesTensor": tensor}, "value_not_allowed", f"/IndicesTensor/Strides/{i}"


def _plain(rule: IndicesNotBatched, drawn: Drawn, draw: st.DrawFn) -> None:
    sizes = drawn.desc["IndicesTensor"]["Sizes"]
    lead = max(len(sizes) - drawn.desc["IndexDimensions"], 0)
    sizes[:lead] = [1] * lead


def _batched(rule: IndicesNotBatched, drawn: Drawn) -> Iterator[Change]:
    desc = deepcopy(drawn.desc)
    rank = len(desc["InputTensor"]["Sizes"])
    if rank > 1:
        for name in ("InputTensor", "IndicesTensor"):
            desc[name] |= {"Sizes": [2] * rank, "Strides": None}
        yield {**desc, "Axis": 1, "IndexDimensions": rank - 1}, "sizes_mismatch", "/IndicesTensor/Sizes/0"


def _front(rule: LeadingIndices, drawn: Drawn) -> Iterator[Change]:
    desc = deepcopy(drawn.desc)
    sizes = desc["IndicesTensor"]["Sizes"]
    if len(sizes) > desc["IndexDimensions"]:
        sizes[0] = max(desc["InputTensor"]["Sizes"]) + 1
        desc["IndicesTensor"]["Strides"] = None
        yield desc, "sizes_mismatch", "/IndicesTensor/Sizes/0"


def _batches(rule: BatchesAgree, drawn: Drawn, draw: st.DrawFn) -> None:
    desc = drawn.desc
    source, indices = desc["InputTensor"]["Sizes"], desc["IndicesTensor"]["Sizes"]
    of_source, of_indices = desc["InputDimensionCount"], desc["IndicesDimensionCount"]
    for i in range(min(desc["BatchDimensionCount"], of_source, of_indices)):  # fewer where a rule lowered these counts
        indices[i - of_indices] = source[i - of_source]


def _batches_differ(rule: BatchesAgree, drawn: Drawn) -> Iterator[Change]:
    sizes = drawn.desc["IndicesTensor"]["Sizes"]
    at = len(sizes) - drawn.desc["IndicesDimensionCount"]
    if drawn.desc["BatchDimensionCount"]:
        yield resized(drawn, "IndicesTensor", at, sizes[at] + 1), "sizes_mismatch", f"/IndicesTensor/Sizes/{at}"


def _updates(rule: UpdatesFit, drawn: Drawn, draw: st.DrawFn) -> None:
    sizes = drawn.desc["UpdatesTensor"]["Sizes"]
    sizes[:] = at_rank(addressed(drawn.desc), len(sizes))


def _other_updates(rule: UpdatesFit, drawn: Drawn) -> Iterator[Change]:
    size = drawn.desc["UpdatesTensor"]["Sizes"][0]
    yield resized(drawn, "UpdatesTensor", 0, size + 1), "sizes_mismatch", "/UpdatesTensor/Sizes"


FAMILIES = ("gather",)
"""The operator families that these tables apply to, beside those of ``movement``."""

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = {
    LeadingOnes: _leading,
    EachWritten: _own_indices,
    TupleLength: _tuple_length,
    TuplesFitRank: _tuples_fit,
    BatchesAgree: _batches,
    UpdatesFit: _updates,
    LeadingIndices: holds_as_drawn,
    IndicesNotBatched: _plain,
}

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    LeadingOnes: _not_leading,
    EachWritten: _broadcast_indices,
    TupleLength: _tuples_too_long,
    TuplesFitRank: _too_much_addressed,
    BatchesAgree: _batches_differ,
    UpdatesFit: _other_updates,
    LeadingIndices: _front,
    IndicesNotBatched: _batched,
}
