"""Recurrent networks on the CPU device only: sizes that no drawn desc has, and the float64 activations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from mpmath import mpf

from opwire.check import check
from opwire.fields.member import NestedOperator
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.cpu.jit.compiler import Kernel, uncached_kernel
from opwire_service.kernels.cpu.jit.element import INT64
from opwire_service.kernels.cpu.recurrent.family import PREPARE
from opwire_service.kernels.cpu.recurrent.geometry import Program
from opwire_service.kernels.cpu.recurrent.job import WEIGHTS
from opwire_service.kernels.cpu.recurrent.primitives import evaluate
from opwire_service.kernels.cpu.recurrent.programs import Programs
from tests.oracles import oracle
from tests.oracles.fused import activate
from tests.support.execution import execute, never_stop
from tests.support.products import plan_of

NUMBERS = {"Alpha": 0.75, "Beta": 0.5, "Gamma": 1.25, "Steepness": 2.0, "Bias": 0.25, "Threshold": 0.5}
PARAMETERS = {
    "CELU": ("Alpha",),
    "ELU": ("Alpha",),
    "GELU": (),
    "HARD_SIGMOID": ("Alpha", "Beta"),
    "HARD_SWISH": ("Alpha", "Beta"),
    "IDENTITY": (),
    "LEAKY_RELU": ("Alpha",),
    "LINEAR": ("Alpha", "Beta"),
    "PARAMETRIC_SOFTPLUS": ("Alpha", "Beta"),
    "RELU": (),
    "SCALED_ELU": ("Alpha", "Gamma"),
    "SCALED_TANH": ("Alpha", "Beta"),
    "SHRINK": ("Bias", "Threshold"),
    "SIGMOID": (),
    "SOFTPLUS": ("Steepness",),
    "SOFTSIGN": (),
    "SWISH": ("SigmoidInputScale",),
    "TANH": (),
    "THRESHOLDED_RELU": ("Alpha",),
}


def parameters(name: str) -> dict[str, float]:
    return {each: NUMBERS.get(each, 1.5) for each in PARAMETERS[name]}


@pytest.fixture(scope="module")
def cpu():
    device = CpuDevice(threads=3)
    yield device
    device.close()


@uncached_kernel
def activations(zero: int, source: int, target: int, states: int, geometry: Program, begin: int, end: int) -> None:
    evaluate(geometry, target, states, end)


@pytest.fixture(scope="module")
def entry():
    return Kernel(activations, INT64).compile()


@pytest.mark.parametrize("name", PARAMETERS)
def test_activations_are_within_some_ulps_of_float64(entry, name):
    operator = NestedOperator(f"ACTIVATION_{name}", parameters(name), "", {})
    programs = Programs([operator])
    chosen = np.random.default_rng(5)
    values = np.concatenate((
        chosen.standard_normal(300), chosen.standard_normal(100) * 1e-9, chosen.uniform(-40, 40, 300),
        [0.0, -0.0, 1e-300, -1e-300, 700, -700, 1e30, -1e30], np.zeros(12),
    ))  # fmt: skip
    found, registers = values.copy(), programs.registers.copy()
    geometry, _ = programs.all[0].buffer_info()
    entry.call(0, 0, found.ctypes.data, registers.ctypes.data, geometry, 0, len(found))
    for value, result in zip(values.tolist(), found.tolist(), strict=True):
        right = activate(operator, value)
        # What cancels, as in Alpha*x + Beta, is as accurate as its terms.
        ulps = 8 + 2 * abs(value)  # rounding a large operand changes an exponential
        margin = max(ulps * abs(right) * mpf(2) ** -53, 4 * mpf(2) ** -53 if name in CANCELLING else 0, mpf(2) ** -1074)
        assert abs(mpf(result) - right) <= margin or right == result, (value, result, right)


CANCELLING = ("HARD_SIGMOID", "HARD_SWISH", "LINEAR", "SHRINK", "GELU", "SOFTPLUS", "PARAMETRIC_SOFTPLUS")


@pytest.mark.parametrize("name", ["SIGMOID", "TANH", "ELU", "SOFTPLUS"])
def test_activations_of_infinities_and_nan(entry, name):
    programs = Programs([NestedOperator(f"ACTIVATION_{name}", parameters(name), "", {})])
    found, registers = np.array([math.inf, -math.inf, math.nan, *[0.0] * 13]), programs.registers.copy()
    geometry, _ = programs.all[0].buffer_info()
    entry.call(0, 0, found.ctypes.data, registers.ctypes.data, geometry, 0, len(found))
    right = {"SIGMOID": (1, 0), "TANH": (1, -1), "ELU": (math.inf, -0.75), "SOFTPLUS": (math.inf, 0)}[name]
    np.testing.assert_array_equal(found[:3], [*right, math.nan])


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def network(kind: str, gates: int, names: list[str], **members: Any) -> dict[str, Any]:
    """Returns the desc of a network in both directions, whose sizes fill no vector and no group of batch entries."""
    length, batch, width, hidden = 3, 17, 2, 17
    states = tensor(1, 2, batch, hidden)
    cells = {"CellMemInitTensor": states, "PeepholeTensor": tensor(1, 1, 2, 3 * hidden)} if kind == "LSTM" else {}
    return {
        "InputTensor": tensor(1, length, batch, width),
        "WeightTensor": tensor(1, 2, gates * hidden, width),
        "RecurrenceTensor": tensor(1, 2, gates * hidden, hidden),
        "BiasTensor": tensor(1, 1, 2, 2 * gates * hidden),
        "HiddenInitTensor": states,
        **cells,
        "SequenceLengthsTensor": tensor(1, 1, 1, batch, data_type="UINT32"),
        "OutputSequenceTensor": tensor(length, 2, batch, hidden),
        "OutputSingleTensor": states,
        "ActivationDescs": [{"Type": f"ACTIVATION_{name}", **parameters(name)} for name in 2 * names],
        "Direction": "BIDIRECTIONAL",
        **members,
    }


LSTM = {"ClipThreshold": 0.5, "UseClipThreshold": True, "CoupleInputForget": False}
NETWORKS: dict[str, tuple[str, int, list[str], dict[str, Any]]] = {
    "RNN": ("RNN", 1, ["SOFTSIGN"], {}),
    "GRU": ("GRU", 3, ["SIGMOID", "TANH"], {"LinearBeforeReset": False}),
    "GRU_linear_before_reset": ("GRU", 3, ["HARD_SIGMOID", "ELU"], {"LinearBeforeReset": True}),
    "LSTM": ("LSTM", 4, ["SIGMOID", "TANH", "TANH"], LSTM),
    "LSTM_coupled": ("LSTM", 4, ["HARD_SIGMOID", "SCALED_TANH", "GELU"], {**LSTM, "CoupleInputForget": True}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_sizes_that_fill_no_vector(cpu, name):
    kind, gates, names, members = NETWORKS[name]
    plan = check({"type": kind, "desc": network(kind, gates, names, **members)})
    chosen = np.random.default_rng(11)
    inputs = {key: chosen.integers(-8, 9, desc.sizes) / 16 for key, desc in plan.inputs.items()}
    inputs = {key: array.astype(plan.inputs[key].data_type.dtype) for key, array in inputs.items()}
    inputs["SequenceLengthsTensor"][...] = chosen.integers(0, 5, 17)
    oracle.assert_answers(
        plan, execute(cpu, plan, {key: array.tobytes() for key, array in inputs.items()}), oracle.expected(plan, inputs)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_runs_on_the_same_tensors(cpu, name):
    """Weights are read again unless they are fixed; everything else always is."""
    kind, gates, names, members = NETWORKS[name]
    plan = check({"type": kind, "desc": network(kind, gates, names, **members)})
    chosen = np.random.default_rng(12)
    inputs = {key: np.zeros(desc.sizes, desc.data_type.dtype) for key, desc in plan.inputs.items()}
    bound = {}
    outputs = {is_fixed: {key: desc.allocate()[1] for key, desc in plan.outputs.items()} for is_fixed in (False, True)}
    for is_fixed, own in outputs.items():
        fixed = WEIGHTS if is_fixed else ()
        cpu.warm_up()
        bound[is_fixed] = PREPARE[kind](plan).bind_fixed(fixed, inputs, own, cpu._library.find, cpu._pool)
    first: dict[str, Array] = {}
    for _ in range(3):
        for array in inputs.values():
            array[...] = chosen.integers(0, 5, array.shape) if array.dtype == np.uint32 else chosen.random(array.shape)
        first = first or {key: inputs[key].copy() for key in WEIGHTS if key in inputs}
        for is_fixed, own in outputs.items():
            bound[is_fixed](never_stop)
            right = {key: desc.allocate()[1] for key, desc in plan.outputs.items()}
            cpu.run(plan, {**inputs, **(first if is_fixed else {})}, right, never_stop)
            for key, array in own.items():
                np.testing.assert_array_equal(array, right[key])


def test_long_sequences_in_both_directions(cpu):
    """The inputs of many steps are multiplied ahead, several times in a sequence."""
    length, batch, width, hidden = 450, 18, 3, 20
    chosen = np.random.default_rng(2)
    x, w, r = (
        chosen.standard_normal(sizes).astype(np.float32) / 4
        for sizes in ((1, length, batch, width), (1, 2, hidden, width), (1, 2, hidden, hidden))
    )
    activations = [{"Type": "ACTIVATION_TANH"}] * 2
    inputs = {"InputTensor": x, "WeightTensor": w, "RecurrenceTensor": r}
    plan = plan_of(
        "RNN", inputs, ActivationDescs=activations, Direction="BIDIRECTIONAL",
        OutputSequenceTensor=tensor(length, 2, batch, hidden),
    )  # fmt: skip
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    cpu.run(plan, inputs, outputs, never_stop)
    found = outputs["OutputSequenceTensor"]
    x, w, r = (array[0].astype(np.float64) for array in (x, w, r))
    for direction in (0, 1):
        state = np.zeros((batch, hidden))
        for t in reversed(range(length)) if direction else range(length):
            state = np.tanh(x[t] @ w[direction].T + state @ r[direction].T)
            np.testing.assert_allclose(found[t, direction], state, rtol=2**-23, atol=1e-12)
