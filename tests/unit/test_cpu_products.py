"""Products on the CPU device at sizes that span tiles and threads, and where bounds on errors decide nothing."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.cpu.products.exact_sums import ExactSums
from tests import oracle
from tests.execution import go_on
from tests.products import (
    FORWARD,
    SHAPES,
    answer,
    assert_rounded,
    cancelling,
    conv_fields,
    convolve,
    gemm,
    normal,
    plan_of,
)

TOP, LEAST = float(np.finfo(np.float32).max), 2.0**-149


@pytest.fixture(scope="module", params=[1, 3], ids=lambda threads: f"{threads}-threads")
def cpu(request):
    device = CpuDevice(threads=request.param)
    yield device
    device.close()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_tiles_are_rounded_correctly(cpu, dtype):
    a, b, c = (
        normal(530, 700, dtype=dtype),
        normal(700, 610, dtype=dtype, seed=1),
        normal(530, 610, dtype=dtype, seed=2),
    )
    assert_rounded(gemm(cpu, a, b), a, b)
    fields = {"Alpha": 0.3, "Beta": -1.7}
    alpha, beta = (float(np.float32(value)) for value in fields.values())
    assert_rounded(gemm(cpu, a, b, c, **fields), a, b, alpha, beta, c)
    transposed = gemm(cpu, np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), TransA="TRANSPOSE", TransB="TRANSPOSE")
    np.testing.assert_array_equal(transposed, gemm(cpu, a, b))


def test_operands_too_large_to_be_converted_at_once(cpu):
    a, b = normal(300, 20000), normal(20000, 130, seed=1)
    assert_rounded(gemm(cpu, a, b), a, b)


def test_a_batch_is_its_matrices(cpu):
    a, b = normal(3, 40, 9, 17), normal(3, 40, 17, 5, seed=1)
    together = gemm(cpu, a, b)
    for first, second in itertools.product(range(3), range(0, 40, 7)):
        np.testing.assert_array_equal(together[first, second], gemm(cpu, a[first, second], b[first, second]))
    swapped = gemm(cpu, a.swapaxes(0, 1), b.swapaxes(0, 1))
    np.testing.assert_array_equal(swapped, together.swapaxes(0, 1))


def test_cancellation_is_summed_exactly(cpu):
    a, b = cancelling(0, 70, 90)
    assert_rounded(gemm(cpu, a, b), a, b)
    assert_rounded(gemm(cpu, a, b, np.ones((70, 70), np.float32), Alpha=0.7, Beta=3e-20), a, b,
                   float(np.float32(0.7)), float(np.float32(3e-20)), np.ones((70, 70), np.float32))  # fmt: skip


def test_halves_go_to_the_even_number(cpu):
    """2**24 + odd numbers lie in the middle of two FLOAT32, and least numbers decide."""
    a = np.array([[2**24, 1, 0], [2**24, 3, 0], [2**24, 1, LEAST], [2**24, 3, -LEAST]], np.float32)
    b = np.ones((3, 2), np.float32)
    right = np.array([2**24, 2**24 + 4, 2**24 + 2, 2**24 + 2], np.float32)
    np.testing.assert_array_equal(gemm(cpu, a, b), np.stack([right, right], 1))


def test_infinities_and_nan_stay_in_their_rows_and_columns(cpu):
    a, b = normal(300, 200), normal(200, 280, seed=1)
    clean = gemm(cpu, a, b)
    a[5, 7], a[9, 3], b[11, 20] = np.inf, np.nan, -np.inf
    b[7, 40] = 0
    found = gemm(cpu, a, b)
    others = np.ones(found.shape, bool)
    others[[5, 9]] = others[:, [20, 40]] = False
    np.testing.assert_array_equal(found[others], clean[others])
    assert np.isnan(found[9]).all()
    assert np.isnan(found[5, 40])
    assert found[5, 0] == np.sign(b[7, 0]) * np.inf
    assert found[0, 20] == -np.sign(a[0, 11]) * np.inf


def test_an_infinite_alpha_takes_the_sign_of_the_exact_sum(cpu):
    a, b = np.array([[1, 1e20, -1e20, 0], [1, 1e20, -1e20, -1]], np.float32), np.ones((4, 1), np.float32)
    found = gemm(cpu, a, b, Alpha="inf")
    assert found[0, 0] == np.inf
    assert np.isnan(found[1, 0])


def test_softmax_spans_tiles(cpu):
    a, b = normal(700, 40), normal(40, 900, seed=1)
    found = gemm(cpu, a, b, FusedActivation={"Type": "ACTIVATION_SOFTMAX1", "Axes": [0]})
    scores = a.astype(np.float64) @ b.astype(np.float64)
    powers = np.exp(scores - scores.max(0))
    np.testing.assert_allclose(found, powers / powers.sum(0), rtol=2**-23)


def test_exact_sums_are_those_of_fractions():
    chosen = np.random.default_rng(3)
    terms = chosen.standard_normal((200, 60)) * 2.0 ** chosen.integers(-300, 300, (200, 60))
    terms[:, 30:] = -terms[:, :30]
    terms[::2, 0] += 2.0**-310
    sums = ExactSums(200)
    for part in np.split(terms.copy(), 6, axis=1):
        sums.add(part)
    exact = [sum(map(Fraction, row), Fraction(0)) for row in terms.tolist()]
    np.testing.assert_array_equal(sums.nearest(), np.array(list(map(float, exact))))
    with np.errstate(over="ignore"):
        found = sums.odd().astype(np.float32)
    np.testing.assert_array_equal(found, np.array([oracle.rounded(e, np.dtype(np.float32)) for e in exact]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolutions_span_tiles(cpu, shape):
    images, channels, size, filters, window, stride, dilation, pad, groups = shape
    chosen = np.random.default_rng(0)
    source = chosen.integers(-9, 10, (images, channels, size, size))
    kernel = chosen.integers(-9, 10, (filters, channels // groups, window, window))
    right = convolve(source, kernel, stride, dilation, pad, groups)
    fields = conv_fields(2, stride, dilation, pad, groups)
    inputs = {"InputTensor": source.astype(np.float32), "FilterTensor": kernel.astype(np.float32)}
    np.testing.assert_array_equal(answer(cpu, "CONVOLUTION", inputs, **FORWARD, **fields), right)
    inputs = {"InputTensor": source.astype(np.int8), "FilterTensor": kernel.astype(np.int8)}
    np.testing.assert_array_equal(answer(cpu, "CONVOLUTION_INTEGER", inputs, **fields), right)


def test_a_convolution_is_rounded_as_the_product_that_it_is(cpu):
    source, kernel = normal(1, 300, 20, 30), normal(200, 300, 1, 1, seed=1)
    found = answer(
        cpu, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **FORWARD, **conv_fields(2, 1, 1, 0, 1)
    )
    product = gemm(cpu, kernel.reshape(200, 300), source.reshape(300, 600))
    np.testing.assert_array_equal(found.reshape(200, 600), product)


@pytest.mark.parametrize("filters", [3, 40])
def test_convolutions_that_cancel_are_summed_exactly(cpu, filters):
    a, b = cancelling(0, 70, 90)
    b = b[:, :filters]
    inputs = {"InputTensor": a[:, :, None, None], "FilterTensor": np.ascontiguousarray(b.T)[:, :, None, None]}
    found = answer(cpu, "CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 0, 1))
    assert_rounded(found[:, :, 0, 0], a, b)


@pytest.mark.parametrize("filters", [1, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_an_infinite_weight_adds_nothing_in_the_padding(cpu, filters, dtype):
    source, kernel = np.ones((1, 1, 1, 40), dtype), np.ones((filters, 1, 1, 3), dtype)
    kernel[-1, 0, 0, 0] = np.inf
    fields = conv_fields(2, 1, 1, 1, 1) | {"StartPadding": [0, 1], "EndPadding": [0, 1]}
    found = answer(cpu, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **FORWARD, **fields)[0, :, 0]
    right = np.full((filters, 40), 3, dtype)
    right[:, [0, -1]] = 2
    right[-1, 1:] = np.inf
    np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize("groups", [1, 8])
@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
def test_a_mirrored_filter_is_the_filter_turned_round(cpu, direction, groups):
    source, kernel = normal(2, 8, 11, 12), normal(8, 8 // groups, 3, 4, seed=1)
    fields: dict[str, Any] = {**FORWARD, "Direction": direction, **conv_fields(2, 2, 1, 1, groups)}
    turned = np.ascontiguousarray(kernel[:, :, ::-1, ::-1])
    found = answer(cpu, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **fields)
    mirrored = answer(
        cpu, "CONVOLUTION", {"InputTensor": source, "FilterTensor": turned}, **(fields | {"Mode": "CONVOLUTION"})
    )
    np.testing.assert_array_equal(found, mirrored)


@pytest.mark.parametrize("groups", [2, 12])
def test_a_transposed_convolution_is_the_adjoint(cpu, groups):
    """The products <x, F y> and <F' x, y> agree, exactly for integers."""
    chosen = np.random.default_rng(0)
    kernel = chosen.integers(-5, 6, (24, 20 // groups if groups == 2 else 1, 4, 3)).astype(np.float32)
    source = chosen.integers(-5, 6, (2, 24, 33, 40)).astype(np.float32)
    fields: dict[str, Any] = {**FORWARD, "Direction": "BACKWARD", **conv_fields(2, 3, 2, 1, groups)}
    found = answer(cpu, "CONVOLUTION", {"InputTensor": source, "FilterTensor": kernel}, **fields)
    other = chosen.integers(-5, 6, found.shape).astype(np.float32)
    forward = answer(
        cpu, "CONVOLUTION", {"InputTensor": other, "FilterTensor": kernel}, **(fields | {"Direction": "FORWARD"})
    )
    assert (found.astype(np.int64) * other.astype(np.int64)).sum() == (
        forward.astype(np.int64) * source.astype(np.int64)
    ).sum()


def test_integer_products_span_tiles(cpu):
    chosen = np.random.default_rng(0)
    a, b = chosen.integers(0, 256, (530, 700), np.uint8), chosen.integers(-128, 128, (700, 600), np.int8)
    zero_a, zero_b = chosen.integers(0, 256, (530, 1), np.uint8), chosen.integers(-128, 128, (1, 600), np.int8)
    inputs = {"ATensor": a, "AZeroPointTensor": zero_a, "BTensor": b, "BZeroPointTensor": zero_b}
    right = (a.astype(np.int64) - zero_a) @ (b.astype(np.int64) - zero_b)
    np.testing.assert_array_equal(answer(cpu, "MATRIX_MULTIPLY_INTEGER", inputs), right)


def test_wide_integers_are_summed_exactly(cpu):
    chosen = np.random.default_rng(0)
    a, b = (chosen.integers(-(2**31), 2**31, shape, np.int32) for shape in ((30, 1200), (1200, 20)))
    b[600:], a[:, 600:] = b[:600], -a[:, :600]
    a[:, 0] += 1
    scale = np.array([[2.0**-20]], np.float32)
    inputs = {"ATensor": a, "AScaleTensor": scale, "BTensor": b, "BScaleTensor": scale}
    exact = a.astype(object) @ b.astype(object)
    right = np.vectorize(lambda n: oracle.rounded(Fraction(n) / 2**40, np.dtype(np.float32)))(exact)
    np.testing.assert_array_equal(answer(cpu, "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", inputs), right)


def test_quotients_in_the_middle_go_to_the_even_integer(cpu):
    chosen = np.random.default_rng(0)
    a, b = chosen.integers(-4, 5, (300, 60)).astype(np.int8), chosen.integers(-4, 5, (60, 300)).astype(np.int8)
    scales = [np.array([value], np.float32) for value in (0.3, 0.7, 0.42)]
    names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
    halves = [np.array([value], np.float32) for value in (0.5, 3, 3)]
    for given in (scales, halves):
        inputs: dict[str, Array] = {"ATensor": a, "BTensor": b, **dict(zip(names, given, strict=True))}
        x, y, z = (Fraction(float(scale[0])) for scale in given)
        sums = a.astype(int) @ b.astype(int)
        table = {n: max(-128, min(127, round(n * x * y / z))) for n in set(sums.reshape(-1).tolist())}
        right = np.vectorize(table.__getitem__)(sums)
        np.testing.assert_array_equal(answer(cpu, "QUANTIZED_LINEAR_MATRIX_MULTIPLY", inputs), right)


def attention(device: CpuDevice, q: Array, k: Array, v: Array, heads: int, **fields: Any) -> Array:
    inputs = {"QueryTensor": q, "KeyTensor": k, "ValueTensor": v}
    given = {"Scale": 1, "MaskFilterValue": -10000, "HeadCount": heads, "MaskType": "NONE"}
    return answer(device, "MULTIHEAD_ATTENTION", inputs, **(given | fields))


def test_attention_spans_tiles(cpu):
    q, k, v = normal(2, 300, 3 * 16), normal(2, 2500, 3 * 16, seed=1), normal(2, 2500, 3 * 8, seed=2)
    found = attention(cpu, q, k, v, 3, Scale=0.25)
    for head in range(3):
        part = slice(head * 16, head * 16 + 16)
        scores = q[..., part].astype(np.float64) @ k[..., part].astype(np.float64).swapaxes(1, 2) / 4
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        right = powers @ v[..., head * 8 : head * 8 + 8].astype(np.float64) / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(found[..., head * 8 : head * 8 + 8], right, rtol=2**-22, atol=1e-9)


def test_large_logits_of_long_sequences_do_no_harm(cpu):
    q, k = np.full((1, 2, 4), 3e4, np.float32), np.full((1, 5000, 4), 3e4, np.float32)
    v = np.arange(5000, dtype=np.float32).reshape(1, 5000, 1)
    np.testing.assert_array_equal(attention(cpu, q, k, v, 1), np.full((1, 2, 1), 2499.5, np.float32))


def test_long_sequences_of_lstm(cpu):
    """A state that is added up over many steps: the forget gate is 1 and the input gate a half."""
    steps, hidden = 3000, 20
    weights = np.zeros((1, 1, 4 * hidden, 1), np.float32)
    bias = np.zeros((1, 1, 1, 8 * hidden), np.float32)
    bias[..., 3 * hidden : 4 * hidden] = np.arange(hidden) / 1024
    inputs = {
        "InputTensor": np.ones((1, steps, 40, 1), np.float32),
        "WeightTensor": weights,
        "RecurrenceTensor": np.zeros((1, 1, 4 * hidden, hidden), np.float32),
        "BiasTensor": bias,
    }
    activations = [{"Type": "ACTIVATION_LINEAR", "Alpha": 0, "Beta": 1}, *[{"Type": "ACTIVATION_IDENTITY"}] * 2]
    plan = plan_of(
        "LSTM", inputs, ActivationDescs=activations, Direction="FORWARD", ClipThreshold=0, UseClipThreshold=False,
        CoupleInputForget=False, OutputSingleTensor={"DataType": "FLOAT32", "Sizes": [1, 1, 40, hidden]},
    )  # fmt: skip
    outputs = {name: desc.allocate()[1] for name, desc in plan.outputs.items()}
    cpu.run(plan, inputs, outputs, go_on)
    right = np.broadcast_to(steps * np.arange(hidden) / 1024, (40, hidden))
    np.testing.assert_array_equal(outputs["OutputSingleTensor"][0, 0], right)


def zeros(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes), "Strides": [0] * len(sizes)}


GEMM = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
ATTENTION = {"Scale": 1, "MaskFilterValue": 0, "MaskType": "NONE", "HeadCount": 1}
NETWORK = {"ActivationDescs": [{"Type": "ACTIVATION_TANH"}], "Direction": "FORWARD"}

LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "square": ("GEMM", {"ATensor": zeros(8192, 8192), "BTensor": zeros(8192, 8192), **GEMM}),
    "deep": ("GEMM", {"ATensor": zeros(2, 2**26), "BTensor": zeros(2**26, 3), **GEMM}),
    "many": ("GEMM", {"ATensor": zeros(2**16, 2, 3, 3), "BTensor": zeros(2**16, 2, 3, 3), **GEMM}),
    "bytes": ("MATRIX_MULTIPLY_INTEGER",
              {"ATensor": zeros(4096, 4096, data_type="INT8"), "BTensor": zeros(4096, 4096, data_type="INT8")}),
    "images": ("CONVOLUTION", {"InputTensor": zeros(64, 256, 56, 56), "FilterTensor": zeros(256, 256, 3, 3),
                               **FORWARD, **conv_fields(2, 1, 1, 1, 1)}),
    "long_filter": ("CONVOLUTION", {"InputTensor": zeros(1, 1, 1, 2**22), "FilterTensor": zeros(1, 1, 1, 2**20),
                                    **FORWARD, **conv_fields(2, 1, 1, 0, 1)}),
    "leaps": ("CONVOLUTION", {"InputTensor": zeros(1, 1, 2**12, 2**12), "FilterTensor": zeros(1, 1, 2, 2), **FORWARD,
                              "Direction": "BACKWARD", **conv_fields(2, 4, 1, 0, 1)}),
    "attention": ("MULTIHEAD_ATTENTION", {"QueryTensor": zeros(1, 2**14, 64), "KeyTensor": zeros(1, 2**14, 64),
                                          "ValueTensor": zeros(1, 2**14, 64), **ATTENTION}),
    "wide_heads": ("MULTIHEAD_ATTENTION", {"QueryTensor": zeros(1, 1, 2**22), "KeyTensor": zeros(1, 64, 2**22),
                                           "ValueTensor": zeros(1, 64, 4), **ATTENTION}),
    "network": ("RNN", {"InputTensor": zeros(1, 500, 64, 2048), "WeightTensor": zeros(1, 1, 2048, 2048),
                        "RecurrenceTensor": zeros(1, 1, 2048, 2048),
                        "OutputSingleTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 64, 2048]}, **NETWORK}),
}  # fmt: skip


class Watch:
    """Tells work to stop after a moment, and measures the processor time between two questions."""

    def __init__(self) -> None:
        self._end = time.monotonic() + 0.2
        self._last = time.process_time()
        self.most = 0.0

    def __call__(self) -> bool:
        now = time.process_time()
        self.most, self._last = max(self.most, now - self._last), now
        return time.monotonic() > self._end


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", LARGE)
def test_large_work_stops_and_stays_within_its_memory(name):
    kind, desc = LARGE[name]
    plan = check({"type": kind, "desc": desc})
    device, watch = CpuDevice(threads=2), Watch()
    one = np.ones(1, np.float32)
    inputs = {key: tensor.view(one) for key, tensor in plan.inputs.items()}
    outputs = {key: tensor.allocate()[1] for key, tensor in plan.outputs.items()}
    tracemalloc.start()
    try:
        with suppress(Stopped):
            device.run(plan, inputs, outputs, watch)
        watch()
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        device.close()
    assert watch.most < 0.5
    assert taken <= device.scratch_bytes(plan) + 2**20
