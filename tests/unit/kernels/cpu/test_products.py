"""Products on the CPU device only: exact sums, attention, recurrent networks, and bounds on large work."""

from __future__ import annotations

import time
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from opwire.check import check
from opwire.tensor import Array
from opwire_service.devices.cpu import CpuDevice
from opwire_service.execution import Stopped
from opwire_service.kernels.convolutions import ConvolutionGeometry
from opwire_service.kernels.cpu.numbers.vectors import WIDTH
from opwire_service.kernels.cpu.products import blas
from opwire_service.kernels.cpu.products.convolution import ConvolutionJob
from opwire_service.kernels.cpu.products.exact_sums import ExactSums
from opwire_service.kernels.cpu.products.gemm import GemmJob
from opwire_service.kernels.cpu.products.multiplying import DEPTH, MULTIPLY, MULTIPLY_SINGLES, MatrixProduct
from opwire_service.kernels.cpu.products.phases import PhaseTiling
from opwire_service.kernels.cpu.run.scratch import Scratch
from tests.oracles import oracle
from tests.support.execution import never_stop
from tests.support.products import (
    FORWARD,
    answer,
    conv_fields,
    normal,
    plan_of,
)

SIMPLE = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 0}


@pytest.fixture(scope="module", params=[1, 3], ids=lambda threads: f"{threads}-threads")
def cpu(request):
    device = CpuDevice(threads=request.param)
    yield device
    device.close()


def test_exact_sums_match_fractions():
    chosen = np.random.default_rng(3)
    terms = chosen.standard_normal((200, 60)) * 2.0 ** chosen.integers(-300, 300, (200, 60))
    terms[:, 30:] = -terms[:, :30]
    terms[::2, 0] += 2.0**-310
    sums = ExactSums(200)
    for part in np.split(terms.copy(), 6, axis=1):
        sums.add(part)
    exact = [sum(map(Fraction, row), Fraction(0)) for row in terms.tolist()]
    with np.errstate(over="ignore"):
        found = sums.odd().astype(np.float32)
    np.testing.assert_array_equal(found, np.array([oracle.rounded(e, np.dtype(np.float32)) for e in exact]))


@pytest.fixture
def small_product(cpu):
    """Multiplies matrices of 12 x 12 elements with one job, which keeps what it prepares."""
    plan = plan_of("GEMM", {"ATensor": normal(1, 1, 12, 12), "BTensor": normal(1, 1, 12, 12)}, **SIMPLE)

    def run(a: Array, b: Array) -> Array:
        target = np.empty((1, 1, 12, 12), np.float32)
        cpu.run(plan, {"ATensor": a, "BTensor": b}, {"OutputTensor": target}, never_stop)
        return target

    return run


def test_short_products_on_several_threads_do_not_share_what_they_prepare(small_product):
    chosen = np.random.default_rng(5)
    given = [chosen.integers(-9, 9, (2, 1, 1, 12, 12)).astype(np.float32) for _ in range(200)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda pair: small_product(*pair), given))
    for (a, b), product in zip(given, found, strict=True):
        np.testing.assert_array_equal(product, a @ b)


def test_short_products_take_tensors_of_any_layout(small_product):
    chosen = np.random.default_rng(6)
    a, b = chosen.integers(-9, 9, (2, 1, 1, 12, 12)).astype(np.float32)
    for left in (a, np.asfortranarray(a), a[..., ::-1, :]):
        np.testing.assert_array_equal(small_product(left, b), left @ b)


def test_short_products_do_not_keep_their_tensors(small_product):
    a, b = normal(1, 1, 12, 12), normal(1, 1, 12, 12, seed=1)
    target = weakref.ref(small_product(a, b))
    kept = [weakref.ref(a), weakref.ref(b)]
    del a, b
    assert [each() for each in (target, *kept)] == [None, None, None]


