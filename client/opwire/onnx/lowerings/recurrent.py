"""Recurrent networks. ONNX and DirectML agree on gates, weights and biases; only ranks and places differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...client.graph_tensors import GraphTensor
from ...tensor import DataType
from ..errors import NotLowered
from ..lowering import NodeLowering, lowers, relabelled
from .activations import fusable

_DIRECTIONS = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of a recurrent node: steps, directions, sequences, and elements of a state."""

    steps: int
    directions: int
    batch: int
    hidden: int


@lowers("RNN")
def rnn(node: NodeLowering) -> list[GraphTensor | None]:
    _require_no_clip(node)
    return _emitted(node, ["Tanh"])


@lowers("GRU")
def gru(node: NodeLowering) -> list[GraphTensor | None]:
    _require_no_clip(node)
    return _emitted(node, ["Sigmoid", "Tanh"], LinearBeforeReset=bool(node.attribute("linear_before_reset", 0)))


@lowers("LSTM")
def lstm(node: NodeLowering) -> list[GraphTensor | None]:
    clip, peepholes, cell = node.attribute("clip"), node.optional(7), node.optional(6)
    return _emitted(
        node,
        ["Sigmoid", "Tanh", "Tanh"],
        CellMemInitTensor=None if cell is None else _state(node, cell),
        PeepholeTensor=None if peepholes is None else peepholes.reshape(1, 1, *peepholes.sizes),
        ClipThreshold=0.0 if clip is None else float(clip),
        UseClipThreshold=clip is not None,
        CoupleInputForget=bool(node.attribute("input_forget", 0)),
    )


def _require_no_clip(node: NodeLowering) -> None:
    if node.attribute("clip") is not None:
        raise NotLowered("it has a clip, which DirectML has for LSTM alone")


def _emitted(node: NodeLowering, activations: Sequence[str], **members: Any) -> list[GraphTensor | None]:
    """Emits the operator of the same name.

    Args:
        node: the node.
        activations: the activations of each direction unless the node names others.
        members: those that only this operator has.
    """
    x, w, r, bias, hidden = node.tensor(0), node.tensor(1), node.tensor(2), node.optional(3), node.optional(5)
    x = x.transpose(1, 0, 2) if node.attribute("layout", 0) else x
    sizes = _Sizes(x.sizes[0], w.sizes[0], x.sizes[1], r.sizes[2])
    found = node.emit(
        node.operator,
        InputTensor=x.with_strides((1, *x.sizes), (0, *x.desc.element_strides)),
        WeightTensor=w.reshape(1, *w.sizes),
        RecurrenceTensor=r.reshape(1, *r.sizes),
        BiasTensor=None if bias is None else bias.reshape(1, 1, *bias.sizes),
        HiddenInitTensor=None if hidden is None else _state(node, hidden),
        SequenceLengthsTensor=_lengths(node),
        ActivationDescs=list(_activations(node, activations, sizes.directions)),
        Direction=_DIRECTIONS[node.attribute("direction", "forward")],
        **_declared(node, x.data_type, sizes),
        **members,
    )
    return list(_results(node, found, sizes))


def _state(node: NodeLowering, given: GraphTensor) -> GraphTensor:
    """Returns an initial state as directions by sequences by elements."""
    state = given.transpose(1, 0, 2) if node.attribute("layout", 0) else given
    return state.with_strides((1, *state.sizes), (0, *state.desc.element_strides))


def _lengths(node: NodeLowering) -> GraphTensor | None:
    given = node.optional(4)
    return None if given is None else relabelled(given, DataType.UINT32).reshape(1, 1, 1, -1)


def _declared(node: NodeLowering, data_type: DataType, sizes: _Sizes) -> dict[str, Any]:
    """Returns the outputs that are used, with the strides of ONNX's order of the dimensions."""
    steps, directions, batch, hidden = sizes.steps, sizes.directions, sizes.batch, sizes.hidden
    is_batch_first = bool(node.attribute("layout", 0))
    sequence = (directions * hidden, hidden, steps * directions * hidden, 1) if is_batch_first else None
    single = (0, hidden, directions * hidden, 1) if is_batch_first else None
    state = node.desc(data_type, (1, directions, batch, hidden), single)
    found = {"OutputSequenceTensor": node.desc(data_type, (steps, directions, batch, hidden), sequence)}
    found = found if node.wants(0) else {}
    if node.wants(1) or not found:  # DirectML asks for one of the two
        found["OutputSingleTensor"] = state
    return found | ({"OutputCellSingleTensor": state} if node.wants(2) else {})


def _results(node: NodeLowering, made: GraphTensor, sizes: _Sizes) -> Iterator[GraphTensor | None]:
    """Yields the outputs in ONNX's order of the dimensions."""
    is_batch_first = bool(node.attribute("layout", 0))
    for i, name in enumerate(("OutputSequenceTensor", "OutputSingleTensor", "OutputCellSingleTensor")):
        if not node.wants(i):
            yield None
            continue
        found = made[name]
        if i == 0:
            yield found.transpose(2, 0, 1, 3) if is_batch_first else found
        else:
            state = (sizes.directions, sizes.batch, sizes.hidden)
            strides = found.desc.element_strides[1:]
            state_view = found.with_strides(state, strides)
            yield state_view.transpose(1, 0, 2) if is_batch_first else state_view


def _activations(node: NodeLowering, default: Sequence[str], directions: int) -> Iterator[dict[str, Any]]:
    """Yields the descs of the activations; each takes what it needs of the parameters given, in order."""
    count = len(default) * directions  # the schema of RNN lists defaults of two directions
    names = (node.attribute("activations") or [*default] * directions)[:count]
    given = {
        "Alpha": iter(node.attribute("activation_alpha") or ()),
        "Beta": iter(node.attribute("activation_beta") or ()),
    }
    for name in names:
        operator, members = fusable(name)
        found = {member: float(next(given[member], default)) for member, (_, default) in members.items()}
        yield {"Type": f"ACTIVATION_{operator}", **found}
