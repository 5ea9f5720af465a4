"""Recurrent networks: RNN, LSTM and GRU.

Source: ``DML_RNN_OPERATOR_DESC``, ``DML_LSTM_OPERATOR_DESC`` and ``DML_GRU_OPERATOR_DESC``. That at least one output
must be given is a rule of ONNX Runtime; the one of the cell alone is not enough, as DirectML itself shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..enums import RecurrentNetworkDirection
from ..operator import Attributes, BadExample, Example, Operator, Tensors, declare
from ..rules import Derived, NamedSize, Quantity, Rule, Shapes, Values, any_given, length_is, not_owned, same_type
from ..violation import Code
from .work import STEP


@dataclass(frozen=True, slots=True)
class NumDirections(Quantity):
    """The number of directions in which a network processes a sequence."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(("Direction",))

    def value(self, values: Values) -> int:
        return 2 if values["Direction"] is RecurrentNetworkDirection.BIDIRECTIONAL else 1

    def __str__(self) -> str:
        return "num_directions"


_DIRECTIONS = NumDirections()
_STATE = (1, _DIRECTIONS, "batch_size", "hidden_size")
_INPUTS = ("InputTensor", "WeightTensor", "RecurrenceTensor", "BiasTensor", "HiddenInitTensor")
_OUTPUTS = ("OutputSequenceTensor", "OutputSingleTensor")


def _shapes(gates: int, states: tuple[str, ...], peepholes: bool) -> Shapes:
    """Returns the shapes of the inputs; the weights of the gates are stacked along the rows."""
    block = NamedSize("hidden_size", gates)
    shapes: dict[str, Any] = {
        "InputTensor": (1, "seq_length", "batch_size", "input_size"),
        "WeightTensor": (1, _DIRECTIONS, block, "input_size"),
        "RecurrenceTensor": (1, _DIRECTIONS, block, "hidden_size"),
        "BiasTensor": (1, 1, _DIRECTIONS, NamedSize("hidden_size", 2 * gates)),
        **dict.fromkeys(states, _STATE),
        "SequenceLengthsTensor": (1, 1, 1, "batch_size"),
    }
    if peepholes:
        shapes["PeepholeTensor"] = (1, 1, _DIRECTIONS, NamedSize("hidden_size", 3))
    return Shapes(shapes)


