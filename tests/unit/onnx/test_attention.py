"""Tests of ONNX Runtime's attention, as DirectML operators."""

from typing import Any

import numpy as np
import pytest

from opwire.level import FeatureLevel
from opwire.onnx import load
from tests.onnx_models.single import agree, by_onnx_runtime, lowered, single, types

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(6)
BATCH, LENGTH, HEADS, SIZE = 2, 3, 2, 4
HIDDEN = HEADS * SIZE
MICROSOFT: dict[str, Any] = {"domain": "com.microsoft", "num_heads": HEADS}


def floats(*sizes: Any) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


def integers(values: Any) -> Any:
    return np.array(values, np.int32)


PROJECTED = [floats(BATCH, LENGTH, 5), floats(5, 3 * HIDDEN), floats(3 * HIDDEN)]
PAST = floats(2, BATCH, HEADS, 2, SIZE)

MASKS = {
    "lengths": integers([2, 3]),
    "ends and starts": integers([3, 2, 1, 0]),
    "keys": integers([[1, 1, 0], [0, 1, 1]]),
    "queries and keys": RNG.integers(0, 2, (BATCH, LENGTH, LENGTH)).astype(np.int32),
}


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", [None, *MASKS])
def test_attention(mask, unidirectional):
    inputs = [*PROJECTED, MASKS.get(mask)]
    model = agree("Attention", inputs, unidirectional=unidirectional, **MICROSOFT)
    assert (model.nodes[0].level or FeatureLevel.V6_4) <= FeatureLevel.V3_1
    assert [each.type for each in model.nodes[0].provider.emits if "ATTENTION" in each.type] == (
        [] if unidirectional else ["MULTIHEAD_ATTENTION"]
    )


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_with_a_past(unidirectional):
    mask = integers([[1, 1, 0, 1, 1], [1, 0, 1, 1, 1]])
    inputs = [*PROJECTED, mask, PAST]
    agree("Attention", inputs, outputs=2, unidirectional=unidirectional, **MICROSOFT)
    inputs = [*PROJECTED, None, None, floats(1, HEADS, LENGTH, LENGTH)]
    agree("Attention", inputs, unidirectional=unidirectional, **MICROSOFT)


@pytest.mark.parametrize("attributes", [{"scale": 0.3}, {"qkv_hidden_sizes": [8, 8, 8]}, {"mask_filter_value": -5.0}])
def test_attributes_of_attention(attributes):
    agree("Attention", [*PROJECTED, MASKS["keys"]], **attributes, **MICROSOFT)


def test_values_of_another_size():
    inputs = [PROJECTED[0], floats(5, 2 * HIDDEN + 6), floats(2 * HIDDEN + 6)]
    agree("Attention", inputs, qkv_hidden_sizes=[HIDDEN, HIDDEN, 6], **MICROSOFT)


def test_attention_without_bias():
    agree("Attention", [*PROJECTED[:2], None], **MICROSOFT)


@pytest.mark.parametrize("case", ["plain", "past", "unidirectional"])
def test_quantized_attention(case):
    x = RNG.integers(0, 256, (BATCH, LENGTH, 5)).astype(np.uint8)
    w = RNG.integers(-128, 128, (5, 3 * HIDDEN)).astype(np.int8)
    scales = [np.float32(0.01), np.float32(0.02)]
    mask = MASKS["keys"] if case == "plain" else None
    past = PAST if case == "past" else None
    inputs = [x, w, floats(3 * HIDDEN), *scales, mask, np.uint8(120), np.int8(3), past]
    outputs = 2 if case == "past" else 1
    unidirectional = int(case == "unidirectional")
    agree("QAttention", inputs, outputs=outputs, unidirectional=unidirectional, tolerance=1e-4, **MICROSOFT)


QUERY, KEY, VALUE = floats(BATCH, LENGTH, HIDDEN), floats(BATCH, 4, HIDDEN), floats(BATCH, 4, 6)
PACKED = floats(BATCH, LENGTH, HEADS, 3, SIZE), floats(BATCH, 4, HEADS, 2, SIZE)


@pytest.mark.parametrize(
    "inputs",
    [
        [QUERY, KEY, VALUE],
        [QUERY, KEY, VALUE, floats(2 * HIDDEN + 6)],
        [QUERY, KEY, VALUE, None, integers([2, 4])],
        [QUERY, KEY, VALUE, None, integers([[1, 0, 1, 1], [1, 1, 1, 0]])],
        [QUERY, KEY, VALUE, None, None, floats(1, HEADS, LENGTH, 4)],
        [QUERY, KEY, VALUE, None, None, floats(BATCH, 1, LENGTH, 4)],
        [QUERY, floats(BATCH, HEADS, 4, SIZE), floats(BATCH, HEADS, 4, SIZE)],
    ],
)
def test_multi_head_attention(inputs):
    agree("MultiHeadAttention", inputs, **MICROSOFT)


