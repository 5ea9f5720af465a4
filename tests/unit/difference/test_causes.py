"""Known causes of wrong tensors, and classes of reduced precision, as one operator each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import opwire
from opwire.difference import Verdict
from opwire.difference.bounds import limits
from opwire.difference.chain import single
from opwire.difference.error_table import rule_of
from opwire.difference.evidence import Evidence
from opwire.difference.shapes import sizes_cause
from opwire.difference.ulps import ulp
from opwire.difference.verdicts import verdict_of
from opwire.tensor import Array, DataType

RNG = np.random.default_rng(7)
X = RNG.standard_normal((1, 3, 9, 10)).astype("f4")


@pytest.fixture(scope="module")
def runner() -> Iterator[opwire.LocalClient]:
    with opwire.local() as client:
        yield client


def tensor(array: Array) -> dict[str, Any]:
    return {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape)}


def judged(
    runner: opwire.LocalClient,
    kind: str,
    inputs: Mapping[str, Array],
    change: Callable[[Array], Array] | Array,
    output: str = "OutputTensor",
    **attributes: Any,
) -> tuple[Verdict, str]:
    """Judges what an operator gives after a change, or another tensor."""
    desc = {**{name: tensor(array) for name, array in inputs.items()}, **attributes}
    chain = single({"type": f"DML_OPERATOR_{kind}", "desc": desc}, inputs, runner)
    chain.run()
    key = chain.results[output]
    exact = chain.buffers[key]
    sizes = chain.operations[-1].sizes(output)
    actual = change(exact.reshape(sizes).copy()) if callable(change) else change
    actual = np.ascontiguousarray(actual).reshape(-1)
    assert ulp(actual, exact).max() > (exact.dtype.kind == "f")
    return verdict_of(Evidence(actual, exact, sizes, limits(chain, rule_of)[key], chain, key, lambda: iter(())))


def execute(runner: opwire.LocalClient, kind: str, inputs: Mapping[str, Array], output: str, **given: Any) -> Array:
    desc = {**{name: tensor(array) for name, array in inputs.items()}, **given}
    return np.asarray(runner.execute({"type": f"DML_OPERATOR_{kind}", "desc": desc}, dict(inputs)).outputs[output])


WINDOW: dict[str, Any] = {"WindowSize": [3, 3], "Strides": [1, 1], "StartPadding": [1, 1], "EndPadding": [1, 1]}


def test_padding_counted(runner: opwire.LocalClient) -> None:
    wrong = execute(runner, "AVERAGE_POOLING", {"InputTensor": X}, "OutputTensor", IncludePadding=True, **WINDOW)
    found = judged(runner, "AVERAGE_POOLING", {"InputTensor": X}, wrong, IncludePadding=False, **WINDOW)
    assert found == (Verdict.WRONG, "padding counted")


def test_another_axis(runner: opwire.LocalClient) -> None:
    wrong = np.exp(X) / np.exp(X).sum(axis=2, keepdims=True)
    assert judged(runner, "ACTIVATION_SOFTMAX1", {"InputTensor": X}, wrong, Axes=[3]) == (
        Verdict.WRONG,
        "axes [2] instead of [3]",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda y: y[:, :, ::-1], "reversed along axis 2"),
        (lambda y: np.roll(y, 1, 3), "shifted by 1 along axis 3"),
        (lambda y: y * np.float32(1.5), "1.5 times the exact result"),
        (lambda y: y + np.float32(0.25), "the exact result plus 0.25"),
        (lambda y: y * np.array([1, 1.1, 1], "f4").reshape(1, 3, 1, 1), "channel 1 of axis 1"),
        (lambda y: np.where(np.arange(y.size).reshape(y.shape) == 57, 9, y).astype("f4"), "1 element, at [0, 0, 5, 7]"),
    ],
)
def test_relations_to_the_exact_result(runner: opwire.LocalClient, change: Callable[[Array], Array], said: str) -> None:
    assert judged(runner, "ELEMENT_WISE_TANH", {"InputTensor": X}, change) == (Verdict.WRONG, said)


def test_a_transposition(runner: opwire.LocalClient) -> None:
    x = RNG.standard_normal((1, 1, 6, 6)).astype("f4")
    found = judged(runner, "ELEMENT_WISE_IDENTITY", {"InputTensor": x}, lambda y: y.transpose(0, 1, 3, 2))
    assert found == (Verdict.WRONG, "axes in the order [0, 1, 3, 2]")


def test_epsilon_outside_the_root(runner: opwire.LocalClient) -> None:
    parameters = {
        name: RNG.uniform(0.01, 1, (1, 3, 1, 1)).astype("f4")
        for name in ("MeanTensor", "VarianceTensor", "ScaleTensor", "BiasTensor")
    }
    mean, variance, scale, bias = parameters.values()
    wrong = (X - mean) / (np.sqrt(variance) + np.float32(1e-3)) * scale + bias
    inputs = {"InputTensor": X, **parameters}
    found = judged(runner, "BATCH_NORMALIZATION", inputs, wrong, Spatial=True, Epsilon=1e-3)
    assert found == (Verdict.WRONG, "epsilon outside the root")
    without = (X - mean) / np.sqrt(variance) * scale + bias
    found = judged(runner, "BATCH_NORMALIZATION", inputs, without, Spatial=True, Epsilon=1e-3)
    assert found == (Verdict.WRONG, "epsilon left out")


@pytest.mark.parametrize("squared", ["outside", "unbiased"])
def test_deviations_of_normalizations(runner: opwire.LocalClient, squared: str) -> None:
    x = X.astype(np.float64)
    variance, n = x.var(axis=(2, 3), keepdims=True), 90
    deviation = np.sqrt(variance) + 1e-2 if squared == "outside" else np.sqrt(variance * n / (n - 1) + 1e-2)
    wrong = ((x - x.mean(axis=(2, 3), keepdims=True)) / deviation).astype("f4")
    given: dict[str, Any] = {"Axes": [2, 3], "NormalizeVariance": True, "Epsilon": 1e-2}
    verdict, said = judged(runner, "MEAN_VARIANCE_NORMALIZATION1", {"InputTensor": X}, wrong, **given)
    assert verdict is Verdict.WRONG
    expected = {"outside": "epsilon outside the root", "unbiased": "the variance divided by one less than the count"}
    assert said == expected[squared]


def test_gates_in_another_order(runner: opwire.LocalClient) -> None:
    weights = {
        "WeightTensor": RNG.standard_normal((1, 1, 12, 5)).astype("f4"),
        "RecurrenceTensor": RNG.standard_normal((1, 1, 12, 4)).astype("f4"),
        "BiasTensor": RNG.standard_normal((1, 1, 1, 24)).astype("f4"),
    }
    x = RNG.standard_normal((1, 3, 2, 5)).astype("f4")
    sizes = {"DataType": "FLOAT32", "Sizes": [3, 1, 2, 4]}
    activations = [{"type": "DML_OPERATOR_ACTIVATION_SIGMOID"}, {"type": "DML_OPERATOR_ACTIVATION_TANH"}]
    given = {"Direction": "FORWARD", "LinearBeforeReset": True, "OutputSequenceTensor": sizes}
    given |= {"ActivationDescs": activations}

    def swapped(array: Array) -> Array:
        parts = array.reshape(-1, 3, 4, *array.shape[3:]) if array.shape[2] == 12 else array.reshape(2, 3, 4)
        return np.ascontiguousarray(parts[:, [1, 0, 2]]).reshape(array.shape)

    wrong = execute(
        runner,
        "GRU",
        {"InputTensor": x, **{k: swapped(v) for k, v in weights.items()}},
        "OutputSequenceTensor",
        **given,
    )
    found = judged(runner, "GRU", {"InputTensor": x, **weights}, wrong, "OutputSequenceTensor", **given)
    assert found == (Verdict.WRONG, "gates in the order rzh instead of zrh")


def test_the_last_on_ties(runner: opwire.LocalClient) -> None:
    x = np.round(X)
    last = (x.shape[3] - 1 - np.argmax(x[..., ::-1], axis=3))[..., None].astype("u4")
    sizes = {"DataType": "UINT32", "Sizes": [1, 3, 9, 1]}
    given: dict[str, Any] = {"Axes": [3], "AxisDirection": "INCREASING", "OutputTensor": sizes}
    assert judged(runner, "ARGMAX", {"InputTensor": x}, last, **given) == (
        Verdict.WRONG,
        "the last instead of the first on ties",
    )


@pytest.mark.parametrize(
    ("rounding", "said"),
    [
        (lambda q: np.copysign(np.floor(np.abs(q) + 0.5), q), "halves rounded away from zero"),
        (np.trunc, "rounded toward zero"),
        (np.floor, "rounded down"),
    ],
)
def test_roundings_of_quotients(runner: opwire.LocalClient, rounding: Callable[[Array], Array], said: str) -> None:
    x = (np.round(X * 16) / 2).astype("f4")
    scale, zero = np.ones((1, 1, 1, 1), "f4"), np.full((1, 1, 1, 1), 3, "i1")
    scale, zero = np.broadcast_to(scale, x.shape).copy(), np.broadcast_to(zero, x.shape).copy()
    wrong = (rounding(x) + 3).astype("i1")
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero}
    output = {"DataType": "INT8", "Sizes": list(x.shape)}
    found = judged(runner, "ELEMENT_WISE_QUANTIZE_LINEAR", inputs, wrong, OutputTensor=output)
    assert found == (Verdict.WRONG, said)


def test_integers_that_wrap(runner: opwire.LocalClient) -> None:
    x = (X * 100).astype("f4")
    scale, zero = np.ones(x.shape, "f4"), np.zeros(x.shape, "i1")
    wrong = np.rint(x).astype(np.int64).astype("i1")
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero}
    output = {"DataType": "INT8", "Sizes": list(x.shape)}
    found = judged(runner, "ELEMENT_WISE_QUANTIZE_LINEAR", inputs, wrong, OutputTensor=output)
    assert found == (Verdict.WRONG, "saturation missing: integers wrap")


def product(inner: int) -> dict[str, Array]:
    return {
        "ATensor": RNG.standard_normal((1, 1, 16, inner)).astype("f4"),
        "BTensor": RNG.standard_normal((1, 1, inner, 16)).astype("f4"),
    }


def bits(array: Array, kept: int) -> Array:
    """Truncates the fraction of FLOAT32."""
    mask = np.uint32(0xFFFFFFFF << (23 - kept) & 0xFFFFFFFF)
    return (array.view(np.uint32) & mask).view(np.float32)


@pytest.mark.parametrize(
    ("low", "said"),
    [
        (lambda x: x.astype("f2").astype("f4"), "operands rounded to FLOAT16 or TF32"),
        (lambda x: bits(x, 10), "operands rounded to FLOAT16 or TF32 toward zero"),
        (lambda x: bits(x, 7), "operands rounded to BFLOAT16 toward zero"),
    ],
)
def test_operands_of_less_precision(runner: opwire.LocalClient, low: Callable[[Array], Array], said: str) -> None:
    inputs = product(300)
    wrong = np.matmul(*(low(each) for each in inputs.values()))
    assert judged(runner, "GEMM", inputs, wrong) == (Verdict.REDUCED, said)


def test_results_of_less_precision(runner: opwire.LocalClient) -> None:
    found = judged(runner, "GEMM", product(64), lambda y: y.astype("f2").astype("f4"))
    assert found == (Verdict.REDUCED, "the result rounded to FLOAT16 or TF32")


def test_sums_in_half_precision(runner: opwire.LocalClient) -> None:
    inputs = product(64)
    a, b = (each.astype("f2") for each in inputs.values())
    sums = np.zeros((1, 1, 16, 16), "f2")
    for i in range(64):
        sums += a[..., i : i + 1] * b[..., i : i + 1, :]
    assert judged(runner, "GEMM", inputs, sums.astype("f4")) == (Verdict.REDUCED, "sums in FLOAT16")


def test_flushed_denormals(runner: opwire.LocalClient) -> None:
    x = X.copy()
    x[0, 0] *= np.float32(1e-39)
    flushed = np.where(np.abs(x) < np.finfo(np.float32).smallest_normal, 0, x).astype("f4")
    inputs = {"ATensor": x, "BTensor": np.ones_like(x)}
    verdict, said = judged(runner, "ELEMENT_WISE_MULTIPLY", inputs, flushed)
    assert (verdict, said) == (Verdict.REDUCED, "denormals flushed to zero in the result")


@pytest.mark.parametrize(
    ("kind", "function", "said"),
    [
        (
            "ACTIVATION_GELU",
            lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "GELU by tanh",
        ),
        ("ACTIVATION_GELU", lambda x: x / (1 + np.exp(-1.702 * x)), "x * sigmoid(1.702 x) for GELU"),
        ("ACTIVATION_SIGMOID", lambda x: np.clip(x / 6 + 0.5, 0, 1), "clip(x / 6 + 0.5) for the sigmoid"),
    ],
)
def test_approximate_functions(
    runner: opwire.LocalClient, kind: str, function: Callable[[Array], Array], said: str
) -> None:
    wrong = function(X.astype(np.float64)).astype("f4")
    assert judged(runner, kind, {"InputTensor": X}, wrong) == (Verdict.REDUCED, said)


def test_nan_of_the_inputs_is_named_and_not_wrong(runner: opwire.LocalClient) -> None:
    """ONNX keeps NaN, and RELU of DirectML makes 0 of it."""
    x = X.copy()
    x[0, 1, 2, 3] = np.nan
    verdict, said = judged(runner, "ACTIVATION_RELU", {"InputTensor": x}, np.maximum(x, 0))
    assert verdict is Verdict.EXPLAINED
    assert said.startswith("NaN is kept as by ONNX")


def test_a_bias_left_out(runner: opwire.LocalClient) -> None:
    inputs = {
        "InputTensor": X,
        "FilterTensor": RNG.standard_normal((4, 3, 3, 3)).astype("f4"),
        "BiasTensor": RNG.standard_normal((1, 4, 1, 1)).astype("f4"),
    }
    wrong = execute(runner, "CONVOLUTION", {**inputs, "BiasTensor": np.zeros((1, 4, 1, 1), "f4")}, "OutputTensor")
    assert judged(runner, "CONVOLUTION", inputs, wrong) == (Verdict.WRONG, "bias left out")


@pytest.mark.parametrize(
    ("actual", "exact", "stride", "said"),
    [
        ([1, 3, 5, 5], [1, 3, 4, 4], 2, "sizes rounded up instead of down (ceil for floor)"),
        ([1, 3, 4, 4], [1, 3, 5, 5], 2, "sizes rounded down instead of up (floor for ceil)"),
        ([1, 3, 5, 5], [1, 3, 4, 4], 1, ""),
        ([1, 5, 4], [1, 4, 5], 1, "the axes are in another order"),
        ([1, 5], [1, 4, 5], 1, ""),
        ([1, 5, 4], [1, 5, 4], 2, ""),
    ],
)
def test_sizes_that_differ(actual: list[int], exact: list[int], stride: int, said: str) -> None:
    graph = {"nodes": {"pool": {"type": "MAX_POOLING", "desc": {"WindowSize": [2, 2], "Strides": [stride, stride]}}}}
    assert sizes_cause(actual, exact, graph) == said