@pytest.mark.parametrize("kernel", [MULTIPLY, MULTIPLY_SINGLES], ids=["doubles", "singles"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
def test_panels_of_few_rows(cpu, kernel, rows):
    """Ranges of panels begin and end anywhere, among them those of two matrices; other panels are left alone."""
    cpu.warm_up()
    panels, length, chosen = 7, 2 * DEPTH + 1, np.random.default_rng(8)
    left = chosen.integers(-9, 10, (2, rows, length)).astype(np.float64)
    dtype = np.float64 if kernel is MULTIPLY else np.float32
    right = chosen.integers(-9, 10, (2, panels, length, WIDTH)).astype(dtype)
    product = MatrixProduct(rows=rows, panels=panels, length=length, matrix=rows * length, row=length, step=1)
    wide = right.transpose(0, 2, 1, 3).reshape(2, length, panels * WIDTH)
    exact = (left @ wide.astype(np.float64)).reshape(2, rows, panels, WIDTH)
    call, addresses = cpu._library.find(kernel).call, [array.ctypes.data for array in (left, right)]
    for begin in range(2 * panels):
        for end in range(begin, 2 * panels + 1):
            sums = np.full((2, rows, panels, WIDTH), np.nan)
            call(0, addresses[0], sums.ctypes.data, addresses[1], product.buffer_info()[0], begin, end)
            by_panel, right_ones = (array.swapaxes(1, 2).reshape(-1, rows, WIDTH) for array in (sums, exact))
            np.testing.assert_array_equal(by_panel[begin:end], right_ones[begin:end])
            assert np.isnan(by_panel[:begin]).all()
            assert np.isnan(by_panel[end:]).all()


@pytest.mark.parametrize("taps", [1, 3], ids=["points", "with-padding"])
@pytest.mark.parametrize("unusual", [False, True], ids=["finite", "infinite"])
def test_convolutions_run_again_with_the_same_filters(cpu, taps, unusual):
    """Filters are read again unless they are fixed; everything else always is."""
    cpu.warm_up()
    chosen = np.random.default_rng(4)
    x, filters, bias = np.zeros((1, 20, 3, 3)), np.zeros((80, 20, taps, taps)), np.zeros((1, 80, 1, 1))
    inputs = {"InputTensor": x, "FilterTensor": filters, "BiasTensor": bias}
    inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
    fields = {**FORWARD, **conv_fields(2, 1, 1, taps // 2, 1)}
    plan = plan_of("CONVOLUTION", inputs, **fields)
    pool = cpu._pool.with_scratch(Scratch())
    outputs = [np.zeros((1, 80, 3, 3), np.float32) for _ in range(2)]
    bound = [
        ConvolutionJob(plan).bind_fixed(fixed, inputs, {"OutputTensor": own}, cpu._library.find, pool)
        for fixed, own in zip(((), ("FilterTensor",)), outputs, strict=True)
    ]
    first: Array | None = None
    for _ in range(3):
        for array in inputs.values():
            array[...] = chosen.standard_normal(array.shape)
        inputs["FilterTensor"][7, 5, 0, 0] = np.inf if unusual else 1
        first = inputs["FilterTensor"].copy() if first is None else first
        for run, own, given in zip(bound, outputs, (inputs["FilterTensor"], first), strict=True):
            run(never_stop)
            right = answer(cpu, "CONVOLUTION", {**inputs, "FilterTensor": given}, **fields)
            np.testing.assert_array_equal(own, right)


def whole_numbers(*sizes: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(-4000, 4000, sizes).astype(np.float32)


@pytest.mark.parametrize("fixed", [(), ("FilterTensor",)], ids=["changing", "fixed"])
def test_threads_share_convolutions_that_run_again(cpu, fixed):
    """There are several tiles for each thread; half of the sums cancel, so that bounds leave all of them undecided."""
    cpu.warm_up()
    channels, filters, size = 20, 128, 50
    inputs = {"InputTensor": whole_numbers(1, channels, size, size, seed=1)}
    inputs["FilterTensor"] = whole_numbers(filters, channels, 1, 1, seed=2)
    inputs["InputTensor"][:, 1::2] = inputs["InputTensor"][:, ::2]
    inputs["FilterTensor"][::2, 1::2] = -inputs["FilterTensor"][::2, ::2]
    found = np.full((1, filters, size, size), np.nan, np.float32)
    plan = plan_of("CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, 0, 1))
    pool = cpu._pool.with_scratch(Scratch())
    run = ConvolutionJob(plan).bind_fixed(fixed, inputs, {"OutputTensor": found}, cpu._library.find, pool)
    for factor in (1, 3, -2):
        inputs["InputTensor"] *= factor
        run(never_stop)
        columns = inputs["InputTensor"].reshape(channels, -1).astype(np.float64)
        exact = inputs["FilterTensor"].reshape(filters, -1).astype(np.float64) @ columns
        assert not exact[::2].any()
        np.testing.assert_array_equal(found.reshape(filters, -1), exact.astype(np.float32))
        with pytest.raises(Stopped):
            run(lambda: True)


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((40, 240, 28, 1), (120, [1, 28, 28])),  # adjacent output for each thread
        ((64, 64, 56, 3), (64, [1, 28, 56])),  # unfolding takes longer than sharing lines of output
        ((320, 1280, 7, 1), (640, [1, 7, 7])),
        ((16, 8, 28, 1), (8, [1, 28, 28])),  # too little work to share
    ],
)
def test_two_threads_get_the_same_work(shape, tile):
    channels, filters, size, taps = shape
    sizes = {"InputTensor": (1, channels, size, size), "FilterTensor": (filters, channels, taps, taps)}
    inputs = {name: np.zeros(each, np.float32) for name, each in sizes.items()}
    geometry = ConvolutionGeometry(plan_of("CONVOLUTION", inputs, **FORWARD, **conv_fields(2, 1, 1, taps // 2, 1)))
    lines = geometry.phase(0)
    assert lines is not None
    tiling = PhaseTiling.of(geometry, lines, 2, shared=True)
    assert (tiling.filters, tiling.places) == tile


@pytest.mark.parametrize("rows", [1, 3, 200])
def test_threads_share_products_that_run_again(cpu, rows):
    cpu.warm_up()
    depth, columns = 700, 800
    inputs = {
        "ATensor": whole_numbers(1, 1, rows, depth, seed=1),
        "BTensor": whole_numbers(1, 1, columns, depth, seed=2),
    }
    found = np.full((1, 1, rows, columns), np.nan, np.float32)
    plan = plan_of("GEMM", inputs, **(SIMPLE | {"TransB": "TRANSPOSE"}))
    pool = cpu._pool.with_scratch(Scratch())
    run = GemmJob(plan).bind(inputs, {"OutputTensor": found}, cpu._library.find, pool)
    for factor in (1, 3):
        inputs["BTensor"] *= factor
        run(never_stop)
        a, b = (inputs[name][0, 0].astype(np.float64) for name in ("ATensor", "BTensor"))
        np.testing.assert_array_equal(found[0, 0], (a @ b.T).astype(np.float32))


def attention(device: CpuDevice, q: Array, k: Array, v: Array, heads: int, **fields: Any) -> Array:
    inputs = {"QueryTensor": q, "KeyTensor": k, "ValueTensor": v}
    given = {"Scale": 1, "MaskFilterValue": -10000, "HeadCount": heads, "MaskType": "NONE"}
    return answer(device, "MULTIHEAD_ATTENTION", inputs, **(given | fields))


def test_attention_across_tiles(cpu):
    q, k, v = normal(2, 300, 3 * 16), normal(2, 2500, 3 * 16, seed=1), normal(2, 2500, 3 * 8, seed=2)
    found = attention(cpu, q, k, v, 3, Scale=0.25)
    for head in range(3):
        part = slice(head * 16, head * 16 + 16)
        scores = q[..., part].astype(np.float64) @ k[..., part].astype(np.float64).swapaxes(1, 2) / 4
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        right = powers @ v[..., head * 8 : head * 8 + 8].astype(np.float64) / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(found[..., head * 8 : head * 8 + 8], right, rtol=2**-22, atol=1e-9)


def test_attention_with_large_logits_does_not_overflow(cpu):
    q, k = np.full((1, 2, 4), 3e4, np.float32), np.full((1, 5000, 4), 3e4, np.float32)
    v = np.arange(5000, dtype=np.float32).reshape(1, 5000, 1)
    np.testing.assert_array_equal(attention(cpu, q, k, v, 1), np.full((1, 2, 1), 2499.5, np.float32))


def test_lstm_accumulates_over_long_sequences(cpu):
    """A state accumulates over many steps: the forget gate is 1 and the input gate one half."""
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
    cpu.run(plan, inputs, outputs, never_stop)
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
    "wide_integers": ("MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
                      {"ATensor": zeros(4096, 4096, data_type="INT32"), "BTensor": zeros(4096, 4096, data_type="INT32"),
                       "AScaleTensor": zeros(1), "BScaleTensor": zeros(1)}),
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


THREADS = 2

MOST_OF_A_THREAD = 64 << 20
"""Bytes allowed in addition to inputs and outputs."""


class Watch:
    """Stop callback that stops after a moment, and measures the CPU time between two calls."""

    def __init__(self) -> None:
        self._end = time.monotonic() + 0.2
        self._last = time.process_time()
        self.most = 0.0

    def __call__(self) -> bool:
        now = time.process_time()
        self.most, self._last = max(self.most, now - self._last), now
        return time.monotonic() > self._end


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize("name", LARGE)
def test_large_work_stops_and_stays_within_its_memory(name):
    kind, desc = LARGE[name]
    plan = check({"type": kind, "desc": desc})
    device, watch = CpuDevice(threads=THREADS), Watch()
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
    assert watch.most < THREADS * 0.05
    assert taken <= device.scratch_bytes(plan) + 2**20
    assert device.scratch_bytes(plan) <= THREADS * MOST_OF_A_THREAD


def test_blas_starts_no_threads_of_its_own(cpu):
    """Otherwise each thread of the pool would wake as many BLAS threads as there are cores."""
    a, b = (np.random.default_rng(seed).integers(0, 256, (600, 600), np.uint8) for seed in range(2))
    with threadpool_limits(2, "blas"):
        blas.single_threaded.cache_clear()  # as in a fresh process
        found = answer(cpu, "MATRIX_MULTIPLY_INTEGER", {"ATensor": a, "BTensor": b})
        threads = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.astype(np.int64))
    assert threads
    assert set(threads) == {1}
