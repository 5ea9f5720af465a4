"""The values of element-wise operators: every FLOAT16, difficult FLOAT32, and pairs of edge cases."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import mpmath
import numpy as np
import pytest

from opwire.formulas import PRIMITIVES
from opwire.operators import OPERATORS
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from opwire_service.kernels.formulas import float64
from opwire_service.kernels.formulas.bounds import error_bound
from opwire_service.kernels.formulas.formula import formula_of
from tests.oracles import activations, functions, oracle
from tests.oracles.elements import is_special, number, real
from tests.support.elements import (
    ATTRIBUTES,
    EDGES,
    FORMULAS,
    HARD,
    SHRINKS,
    answer,
    drawn_floats,
    integers,
    plan_of,
    takes_scale,
    unary,
)

PAIRS = [name for name in FORMULAS if len(OPERATORS[name].members.inputs) == 2]

LONG = {
    "EXP": np.exp,
    "LOG": np.log,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "TANH": np.tanh,
    "ASINH": np.arcsinh,
    "ACOSH": np.arccosh,
    "ATANH": np.arctanh,
    "SQRT": np.sqrt,
}
"""C library functions on floats with 64 significant bits."""


def assert_right(device: Device, name: str, arrays: dict[str, Array], **attributes: Any) -> None:
    assert_all_right([device], name, arrays, **attributes)


def assert_all_right(devices: Iterable[Device], name: str, arrays: dict[str, Array], **attributes: Any) -> None:
    """Checks several devices with one call of the oracle, which is slower than any of them."""
    plan = plan_of(name, arrays, **attributes)
    ((output, right),) = oracle.expected(plan, arrays).items()
    assert isinstance(right, np.ndarray)
    for device in devices:
        actual = answer(device, plan, arrays)
        wrong = [place for place in np.ndindex(right.shape) if not oracle.same(actual[place], right[place])]
        for place in wrong[:3]:
            given = {key: array[place] for key, array in arrays.items()}
            text = f"{actual[place]!r} on {device.name}; right is {right[place]!r} ({len(wrong)} wrong)"
            pytest.fail(f"{output} of {given} is {text}")


def _numbers(name: str) -> list[str]:
    """Returns the FLOAT attributes of an operator."""
    return [m.name for m in OPERATORS[name].members.attributes if isinstance(ATTRIBUTES.get(m.name), int | float)]


def _patterns(step: int) -> Array:
    return np.arange(0, 1 << 16, step, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("name", unary(DataType.FLOAT16))
def test_a_sample_of_float16_is_correct(device, name):
    assert_right(device, name, {"InputTensor": _patterns(487)})


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", unary(DataType.FLOAT16))
def test_every_float16_is_correct(reference, cpu_device, name):
    """``tests/cuda/test_elements.py`` compares cards with the CPU."""
    assert_all_right([reference, cpu_device], name, {"InputTensor": _patterns(1)})


@pytest.mark.parametrize("name", unary(DataType.FLOAT32))
def test_difficult_float32_is_correct(device, name):
    assert_right(device, name, {"InputTensor": drawn_floats(200)})


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", unary(DataType.FLOAT32))
def test_random_float32_is_correct(cpu_device, name):
    assert_right(cpu_device, name, {"InputTensor": drawn_floats(20000, seed=1)})


@pytest.mark.parametrize("scale", [(0.1, 1.0), (-1e30, 3.0), (1.0, -1.0), (3.0, 0.5)])
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_scaled_float32_is_correct(cpu_device, name, scale):
    scale_bias = dict(zip(("Scale", "Bias"), scale, strict=True))
    assert_right(cpu_device, name, {"InputTensor": drawn_floats(120)}, ScaleBias=scale_bias)


ROUNDED_AWAY = [(1e-30, 1.0), (-1e-30, -1.0), (2.0**-60, 0.5), (2.0**-28, 1.0), (1.0, 3e38), (0.3, -1e20)]
"""Scales and biases whose float64 sum loses a part."""


@pytest.mark.parametrize("scale", ROUNDED_AWAY)
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_scaled_sums_that_float64_cannot_hold_are_correct(cpu_device, name, scale):
    values = np.array((*EDGES, *HARD, *drawn_floats(40)), np.float32)
    scale_bias = dict(zip(("Scale", "Bias"), scale, strict=True))
    assert_right(cpu_device, name, {"InputTensor": values}, ScaleBias=scale_bias)


@pytest.mark.parametrize("exponent", [0.5, 3.0, 1e9, -1e18, 1e30, 3e38])
@pytest.mark.parametrize("scale", ROUNDED_AWAY)
def test_powers_of_scaled_sums_next_to_one(cpu_device, scale, exponent):
    values = np.array((*EDGES, *HARD, *drawn_floats(40)), np.float32)
    scale_bias = dict(zip(("Scale", "Bias"), scale, strict=True))
    arrays = {"InputTensor": values, "ExponentTensor": np.full_like(values, exponent)}
    assert_right(cpu_device, "ELEMENT_WISE_POW", arrays, ScaleBias=scale_bias)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scale", [(1e-30, 1.0), (1.0, 3e38)])
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_scaled_sums_rarely_need_exact_arithmetic(cpu_device, name, scale):
    """Exact arithmetic would take minutes for that many elements."""
    values = drawn_floats(1 << 18)
    scale_bias = dict(zip(("Scale", "Bias"), scale, strict=True))
    plan = plan_of(name, {"InputTensor": values}, ScaleBias=scale_bias)
    end = time.monotonic() + 20
    cpu_device.run(
        plan, {"InputTensor": values}, {"OutputTensor": np.empty_like(values)}, lambda: time.monotonic() > end
    )


EXTREMES = ("Infinity", "-Infinity", 0.0, -1.0, 1.25 * 2.0**126, 1.25 * 2.0**-140)


@pytest.mark.parametrize("bias", EXTREMES)
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_infinite_and_extreme_scales_are_correct(cpu_device, name, bias):
    for scale in EXTREMES:
        values = {"InputTensor": np.array((*EDGES, *HARD), np.float32)}
        assert_right(cpu_device, name, values, ScaleBias={"Scale": scale, "Bias": bias})


@pytest.mark.parametrize("scale", EXTREMES)
def test_powers_of_infinite_bases_are_correct(cpu_device, scale):
    edges = np.array(EDGES, np.float32)
    bases, exponents = np.repeat(edges, edges.size), np.tile(edges, edges.size)
    for bias in EXTREMES:
        arrays = {"InputTensor": bases, "ExponentTensor": exponents}
        assert_right(cpu_device, "ELEMENT_WISE_POW", arrays, ScaleBias={"Scale": scale, "Bias": bias})


@pytest.mark.parametrize("number", EXTREMES)
@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if _numbers(name) and "CLIP1" not in name])
def test_infinite_and_extreme_attributes_are_correct(cpu_device, name, number):
    values = {"InputTensor": np.array(EDGES, np.float32)}
    for attribute in _numbers(name):
        divides = attribute == "Steepness" or name == "ACTIVATION_CELU"
        if not (divides and number == 0):
            assert_right(cpu_device, name, values, **{attribute: number})


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LONG)
def test_a_million_random_float32_are_correct(cpu_device, name):
    values = drawn_floats(1_000_000, seed=2)
    plan = plan_of(f"ELEMENT_WISE_{name}", {"InputTensor": values})
    actual = answer(cpu_device, plan, {"InputTensor": values})
    with np.errstate(all="ignore"):
        near = LONG[name](values.astype(np.longdouble)).astype(np.float32)
    # float64 is accurate enough except near ties; those few are decided with as many bits as needed.
    unlike = np.flatnonzero((actual.view(np.uint32) != near.view(np.uint32)) & ~(np.isnan(actual) & np.isnan(near)))
    assert unlike.size < 10
    if unlike.size:
        few = {"InputTensor": values[unlike]}
        np.testing.assert_array_equal(
            actual[unlike], oracle.expected(plan_of(plan.operator.name, few), few)["OutputTensor"]
        )


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_edge_values_are_correct(device, name):
    inputs = [member.name for member in OPERATORS[name].members.inputs]
    types = OPERATORS[name].support.rows({})[0].tensors[inputs[0]].data_types
    data_type = next(each for each in (DataType.FLOAT32, DataType.INT32, DataType.UINT32) if each in types)
    if data_type is DataType.FLOAT32:
        edges = np.array(EDGES[:22], np.float32)
    else:
        edges = np.array([0, 1, 2, 3, 31, 32, 33, 64, 255, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
        edges = edges.view(data_type.dtype)
    first, second = np.repeat(edges, edges.size), np.tile(edges, edges.size)
    assert_right(device, name, dict(zip(inputs, (first, second), strict=True)))


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT8, DataType.INT32, DataType.UINT32])
@pytest.mark.parametrize("exponent", [DataType.INT8, DataType.UINT16, DataType.FLOAT16])
def test_powers_of_integers_are_correct(device, data_type, exponent):
    bases = np.array([0, 1, 2, 3, 7, 15, 127, 128, 254, 255], np.uint8).view(np.int8).astype(data_type.dtype)
    exponents = np.array([0, 1, 2, 3, 5, 8, 31, 100, 117], np.int8).astype(exponent.dtype)
    if exponent.is_signed:
        exponents[-2:] *= -1
    first, second = np.repeat(bases, exponents.size), np.tile(exponents, bases.size)
    assert_right(device, "ELEMENT_WISE_POW", {"InputTensor": first, "ExponentTensor": second})


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT16, DataType.INT32, DataType.UINT32])
@pytest.mark.parametrize("scale", [(0.1, 0.0), (0.5, -1.5), (3.0, 1e9), (-1.0, 0.0)])
def test_scaled_integers_are_correct(device, data_type, scale):
    draw = np.random.default_rng(3)
    info = np.iinfo(data_type.dtype)
    values = draw.integers(info.min, info.max, 60, data_type.dtype, endpoint=True)
    values[:3] = info.min, info.max, 10
    scale_bias = dict(zip(("Scale", "Bias"), scale, strict=True))
    assert_right(device, "ELEMENT_WISE_IDENTITY", {"InputTensor": values}, ScaleBias=scale_bias)
    assert_right(device, "ELEMENT_WISE_CLIP", {"InputTensor": values}, ScaleBias=scale_bias)


@pytest.mark.parametrize("data_type", [DataType.INT8, DataType.UINT8, DataType.INT32, DataType.UINT32])
@pytest.mark.parametrize(("bias", "threshold"), SHRINKS)
def test_shrunk_integers_are_truncated_and_saturated(device, data_type, bias, threshold):
    assert_right(device, "ACTIVATION_SHRINK", {"InputTensor": integers(data_type, 40)}, Bias=bias, Threshold=threshold)


@pytest.mark.parametrize("data_type", [DataType.INT64, DataType.UINT64, DataType.FLOAT64])
def test_elements_of_64_bits_have_no_scale_that_changes_them(device, data_type):
    values = np.array([0, 1, 2**53 + 1, 2**63 - 1], np.int64).astype(data_type.dtype)
    assert_right(device, "ELEMENT_WISE_IDENTITY", {"InputTensor": values}, ScaleBias={"Scale": 1, "Bias": 0})


HALFWAY = 1 + 2.0**-11
"""A tie between two FLOAT16."""


def _half(*values: float) -> Array:
    return np.array(values, np.float16)


def _single(*values: float) -> Array:
    return np.array(values, np.float32)


BELOW = np.nextafter(np.float32(-1.5) * np.float32(1.1), np.float32(0))
"""1.5 times the FLOAT32 next to 1.1 has one bit too many."""

TOWARDS_HALFWAY: dict[str, tuple[str, dict[str, float], Array, Array]] = {
    "ELU": ("ACTIVATION_ELU", {"Alpha": HALFWAY}, _half(-65504, -20), _half(-1, -1)),
    "negative": ("ACTIVATION_ELU", {"Alpha": -HALFWAY}, _half(-65504, -20), _half(1, 1)),
    "tanh": ("ACTIVATION_SCALED_TANH", {"Alpha": HALFWAY, "Beta": 1}, _half(-65504, 65504, 20), _half(-1, 1, 1)),
    "product": (
        "ACTIVATION_SCALED_ELU",
        {"Alpha": 1.5, "Gamma": 1.1},
        _single(-3e38, -1e10, -200, -30),
        np.full(4, BELOW),
    ),
    "softplus": (
        "ACTIVATION_PARAMETRIC_SOFTPLUS",
        {"Alpha": 1.5, "Beta": 1.1},
        _single(2**20, 2**30),
        _single(2**20, 2**30) * np.float32(1.5) * np.float32(1.1),
    ),
}
"""Functions near a limit that is a tie: operator, attributes, input, and the float on the correct side."""


@pytest.mark.parametrize("name", TOWARDS_HALFWAY)
def test_limits_that_are_ties_round_to_the_correct_side(device, name):
    operator, attributes, values, right = TOWARDS_HALFWAY[name]
    arrays = {"InputTensor": values}
    np.testing.assert_array_equal(answer(device, plan_of(operator, arrays, **attributes), arrays), right)


@pytest.mark.parametrize("power", [-1, 0, 1])
def test_logarithms_next_to_powers_of_four(device, power):
    """The oracle is not used here: it would confuse values next to a quarter with values next to 1."""
    arrays = {"InputTensor": _single(1e-45, -1e-45, 1e-40, 0)}
    plan = plan_of("ELEMENT_WISE_LOG", arrays, ScaleBias={"Scale": 1.125, "Bias": 4.0**power})
    right = 1.125 * arrays["InputTensor"].astype(np.float64) if power == 0 else np.full(4, power * np.log(4))
    np.testing.assert_array_equal(answer(device, plan, arrays), right.astype(np.float32))


def test_moved_elements_keep_their_bits(device):
    patterns = np.array([0x7F800001, 0xFFC12345, 0x80000000, 0x7FFFFFFF], np.uint32).view(np.float32)
    ones, condition = np.ones(4, np.float32), np.array([1, 7, 255, 2], np.uint8)
    moving: dict[str, dict[str, Array]] = {
        "ELEMENT_WISE_IDENTITY": {"InputTensor": patterns},
        "ACTIVATION_RELU_GRAD": {"InputTensor": ones, "InputGradientTensor": patterns},
        "ELEMENT_WISE_IF": {"ConditionTensor": condition, "ATensor": patterns, "BTensor": ones},
    }
    for name, arrays in moving.items():
        actual = answer(device, plan_of(name, arrays), arrays)
        np.testing.assert_array_equal(actual.view(np.uint32), patterns.view(np.uint32), err_msg=name)


BOUNDED = [name for name in unary(DataType.FLOAT32) if name.removeprefix("ELEMENT_WISE_") in functions.FUNCTIONS]
BOUNDED += [f"ACTIVATION_{name}" for name in activations.FORMULAS]


def _worst(name: str, values: Array) -> None:
    """Checks that a float64 formula stays within its error bound."""
    plan = plan_of(name, {"InputTensor": values})
    formula = formula_of(plan)
    bound = error_bound(formula.expression, dict(formula.inputs))
    assert bound is not None
    with np.errstate(all="ignore"):
        computed = np.asarray(float64.evaluate(formula.expression, {"InputTensor": values.astype(np.float64)}), float)
    for x, found in zip(values.tolist(), computed.tolist(), strict=True):
        right = _real_value(name, x, plan)
        if is_special(right) or not 2.0**-151 < abs(right) < 2.0**129:
            continue  # zero or infinite in any type, whatever the rounding
        error = abs(mpmath.mpf(found) - real(right)) / abs(real(right))
        assert error <= bound, f"{name} of {x!r} is off by {float(error)}, more than {bound}"


def _real_value(name: str, x: float, plan: Any) -> Any:
    short = name.split("_", 2)[2] if name.startswith("ELEMENT_WISE_") else name.removeprefix("ACTIVATION_")
    if name.startswith("ELEMENT_WISE_"):
        return functions.function(short, number(x))
    return activations.FORMULAS[short](number(x), vars(plan.attributes))


@pytest.mark.parametrize("name", BOUNDED)
def test_formulas_stay_within_their_bounds(name):
    _worst(name, drawn_floats(150, seed=4))


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", BOUNDED)
def test_formulas_stay_within_their_bounds_at_many_points(name):
    _worst(name, drawn_floats(100_000, seed=5))


def test_each_primitive_is_used():
    text = repr([OPERATORS[name].formula for name in FORMULAS])
    assert [name for name in PRIMITIVES if f"'{name}'" not in text] == []
