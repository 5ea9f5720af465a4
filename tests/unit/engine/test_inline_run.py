"""A small plan that keeps its arrays runs each time as if it were the first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from opwire.check import check
from opwire_service.engine.inline_run import InlineRun
from opwire_service.kernels.executable import EXECUTABLE
from tests.strategies.operators import Case, cases
from tests.support.execution import execute, logical, never_stop
from tests.support.profiles import shared_examples


def answers(kept: InlineRun, inputs) -> dict[str, bytes]:
    kept.fill(inputs)
    kept.run(never_stop)
    return {name: buffer.tobytes() for name, buffer in kept.outputs().items()}


@pytest.mark.parametrize("name", EXECUTABLE)
def test_runs_do_not_affect_later_ones(cpu_device, name):
    @shared_examples(240, len(EXECUTABLE))
    @given(cases((name,)))
    def holds(case: Case):
        plan = check(case.operator, case.level)
        inputs = {name: desc.view(case.buffers[name]) for name, desc in plan.inputs.items()}
        kept = InlineRun(cpu_device, plan)
        first = answers(kept, inputs)
        answers(kept, {name: np.zeros_like(array) for name, array in inputs.items()})
        assert answers(kept, inputs) == first
        for name, elements in execute(cpu_device, plan, case.buffers).items():
            assert logical(plan.outputs[name], first[name]).tobytes() == elements.tobytes()

    holds()


def test_outputs_are_not_overwritten_by_the_next_run(cpu_device):
    plan = check({"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [3]}}})
    kept = InlineRun(cpu_device, plan)
    kept.fill({"InputTensor": np.array([1, -1, 2], np.float32)})
    kept.run(never_stop)
    first = kept.outputs()["OutputTensor"]
    kept.fill({"InputTensor": np.array([4, 5, 6], np.float32)})
    kept.run(never_stop)
    assert first.view(np.float32).tolist() == [1, 0, 2]


def test_large_plans_keep_no_arrays():
    small, large = (
        check({"type": "ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [size]}}})
        for size in (512, 513)
    )
    assert (InlineRun.pays(small), InlineRun.pays(large)) == (True, False)
