"""Small descs of huge work for tiled operators: bounded memory, and polling for stops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import check
from tests.unit.devices.test_huge_work import assert_stops_soon_in_bounds

WIDE = 1 << 23


def tensor(*sizes: int, data_type: str = "FLOAT32") -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes), "Strides": [0] * len(sizes)}


def of(operator: str, *sizes: int, data_type: str = "FLOAT32", **fields: object) -> dict[str, Any]:
    return {"type": operator, "desc": {"InputTensor": tensor(*sizes, data_type=data_type), **fields}}


RUNNING: dict[str, Any] = {"AxisDirection": "INCREASING"}
SCALED: dict[str, Any] = {"QuantizationType": "SCALE", "QuantizationTensors": [tensor(1)]}

NASTY = {
    "softmax_of_one_row": of("ACTIVATION_SOFTMAX1", WIDE, Axes=[0]),
    "softmax_of_single_elements": of("ACTIVATION_SOFTMAX1", WIDE, 1, Axes=[1]),
    "softmax_of_halves_that_are_ties": of("ACTIVATION_SOFTMAX1", WIDE * 4, data_type="FLOAT16", Axes=[0]),
    "logarithms_of_columns": of("ACTIVATION_LOG_SOFTMAX1", 1 << 15, 256, Axes=[0]),
    "hardmax_of_one_row": of("ACTIVATION_HARDMAX1", WIDE, Axes=[0]),
    "normalization_of_one_row": of(
        "MEAN_VARIANCE_NORMALIZATION1", WIDE, Axes=[0], NormalizeVariance=True, Epsilon=1e-5
    ),
    "normalization_of_pairs": of(
        "MEAN_VARIANCE_NORMALIZATION1", WIDE // 2, 2, Axes=[1], NormalizeVariance=True, Epsilon=1e-5
    ),
    "large_regions": of(
        "LOCAL_RESPONSE_NORMALIZATION",
        *(1, 1, 512, 512),
        CrossChannel=False,
        LocalSize=2**31,
        Alpha=1,
        Beta=0.75,
        Bias=1,
    ),
    "sums_of_one_line": of("CUMULATIVE_SUMMATION", WIDE, Axis=0, HasExclusiveSum=False, **RUNNING),
    "products_of_one_line": of("CUMULATIVE_PRODUCT", WIDE, Axis=0, HasExclusiveProduct=True, **RUNNING),
    "products_of_columns": of("CUMULATIVE_PRODUCT", 1 << 15, 256, Axis=0, HasExclusiveProduct=False, **RUNNING),
    "sums_of_integers": of("CUMULATIVE_SUMMATION", WIDE, data_type="INT64", Axis=0, HasExclusiveSum=False, **RUNNING),
    "4_bits": of("QUANTIZE", WIDE, OutputTensor={"DataType": "INT4", "Sizes": [WIDE]}, **SCALED),
    "from_4_bits": of("DEQUANTIZE", WIDE, data_type="UINT4", **SCALED),
    "random_numbers": {
        "type": "RANDOM_GENERATOR",
        "desc": {
            "InputStateTensor": {"DataType": "UINT32", "Sizes": [6]},
            "OutputTensor": {"DataType": "UINT32", "Sizes": [WIDE]},
            "Type": "PHILOX_4X32_10",
        },
    },
}


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize("name", NASTY)
def test_huge_work_stops_soon_within_bounds(device, name):
    plan = check(NASTY[name])
    one = np.float16(1) if "halves" in name else np.float32(1.5)
    inputs = {}
    for key, desc in plan.inputs.items():
        buffer = np.zeros(desc.data_size_in_bytes + 8, np.uint8)
        buffer[: one.nbytes] = np.frombuffer(one.tobytes(), np.uint8)
        inputs[key] = desc.view(buffer)
    outputs = {key: desc.allocate()[1] for key, desc in plan.outputs.items()}
    assert_stops_soon_in_bounds(device, plan, inputs, outputs)