def test_packed_tensors_mean_their_parts():
    """ONNX Runtime has no kernel for them on the CPU."""
    for inputs in ([PACKED[0]], [QUERY, PACKED[1]]):
        tensors = [each[..., i, :].reshape(BATCH, -1, HIDDEN) for each in inputs[-1:] for i in range(each.shape[3])]
        apart = [*inputs[:-1], *tensors]
        found, expected = (
            lowered(single("MultiHeadAttention", given, **MICROSOFT), given)[1][0] for given in (inputs, apart)
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention_with_a_past(unidirectional):
    past = [floats(BATCH, HEADS, 2, SIZE), floats(BATCH, HEADS, 2, SIZE)]
    inputs = [*(floats(BATCH, LENGTH, HIDDEN) for _ in range(3)), None, None, None, *past]
    agree("MultiHeadAttention", inputs, outputs=3, unidirectional=unidirectional, **MICROSOFT)


def test_present_without_a_past():
    agree("MultiHeadAttention", [QUERY, KEY, floats(BATCH, 4, HIDDEN)], outputs=3, **MICROSOFT)


def test_shared_buffers_are_refused():
    inputs = [*PROJECTED, None, floats(2, BATCH, HEADS, 9, SIZE), None, integers([2])]
    source = single("Attention", inputs, outputs=2, past_present_share_buffer=1, **MICROSOFT)
    assert [each.reason for each in load(source).nodes] == ["its past_present_share_buffer is 1"]


def test_operators_are_of_low_levels():
    model = agree("MultiHeadAttention", [QUERY, KEY, VALUE], **MICROSOFT)
    assert types(model) == ["GEMM", "ACTIVATION_SOFTMAX", "GEMM", "ELEMENT_WISE_IDENTITY"]
    assert model.nodes[0].level == FeatureLevel.V1_0


GROUPED: dict[str, Any] = {"domain": "com.microsoft", "num_heads": 4, "kv_num_heads": 2}


def grouped(
    batch: Any, new: Any, room: Any, lengths: Any, *, total: Any = None, rotary: Any = False, extra: Any = ()
) -> Any:
    """Returns the inputs of a GroupQueryAttention.

    Args:
        batch: the number of sequences.
        new: how many tokens come now.
        room: the size of the buffers of earlier tokens; None without buffers.
        lengths: the tokens of each sequence so far, with the new ones.
        total: those of the longest.
        rotary: whether there are angles.
        extra: further inputs.
    """
    past = [None, None] if room is None else [floats(batch, 2, room, 16) for _ in range(2)]
    tokens = [floats(batch, new, heads * 16) for heads in (4, 2, 2)]
    angles = [np.cos(floats(16, 8)), np.sin(floats(16, 8))] if rotary else [None, None]
    counts = [integers([each - 1 for each in lengths]), integers(total or max(lengths))]
    return [*tokens, *past, *counts, *angles, *extra]


def grouped_results(inputs: Any, **attributes: Any) -> Any:
    """Returns what opwire and ONNX Runtime compute. Rows of the buffers beyond a sequence mean nothing."""
    source = single("GroupQueryAttention", inputs, (6,), outputs=3, **attributes, **GROUPED)
    found, expected = lowered(source, inputs)[1], by_onnx_runtime(source, inputs)
    return zip(found, expected, strict=True)


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize(
    ("batch", "new", "room", "lengths"),
    [
        (2, 3, None, [3, 3]),
        (1, 1, 4, [5]),
        (2, 1, 4, [5, 5]),
        (1, 2, 4, [6]),
        (1, 3, 8, [3]),
        (1, 1, 8, [5]),
        (2, 1, 8, [5, 3]),
    ],
)
def test_group_query_attention(batch, new, room, lengths, rotary):
    inputs = grouped(batch, new, room, lengths, rotary=rotary)
    output, *presents = grouped_results(inputs, do_rotary=int(rotary))
    np.testing.assert_allclose(output[0], output[1], rtol=1e-5, atol=1e-5)
    for found, expected in presents:
        assert found.shape == expected.shape
        for one, other, length in zip(found, expected, lengths, strict=True):
            np.testing.assert_allclose(one[:, :length], other[:, :length], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "attributes", [{"local_window_size": 2}, {"scale": 0.2}, {"do_rotary": 1, "rotary_interleaved": 1}]
)
def test_attributes_of_group_query_attention(attributes):
    inputs = grouped(1, 4, None, [4], rotary="do_rotary" in attributes)
    for found, expected in grouped_results(inputs, **attributes):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    inputs = grouped(2, 1, 4, [5, 5], rotary="do_rotary" in attributes)
    for found, expected in grouped_results(inputs, **attributes):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_packed_groups():
    inputs = grouped(2, 3, None, [3, 3])
    inputs[:3] = [np.concatenate(inputs[:3], -1), None, None]
    for found, expected in grouped_results(inputs):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_bias_of_groups():
    inputs = grouped(2, 3, None, [3, 3], extra=[None, floats(1, 4, 3, 3)])
    for found, expected in grouped_results(inputs):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_total_length_must_be_constant():
    inputs = grouped(1, 1, 4, [5])
    source = single("GroupQueryAttention", inputs, outputs=3, **GROUPED)
    assert [each.reason for each in load(source).nodes] == ["its input 6, x6, is not constant"]
    softcapped = single("GroupQueryAttention", inputs, (6,), outputs=3, softcap=3.0, **GROUPED)
    assert [each.reason for each in load(softcapped).nodes] == ["its softcap is 3.0"]


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([floats(3)], MICROSOFT),
        ([QUERY, floats(BATCH, 5, 3), VALUE], MICROSOFT),
        ([QUERY, KEY, VALUE], {"domain": "com.microsoft"}),
        ([QUERY, KEY, VALUE], {"domain": "com.microsoft", "num_heads": 0}),
    ],
)
def test_tensors_that_do_not_belong_together(inputs, attributes):
    """ONNX has no schema that refuses them."""
    (found,) = load(single("MultiHeadAttention", inputs, **attributes)).nodes
    assert found.reason
    assert not found.is_lowered
