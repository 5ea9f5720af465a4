"""Compiled kernels of formulas: error bounds of their functions, long tensors, and unusual layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from opwire.formulas import Expression, InputElement, Operation, call
from opwire.operators import OPERATORS
from opwire.tensor import Array, DataType
from opwire_service.devices.cpu import CpuDevice
from opwire_service.kernels.cpu.elementwise.kernel import module_of
from opwire_service.kernels.cpu.elementwise.machine_code import compiled, has_sixteenths, optimized
from opwire_service.kernels.cpu.elementwise.planes import SHORT, planes_of
from opwire_service.kernels.cpu.elementwise.recipe import CERTIFIED_WIDTH, Recipe, Source, Way
from opwire_service.kernels.formulas import quick
from opwire_service.kernels.formulas.formula import formula_of
from opwire_service.kernels.formulas.quick import FUNCTIONS, TURNS
from tests.oracles import oracle
from tests.support.elements import EDGES, FORMULAS, HARD, answer, drawn_floats, plan_of, takes_scale, unary

LONG = 40_000
"""Number of elements from which a kernel is compiled."""

VECTOR = 64
"""This many equal adjacent elements fill whole vectors."""

RANGES: dict[str, tuple[float, float]] = {
    "exp": (-690, 690),
    "expm1": (-690, 690),
    "log": (1e-300, 1e300),
    "log1p": (0, 1),
    "sinh": (-690, 690),
    "cosh": (-690, 690),
    "sin": (-TURNS, TURNS),
    "cos": (-TURNS, TURNS),
    "tan": (-TURNS, TURNS),
    "tanh": (-400, 400),
    "erf": (-4, 4),
    "atan": (-1e300, 1e300),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "asinh": (-1e150, 1e150),
    "acosh": (1, 1e150),
    "atanh": (-1 + 2**-53, 1 - 2**-53),
}
"""Range in which the functions keep their bounds."""


@pytest.fixture(scope="module")
def cpu_device() -> Iterator[CpuDevice]:
    """A CPU device whose other kernels are not waited for, which would slow down the first test."""
    made = CpuDevice()
    yield made
    made.close()


def _values(name: str, *operands: Array, is_last: bool = True, looks_up: bool = False) -> Array:
    """Evaluates a function on FLOAT64 elements without further rounding."""
    names = ["x", "y"][: len(operands)]
    expression: Expression = Operation(name, tuple(map(InputElement, names)))
    sources = tuple(Source(each, DataType.FLOAT64, is_spread=False) for each in names)
    expression = expression if is_last else call("negate")(call("negate")(expression))
    recipe = Recipe(expression, 0, sources, DataType.FLOAT64, Way.UNROUNDED)
    found = np.empty(operands[0].shape)
    addresses = [number for operand in operands for number in (operand.ctypes.data, 0)]
    arguments = np.array([1, found.size, found.ctypes.data, 0, 0, 0, *addresses], np.int64)
    compiled(module_of(recipe, looks_up=looks_up))(arguments.ctypes.data)
    return found


def _points(name: str, count: int) -> Array:
    """Returns arguments of all magnitudes, difficult ones, and typical ones."""
    low, high = RANGES[name]
    usual = np.random.default_rng(7).uniform(max(low, -12), min(high, 12), count)
    sizes = np.random.default_rng(8).uniform(-200, 200, count)
    with np.errstate(invalid="ignore"):
        drawn = drawn_floats(count, seed=6).astype(np.float64)
    both = np.concatenate([usual[::2], drawn, usual * 2.0**sizes, np.array(HARD, np.float64)])
    both = both[(both >= low) & (both <= high) & (both != 0)]
    return np.random.default_rng(10).permutation(both)[:count]


def _assert_within(name: str, bound: float, found: Array, right: list[Any], points: list[Any]) -> None:
    for point, value, exact in zip(points, found.tolist(), right, strict=True):
        error = abs(mpmath.mpf(value) - exact) / abs(exact) if exact else abs(value)
        assert error <= bound, f"{name} of {point!r} is off by {mpmath.log(error, 2)} bits"


def _ways(name: str) -> Iterator[tuple[float, bool, bool]]:
    """Yields the bound of a function, whether its result is used in further computation, and whether it looks up."""
    for looks_up in {False, has_sixteenths()}:
        precision = quick.QUICK if looks_up else quick.POLYNOMIAL
        for is_last in {False, quick.LAST[name] is not FUNCTIONS[name]}:
            yield precision.own.get(name, precision.function), is_last, looks_up


def _assert_bound(name: str, count: int) -> None:
    with mpmath.workprec(200):
        for bound, is_last, looks_up in _ways(name):
            if name == "power":
                x, y = _powers(count, 420)
                right = [mpmath.mpf(a) ** mpmath.mpf(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
                pairs = list(zip(x.tolist(), y.tolist(), strict=True))
                _assert_within(name, bound, _values(name, x, y, is_last=is_last, looks_up=looks_up), right, pairs)
                continue
            points = _points(name, count)
            if is_last and name == "tanh":
                points = points[np.abs(points) < 9.02]
            right = [getattr(mpmath, name)(mpmath.mpf(point)) for point in points.tolist()]
            found = _values(name, points, is_last=is_last, looks_up=looks_up)
            _assert_within(name, bound, found, right, points.tolist())


def _powers(count: int, most: float) -> tuple[Array, Array]:
    """Returns bases and exponents whose powers stay within exp(most)."""
    draw = np.random.default_rng(9)
    x = np.concatenate([np.exp2(draw.uniform(-149, 128, count)), draw.uniform(0.9, 1.1, count)])
    x = x.astype(np.float32).astype(np.float64)
    return x, draw.uniform(-1, 1, x.size) * most / 7 / np.maximum(1, np.abs(np.log(x)))


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"gelu"}))
def test_functions_stay_within_their_bounds(name):
    _assert_bound(name, 300)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"gelu"}))
def test_functions_stay_within_their_bounds_at_many_points(name):
    _assert_bound(name, 100_000)


def _assert_gelu(count: int) -> None:
    points = np.random.default_rng(13).uniform(-14.85, 14.85, count)
    points *= np.exp2(-np.random.default_rng(14).exponential(2, count))
    with mpmath.workprec(200):
        right = [mpmath.mpf(x) * mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2 for x in points.tolist()]
        for looks_up in {False, has_sixteenths()}:
            found = _values("gelu", points, looks_up=looks_up)
            kept = (quick.QUICK if looks_up else quick.POLYNOMIAL).own["gelu"]
            _assert_within("gelu", kept, found, right, points.tolist())


def test_gelu_stays_within_its_bound():
    _assert_gelu(300)


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_gelu_stays_within_its_bound_at_many_points():
    _assert_gelu(100_000)


def test_fast_gelu_of_zeros_infinities_and_nan():
    found = _values("gelu", np.array([0.0, -0.0, np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(found, [0, 0, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(np.signbit(found[:2]), [False, True])


def test_gelu_is_a_single_fast_function():
    formula = formula_of(plan_of("ACTIVATION_GELU", {"InputTensor": np.zeros(1, np.float32)}))
    assert quick.condensed(formula.expression) == Operation("gelu", (InputElement("InputTensor"),))


def test_code_is_vectorized_without_library_calls():
    for name in FUNCTIONS:
        operands = [InputElement(each) for each in ("x", "y")[: 2 if name == "power" else 1]]
        sources = tuple(Source(each.name, DataType.FLOAT32, is_spread=False) for each in operands)
        recipe = Recipe(Operation(name, tuple(operands)), 0, sources, DataType.FLOAT32, Way.CERTIFIED, 16)
        text = str(optimized(module_of(recipe), is_narrow=False)[0])
        assert f"<{CERTIFIED_WIDTH} x double>" in text
        assert not re.findall(r"call [^@]*@(?!llvm\.)", text), name


def _assert_long(device: Any, name: str, arrays: dict[str, Array], **attributes: Any) -> None:
    """Checks the values of a long tensor in which a few elements repeat."""
    few = plan_of(name, arrays, **attributes)
    ((output, right),) = oracle.expected(few, arrays).items()
    assert isinstance(right, np.ndarray), output
    for side_by_side in (1, VECTOR):
        repeated = {key: _repeated(array, side_by_side) for key, array in arrays.items()}
        actual = answer(device, plan_of(name, repeated, **attributes), repeated)
        _assert_same(name, repeated, actual, _repeated(right, side_by_side))


def _repeated(few: Array, side_by_side: int) -> Array:
    """Returns a long tensor of a few elements; one uncertain element sends its whole vector to the slow path."""
    return np.resize(np.repeat(few, side_by_side), max(LONG, few.size * side_by_side))


def _assert_same(name: str, repeated: dict[str, Array], actual: Array, expected: Array) -> None:
    kept = actual.view(f"u{actual.itemsize}") == expected.view(f"u{actual.itemsize}")
    for place in np.flatnonzero(~kept & ~((actual != actual) & (expected != expected)))[:1]:
        given = {key: array[place] for key, array in repeated.items()}
        pytest.fail(f"{name} of {given} is {actual[place]!r}; right is {expected[place]!r}")


@pytest.mark.parametrize("name", unary(DataType.FLOAT32))
def test_long_tensors_match(cpu_device, name):
    _assert_long(cpu_device, name, {"InputTensor": drawn_floats(130, seed=11)})


@pytest.mark.parametrize("name", [name for name in unary(DataType.FLOAT32) if takes_scale(name)])
def test_long_scaled_tensors_match(cpu_device, name):
    _assert_long(cpu_device, name, {"InputTensor": drawn_floats(90)}, ScaleBias={"Scale": 0.5, "Bias": 0.25})


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_long_scaled_powers_match(cpu_device, dtype):
    draw = np.random.default_rng(12)
    bases, exponents = np.abs(draw.standard_normal(80)).astype(dtype), (draw.standard_normal(80) * 9).astype(dtype)
    exponents[:6], bases[:3] = [2, 3, 0.5, -1, 0, 3000], [0, 3.5, 1]
    arrays = {"InputTensor": bases, "ExponentTensor": exponents}
    _assert_long(cpu_device, "ELEMENT_WISE_POW", arrays, ScaleBias={"Scale": 1.5, "Bias": 0.1})


@pytest.mark.parametrize("type_name", ["FLOAT32", "FLOAT16", "INT32", "UINT8", "UINT64"])
def test_long_pairs_match(cpu_device, type_name):
    data_type = DataType[type_name]
    edges: Array = np.array([0, 1, 2, 3, 31, 64, 127, 128, 200, 255], np.uint8).astype(data_type.dtype)
    if data_type.is_float:
        with np.errstate(over="ignore"):
            edges = np.array(EDGES[:20], np.float32).astype(data_type.dtype)
    first, second = np.repeat(edges, edges.size), np.tile(edges, edges.size)
    for name in FORMULAS:
        inputs = [member.name for member in OPERATORS[name].members.inputs]
        types = OPERATORS[name].support.rows({})[0].tensors[inputs[0]].data_types
        if len(inputs) == 2 and data_type in types:
            _assert_long(cpu_device, name, dict(zip(inputs, (first, second), strict=True)))


@pytest.mark.parametrize("name", ["ACTIVATION_LINEAR", "ACTIVATION_HARD_SIGMOID", "ELEMENT_WISE_CLIP"])
def test_scaled_sums_near_ties_are_correctly_rounded(cpu_device, name):
    """Random draws of scaled sums that are ties, close to ties, or floats."""
    ties = np.array([1 + 2**-23, 3, 5 + 2**-21, 2**-24, 2**-25, 1.5 * 2**-24, 2**-149, 2**24 + 2], np.float32)
    arrays = {"InputTensor": np.concatenate([ties, -ties])}
    scale = {"ScaleBias": {"Scale": 0.5, "Bias": 1.0}} if takes_scale(name) else {"Alpha": 0.5, "Beta": 1.0}
    _assert_long(cpu_device, name, arrays, **scale)


@pytest.mark.parametrize("sizes", [(15_000, 3), (3, 15_000), (12_000, 1, 4), (5, 6, 7, 8, 31), (300, 150)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
def test_rows_of_any_length_match(cpu_device, sizes, dtype):
    a = np.random.default_rng(1).integers(0, 9, sizes).astype(dtype)
    packed = np.random.default_rng(2).integers(0, 9, sizes).astype(dtype)
    wide = np.zeros((*sizes[:-1], sizes[-1] * 3), dtype)[..., ::3]
    wide[...] = packed
    one_row = as_strided(packed, sizes, (*(0 for _ in sizes[1:]), a.itemsize))
    for b in (wide, one_row, np.ascontiguousarray(packed.T).T):
        arrays = {"ATensor": a, "BTensor": b}
        for target in (None, wide.copy()[..., :], np.zeros((*sizes[:-1], sizes[-1] * 2), dtype)[..., ::2]):
            steps = None if target is None else [step // a.itemsize for step in target.strides]
            desc = {"DataType": DataType.of(a.dtype).name, "Sizes": list(sizes), "Strides": steps}
            plan = plan_of("ELEMENT_WISE_ADD", arrays, OutputTensor=desc)
            np.testing.assert_array_equal(answer(cpu_device, plan, arrays, target), a + b)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.float64])
@pytest.mark.parametrize("spread", [False, True])
def test_streamed_rows_of_any_length_and_alignment_match(dtype, spread):
    data_type = DataType.of(np.dtype(dtype))
    way = Way.FLOATS if data_type.is_float else Way.INTEGERS
    sources = Source("a", data_type, is_spread=False), Source("b", data_type, is_spread=spread)
    recipe = Recipe(InputElement("a") + InputElement("b"), 0, sources, data_type, way, is_streamed=True)
    kernel, width, size = compiled(module_of(recipe), is_narrow=True), recipe.width, data_type.bits // 8
    draw, rows, row = np.random.default_rng(3), 3, 5 * width + 3
    a, b = (draw.integers(0, 100, (rows, row)).astype(dtype) for _ in range(2))
    room = np.zeros((rows * row + 2 * width) * size, np.uint8)
    start = -room.ctypes.data % (width * size)
    for columns in (1, width - 1, width, width + 1, 2 * width - 1, 2 * width, 2 * width + 1, 4 * width, row):
        for offset in (0, size, 16 * size, (width - 1) * size, 1):
            room[:] = 0xAA
            place = room[start + offset :][: rows * row * size]
            given = [(each.ctypes.data, row * size) for each in (a, b)]
            arguments = np.array([rows, columns, place.ctypes.data, row * size, 0, 0, *given[0], *given[1]], np.int64)
            kernel(arguments.ctypes.data)
            expected = np.frombuffer(b"\xaa" * place.size, dtype).reshape(rows, row).copy()
            expected[:, :columns] = a[:, :columns] + (b[:, :1] if spread else b[:, :columns])
            assert place.tobytes() == expected.tobytes()
            assert (room[: start + offset] == 0xAA).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float16])
def test_large_tensors_bypass_the_caches(cpu_device, dtype):
    """Their sum, with the output far from the inputs, between them, or in place of one."""
    count = (13 << 20) // np.dtype(dtype).itemsize + 5
    room: Array = np.random.default_rng(4).integers(0, 50, 3 * count, np.uint8).astype(dtype)
    arrays = {"ATensor": room[:count], "BTensor": room[count : 2 * count]}
    expected = arrays["ATensor"] + arrays["BTensor"]
    for target in (np.empty(count, dtype), room[2 * count :], room[:count]):
        np.testing.assert_array_equal(answer(cpu_device, plan_of("ELEMENT_WISE_ADD", arrays), arrays, target), expected)


def test_a_lookup_kernel_waits_for_the_table_of_each_formula(cpu_device):
    """One formula's table exists already; the other formula, without a table yet, has fewer elements."""
    many = {"InputTensor": np.zeros(100_000, np.float16)}
    answer(cpu_device, plan_of("ELEMENT_WISE_EXP", many), many)
    x = np.linspace(-3, 3, 20_000, dtype=np.float16)
    found = answer(cpu_device, plan_of("ACTIVATION_ELU", {"InputTensor": x}, Alpha=0.40625), {"InputTensor": x})
    right = np.where(x < 0, 0.40625 * np.expm1(x.astype(float)), x)
    np.testing.assert_allclose(found.astype(float), right, rtol=2**-10)


def test_planes_are_walked_in_long_rows():
    short = planes_of((15_000, 3), {"a": ((24, 4), 4), "": ((12, 4), 4)})
    assert (short.columns, short.rows) == (15_000, 3)
    assert all(tensor.is_staged for tensor in short.tensors)
    broadcast = planes_of((300, SHORT), {"a": ((0, 4), 4), "": ((4 * SHORT, 4), 4)})
    assert (broadcast.rows, broadcast.columns) == (300, SHORT)
    assert not any(tensor.is_staged for tensor in broadcast.tensors)