def _work(gates: int) -> Callable[[Attributes, Tensors], int]:
    """Each step visits the weights of the gates, for the input and for the previous state.

    Steps run sequentially, so each has a fixed cost.
    """

    def work(attributes: Attributes, tensors: Tensors) -> int:
        _, length, batch, _ = tensors["InputTensor"].sizes
        _, directions, rows, width = tensors["WeightTensor"].sizes
        return int(length * directions * (STEP + batch * rows * (width + rows // gates + 1)))

    return work


def _network(
    name: str,
    gates: int,
    activations: int,
    *rules: Rule | tuple[Rule, ...],
    cell: bool = False,
    examples: tuple[Example, ...],
    bad_examples: tuple[BadExample, ...],
) -> Operator[Attributes]:
    """Declares a network; ``gates`` and ``activations`` are per direction."""
    typed = (*_INPUTS, "CellMemInitTensor", "PeepholeTensor") if cell else _INPUTS
    states = ("HiddenInitTensor", "CellMemInitTensor") if cell else ("HiddenInitTensor",)
    outputs = (*_OUTPUTS, "OutputCellSingleTensor") if cell else _OUTPUTS
    inputs = _shapes(gates, states, cell)
    shapes = Shapes(
        {
            **inputs.shapes,
            "OutputSequenceTensor": ("seq_length", *_STATE[1:]),
            "OutputSingleTensor": _STATE,
            "OutputCellSingleTensor": _STATE,
        }
    )
    return declare(
        name,
        rules=(
            same_type(*typed),
            inputs,
            length_is(activations * _DIRECTIONS, "ActivationDescs"),
            not_owned(*typed, "SequenceLengthsTensor"),
            *rules,
            any_given(*_OUTPUTS),
        ),
        outputs={output: Derived(shapes.sizes_of(output), like="InputTensor") for output in outputs},
        work=_work(gates),
        examples=examples,
        bad_examples=bad_examples,
    )


def _tensor(*sizes: int) -> dict[str, Any]:
    return {"DataType": "FLOAT32", "Sizes": list(sizes)}


def _desc(gates: int, activations: list[str], **changes: Any) -> dict[str, Any]:
    """Returns a desc with two steps, a batch of 1, and an input and a state of one number."""
    return {
        "InputTensor": _tensor(1, 2, 1, 1),
        "WeightTensor": _tensor(1, 1, gates, 1),
        "RecurrenceTensor": _tensor(1, 1, gates, 1),
        "OutputSequenceTensor": _tensor(2, 1, 1, 1),
        "OutputSingleTensor": _tensor(1, 1, 1, 1),
        "ActivationDescCount": len(activations),
        "ActivationDescs": [{"Type": f"ACTIVATION_{name}"} for name in activations],
        "Direction": "FORWARD",
        **changes,
    }


def _rnn(*activations: str, **changes: Any) -> dict[str, Any]:
    return _desc(1, list(activations or ("RELU",)), **changes)


def _lstm(**changes: Any) -> dict[str, Any]:
    clip = {"ClipThreshold": 0, "UseClipThreshold": False, "CoupleInputForget": False}
    return _desc(4, ["RELU", "IDENTITY", "IDENTITY"], **(clip | changes))


def _gru(**changes: Any) -> dict[str, Any]:
    return _desc(3, ["RELU", "IDENTITY"], **({"LinearBeforeReset": False} | changes))


def _steps(first: float, last: float) -> dict[str, Any]:
    return {"OutputSequenceTensor": [[[[first]]], [[[last]]]], "OutputSingleTensor": [[[[last]]]]}


_TWO_STEPS = [[[[1]], [[2]]]]

_RNN = _network(
    "RNN",
    1,
    1,
    examples=(
        Example(
            "two_steps",
            _rnn(),
            {"InputTensor": _TWO_STEPS, "WeightTensor": [[[[3]]]], "RecurrenceTensor": [[[[10]]]]},
            _steps(3, 36),
        ),
        Example(
            "backward_with_bias",
            _rnn(Direction="BACKWARD", BiasTensor=_tensor(1, 1, 1, 2), OutputSingleTensor=None),
            {
                "InputTensor": _TWO_STEPS,
                "WeightTensor": [[[[3]]]],
                "RecurrenceTensor": [[[[10]]]],
                "BiasTensor": [[[[1, 1]]]],
            },
            {"OutputSequenceTensor": [[[[85]]], [[[8]]]]},
        ),
    ),
    bad_examples=(
        BadExample("no_output", _rnn(OutputSequenceTensor=None, OutputSingleTensor=None), Code.MISSING_TENSOR, ""),
        BadExample(
            "one_activation_for_two_directions",
            _rnn(
                Direction="BIDIRECTIONAL",
                WeightTensor=_tensor(1, 2, 1, 1),
                RecurrenceTensor=_tensor(1, 2, 1, 1),
                OutputSequenceTensor=_tensor(2, 2, 1, 1),
                OutputSingleTensor=_tensor(1, 2, 1, 1),
            ),
            Code.COUNT_MISMATCH,
            "/ActivationDescs",
        ),
        BadExample(
            "owned_weights",
            _rnn(WeightTensor={**_tensor(1, 1, 1, 1), "Flags": "OWNED_BY_DML"}),
            Code.FLAGS_INVALID,
            "/WeightTensor/Flags",
        ),
    ),
)

_LSTM = _network(
    "LSTM",
    4,
    3,
    cell=True,
    examples=(
        Example(
            "two_steps",
            _lstm(OutputCellSingleTensor=_tensor(1, 1, 1, 1)),
            {
                "InputTensor": _TWO_STEPS,
                "WeightTensor": [[[[1], [1], [1], [1]]]],
                "RecurrenceTensor": [[[[0], [0], [0], [0]]]],
            },
            {**_steps(1, 12), "OutputCellSingleTensor": [[[[6]]]]},
        ),
    ),
    bad_examples=(
        BadExample(
            "rows_of_three_gates",
            _lstm(RecurrenceTensor=_tensor(1, 1, 3, 1)),
            Code.SIZES_MISMATCH,
            "/RecurrenceTensor/Sizes/2",
        ),
    ),
)

_GRU = _network(
    "GRU",
    3,
    2,
    examples=(
        Example(
            "two_steps",
            _gru(),
            {"InputTensor": _TWO_STEPS, "WeightTensor": [[[[0.5], [0], [1]]]], "RecurrenceTensor": [[[[0], [0], [0]]]]},
            _steps(0.5, 0.5),
        ),
    ),
    bad_examples=(
        BadExample(
            "state_of_another_batch",
            _gru(HiddenInitTensor=_tensor(1, 1, 2, 1)),
            Code.SIZES_MISMATCH,
            "/HiddenInitTensor/Sizes/2",
        ),
        BadExample(
            "softmax",
            _gru(ActivationDescs=[{"Type": "ACTIVATION_SOFTMAX"}, {"Type": "ACTIVATION_TANH"}]),
            Code.OPERATOR_NOT_FUSABLE,
            "/ActivationDescs/0/Type",
        ),
    ),
)

FAMILY = (_RNN, _LSTM, _GRU)
