"""Recurrent networks whose weights, states and outputs agree in their shared sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from opwire.rules import Rule
from opwire.rules.numbers import Length
from opwire.rules.presence import AnyGiven
from opwire.rules.shapes import Shapes
from opwire.rules.tensors import NotOwned

from .changes import changed
from .descs import Drawn, holds_as_drawn
from .faults import Change
from .outputs import Sizes

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
ACTIVATIONS = {"RNN": 1, "LSTM": 3, "GRU": 2}
BOTH = ("BIDIRECTIONAL", "DML_RECURRENT_NETWORK_DIRECTION_BIDIRECTIONAL", 2)


def _directions(desc: Mapping[str, Any]) -> int:
    return 2 if desc["Direction"] in BOTH else 1


def _sizes(operator: str, desc: Mapping[str, Any], seq: int, batch: int, width: int, hidden: int) -> dict[str, Sizes]:
    gates, n = GATES[operator], _directions(desc)
    return {
        "InputTensor": [1, seq, batch, width],
        "WeightTensor": [1, n, gates * hidden, width],
        "RecurrenceTensor": [1, n, gates * hidden, hidden],
        "BiasTensor": [1, 1, n, 2 * gates * hidden],
        "HiddenInitTensor": [1, n, batch, hidden],
        "CellMemInitTensor": [1, n, batch, hidden],
        "SequenceLengthsTensor": [1, 1, 1, batch],
        "PeepholeTensor": [1, 1, n, 3 * hidden],
        "OutputSequenceTensor": [seq, n, batch, hidden],
        "OutputSingleTensor": [1, n, batch, hidden],
        "OutputCellSingleTensor": [1, n, batch, hidden],
    }


def _network(drawn: Drawn, draw: st.DrawFn) -> None:
    name, desc = drawn.operator.name, drawn.desc
    sizes = _sizes(name, desc, *draw(st.tuples(*[st.integers(1, 3)] * 4)))
    for tensor in drawn.operator.members.inputs:
        if tensor.name in desc:
            desc[tensor.name]["Sizes"] = sizes[tensor.name]
    outputs = [member.name for member in drawn.operator.members.outputs]
    chosen = draw(st.lists(st.sampled_from(outputs), min_size=1, unique=True))
    for output in [*chosen, *["OutputSingleTensor"] * (chosen == ["OutputCellSingleTensor"])]:
        desc[output] = {"DataType": desc["InputTensor"]["DataType"], "Sizes": sizes[output]}
    count = ACTIVATIONS[name] * _directions(desc)
    desc["ActivationDescs"] = [desc["ActivationDescs"][i % len(desc["ActivationDescs"])] for i in range(count)]


def _no_output(rule: AnyGiven, drawn: Drawn) -> Iterator[Change]:
    desc = {name: value for name, value in drawn.desc.items() if name not in rule.tensors}
    yield desc, "missing_tensor", ""


def _disagreeing(rule: Shapes, drawn: Drawn) -> Iterator[Change]:
    """The input determines every size except its ones, and the weights determine the hidden size."""
    determined: dict[str, tuple[int, ...]] = {"InputTensor": (1, 2, 3)}
    if drawn.operator.name == "RNN":
        determined["WeightTensor"] = (2,)
    for name in rule.shapes:
        if name in drawn.desc:
            sizes = drawn.desc[name]["Sizes"]
            for i in set(range(4)).difference(determined.get(name, ())):
                other = [*sizes[:i], sizes[i] + 1, *sizes[i + 1 :]]
                yield changed(drawn, name, Sizes=other), "sizes_mismatch", f"/{name}/Sizes/{i}"


def _too_many(rule: Length, drawn: Drawn) -> Iterator[Change]:
    given = drawn.desc["ActivationDescs"]
    for others in (given[1:], [*given, given[0]]):
        if len(others) <= 6:
            yield {**drawn.desc, "ActivationDescs": others}, "count_mismatch", "/ActivationDescs"


def _owned(rule: NotOwned, drawn: Drawn) -> Iterator[Change]:
    for name in rule.tensors:
        if name in drawn.desc:
            desc = deepcopy(drawn.desc)
            desc[name]["Flags"] = ["OWNED_BY_DML"]
            yield desc, "flags_invalid", f"/{name}/Flags"


FAMILIES = ("recurrent",)

SHAPED: dict[str, Callable[[Drawn, st.DrawFn], None]] = dict.fromkeys(GATES, _network)

SATISFY: dict[type[Rule], Callable[[Any, Drawn, st.DrawFn], None]] = dict.fromkeys(
    (Shapes, Length, NotOwned, AnyGiven), holds_as_drawn
)

BREAK: dict[type[Rule], Callable[[Any, Drawn], Iterator[Change]]] = {
    Shapes: _disagreeing,
    Length: _too_many,
    NotOwned: _owned,
    AnyGiven: _no_output,
}
