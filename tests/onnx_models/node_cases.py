"""The node tests of the ``onnx`` package: models, mostly of one node, with inputs and expected outputs.

``python -m tests.onnx_models.node_cases [OPERATOR ...]`` runs them and prints what becomes of each operator; with
``--write``, it counts them by operator in ``tests/data/onnx-nodes.json``, for the documentation.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import opwire.onnx
from opwire.onnx.model import Runner
from tests.support.paths import DATA

STATES = DATA / "onnx-nodes.json"
"""How many cases of each operator have each state."""


@dataclass(frozen=True, slots=True)
class NodeCase:
    """A model with inputs and expected outputs.

    Attributes:
        name: its name in the ``onnx`` package.
        model: the model.
        inputs, outputs: its tensors, in order.
        rtol, atol: the relative and absolute tolerance that ONNX allows.
    """

    name: str
    model: ModelProto
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    rtol: float
    atol: float

    @property
    def operator(self) -> str:
        """The operator that the case tests: that of its first node, which may be a function."""
        return str(self.model.graph.node[0].op_type)

    @property
    def is_static(self) -> bool:
        """Whether its inputs are tensors, whose sizes are known."""
        return all(isinstance(each, np.ndarray) for each in self.inputs)


@cache
def node_cases() -> dict[str, NodeCase]:
    """Returns the cases by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    found: dict[str, NodeCase] = {}
    for case in collected:
        for inputs, outputs in case.data_sets or ():
            assert case.model is not None
            given, expected = ([_array(each) for each in tensors] for tensors in (inputs, outputs))
            found[case.name] = NodeCase(case.name, case.model, given, expected, case.rtol, case.atol)
    return found


def _array(tensor: Any) -> Any:
    """Returns a tensor of a case as an array; a sequence stays one."""
    if isinstance(tensor, TensorProto):
        return numpy_helper.to_array(tensor)
    return np.asarray(tensor) if isinstance(tensor, np.generic) else tensor


def with_constants(case: NodeCase) -> ModelProto:
    """Returns the model of a case with its inputs of at most 64 integers, scales and regions as initializers.

    DirectML takes axes, sizes and such as attributes, and the cases give them as inputs.
    """
    model = ModelProto()
    model.CopyFrom(case.model)
    kept = []
    for info, array in zip(list(model.graph.input), case.inputs, strict=False):
        is_small = isinstance(array, np.ndarray) and array.size <= _MOST
        if is_small and (array.dtype.kind in "iub" or info.name in _SCALES):
            model.graph.initializer.append(numpy_helper.from_array(array, info.name))
        else:
            kept.append(info)
    copies = [type(info).FromString(info.SerializeToString()) for info in kept]
    del model.graph.input[:]
    model.graph.input.extend(copies)
    return model


_MOST = 64

_SCALES = ("scales", "roi")
"""Inputs of Resize that DirectML takes as attributes."""


@dataclass(slots=True)
class Outcome:
    """What became of a case.

    Attributes:
        lowered: whether DirectML runs all its nodes.
        error: what went wrong, or "".
        reasons: why its nodes stay on the CPU.
        uses: the DirectML operators.
    """

    lowered: bool = False
    error: str = ""
    reasons: list[str] = field(default_factory=list)
    uses: list[str] = field(default_factory=list)


def run_case(case: NodeCase, runner: Runner, *, constants: bool) -> Outcome:
    """Runs a case and compares its outputs with those expected.

    Args:
        case: the case.
        runner: what runs its graphs.
        constants: whether its small integer inputs are constants of the model.
    """
    outcome = Outcome()
    source = with_constants(case) if constants else case.model
    names = [info.name for info in case.model.graph.input]
    left = {info.name for info in source.graph.input}
    inputs = {name: array for name, array in zip(names, case.inputs, strict=False) if name in left}
    try:
        model = opwire.onnx.load(source, dimensions=_dimensions(source, inputs))
        outcome.reasons = [f"{node.operator}: {node.reason}" for node in model.nodes if node.reason]
        outcome.uses = [use.type for node in model.nodes for use in node.uses]
        outcome.lowered = not outcome.reasons
        if outcome.reasons:
            return outcome
        found = model.run(inputs, runner=runner)
        for info, expected in zip(case.model.graph.output, case.outputs, strict=False):
            compare(found[info.name], expected, case)
    except Exception as error:
        outcome.error = f"{type(error).__name__}: {error}"
    return outcome


def _dimensions(model: ModelProto, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Returns the sizes of the dimensions that the inputs of a model leave open."""
    found: dict[str, int] = {}
    for info in model.graph.input:
        kind: TypeProto = info.type
        for axis, dimension in enumerate(kind.tensor_type.shape.dim):
            if not dimension.HasField("dim_value"):
                found[dimension.dim_param or f"{info.name}:{axis}"] = inputs[info.name].shape[axis]
    return found


def compare(found: Any, expected: Any, case: NodeCase) -> None:
    """Compares an output with the one expected, within the tolerance that ONNX allows."""
    assert found.dtype == expected.dtype, f"{found.dtype} instead of {expected.dtype}"
    assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found.astype("f8"), expected.astype("f8"), rtol=case.rtol, atol=case.atol)


def outcomes(runner: Runner, operators: Sequence[str] = ()) -> Iterator[tuple[NodeCase, Outcome]]:
    """Yields every case, or those of some operators, with its outcome: as given, and with constants if that is more."""
    for case in node_cases().values():
        if not operators or case.operator in operators or case.name in operators:
            outcome = run_case(case, runner, constants=False)
            if not outcome.lowered:
                outcome = run_case(case, runner, constants=True)
            yield case, outcome


def state_of(outcome: Outcome) -> str:
    """Returns what became of a case."""
    return "wrong" if outcome.error else "lowered" if outcome.lowered else "CPU"


def _tested(case: NodeCase) -> str:
    """Returns the operator that a case tests, also if the case has the body of its function instead."""
    plain = node_cases().get(case.name.partition("_expanded")[0])
    return case.operator if plain is None else plain.operator


def main(arguments: Sequence[str]) -> None:
    from opwire import local

    operators = [each for each in arguments if each != "--write"]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with local() as runner:
        for case, outcome in outcomes(runner, operators):
            state = state_of(outcome)
            counts[_tested(case)][state] += 1
            said = " ".join((outcome.error or "; ".join(outcome.reasons)).split())
            if state != "lowered" or operators:
                uses = " ".join(outcome.uses)[:60]
                sys.stdout.write(f"{state:8}{case.operator:24}{case.name:60}{uses:60}{said[:200]}\n")
    for operator, count in sorted(counts.items()):
        sys.stdout.write(f"{operator:32}{dict(count)}\n")
    sys.stdout.write(f"{dict(sum(counts.values(), Counter()))}\n")
    if "--write" in arguments:
        lines = [f"{json.dumps(name)}: {json.dumps(count, sort_keys=True)}" for name, count in sorted(counts.items())]
        STATES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
