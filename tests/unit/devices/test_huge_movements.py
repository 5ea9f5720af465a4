"""Small descs of huge movements: devices stop on request, do not starve other threads, and use little memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opwire.check import Plan, check
from opwire.errors import ContractViolation
from tests.unit.devices.test_huge_work import assert_stops_soon_in_bounds

FAR = 2**25


def repeated(data_type: str, *sizes: int) -> dict[str, Any]:
    """Returns a tensor that repeats one element to any size."""
    return {"DataType": data_type, "Sizes": list(sizes), "Strides": [0] * len(sizes)}


def packed(data_type: str, *sizes: int) -> dict[str, Any]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def blocks(image: list[int], window: list[int], padding: list[int]) -> dict[str, Any]:
    n = len(window)
    arrays = {"WindowSizes": window, "Strides": [1] * n, "Dilations": [1] * n}
    return {"InputTensor": repeated("FLOAT32", *image), **arrays, "StartPadding": padding, "EndPadding": padding}


def padding(mode: str, sizes: list[int], start: list[int], end: list[int]) -> dict[str, Any]:
    fields = {"PaddingMode": mode, "PaddingValue": 1, "StartPadding": start, "EndPadding": end}
    return {"InputTensor": repeated("UINT8", *sizes), **fields}


NASTY: dict[str, tuple[str, dict[str, Any]]] = {
    "tiles_of_one": ("TILE", {"InputTensor": packed("UINT8", 1, 2), "Repeats": [FAR, 3]}),
    "tiles_of_many_dimensions": ("TILE", {"InputTensor": packed("UINT8", *[2] * 8), "Repeats": [4] * 8}),
    "far_edges": ("PADDING", padding("EDGE", [2, 1], [0, FAR], [3, FAR])),
    "mirrors_of_mirrors": ("PADDING", padding("REFLECTION", [2, 2], [1, FAR], [0, FAR])),
    "wraps_of_pairs": ("PADDING", padding("WRAP", [FAR, 2], [0, 1], [0, 1])),
    "slices_of_nothing": (
        "SLICE",
        {"InputTensor": repeated("UINT8", FAR, 4), "Offsets": [0, 0], "Sizes": [FAR, 2], "Strides": [1, 2]},
    ),
    "casts": ("CAST", {"InputTensor": repeated("FLOAT32", FAR, 2), "OutputTensor": packed("INT8", FAR, 2)}),
    "casts_to_halves": ("CAST", {"InputTensor": repeated("INT64", 2, FAR), "OutputTensor": packed("FLOAT16", 2, FAR)}),
    "gathered_bytes": (
        "GATHER",
        {"InputTensor": repeated("UINT8", 9), "IndicesTensor": repeated("INT64", FAR), "Axis": 0, "IndexDimensions": 1},
    ),
    "scattered_bytes": (
        "SCATTER_ND",
        {
            "InputTensor": packed("UINT8", 1, 1, 1, 9),
            "IndicesTensor": {"DataType": "INT64", "Sizes": [2**9, 2**8, 2**8, 1], "Strides": [1, 1, 1, 1]},
            "UpdatesTensor": repeated("UINT8", 1, 2**9, 2**8, 2**8),
            "InputDimensionCount": 1,
            "IndicesDimensionCount": 4,
        },
    ),
    "hot": (
        "ONE_HOT",
        {
            "IndicesTensor": repeated("UINT32", FAR, 1),
            "ValuesTensor": packed("UINT8", 1, 2),
            "OutputTensor": packed("UINT8", FAR, 2),
            "Axis": 1,
        },
    ),
    "reversed": (
        "REVERSE_SUBSEQUENCES",
        {"InputTensor": repeated("UINT8", FAR, 2), "SequenceLengthsTensor": repeated("UINT32", FAR, 1), "Axis": 1},
    ),
    "best_of_many": ("TOP_K", {"InputTensor": repeated("UINT8", 2**22), "Axis": 0, "K": 2**22}),
    "best_of_pairs": ("TOP_K", {"InputTensor": repeated("FLOAT32", 2**22, 1, 2), "Axis": 2, "K": 1}),
    "best_of_words": ("TOP_K", {"InputTensor": repeated("INT64", 2**21), "Axis": 0, "K": 2**20}),
    "coordinates": ("NONZERO_COORDINATES", {"InputTensor": repeated("UINT8", *[8] * 7)}),
    "columns": ("UNFOLD", blocks([1, 1, 2, FAR], [2, 2], [1, 1])),
    "columns_of_padding": ("UNFOLD", blocks([1, 1, 1, 1], [2**11, 2**11], [2**10, 2**10])),
    "sums": ("FOLD", {**blocks([1, 4, FAR - 1], [1, 4], [0, 0]), "OutputTensor": packed("FLOAT32", 1, 1, 1, FAR + 2)}),
    "sums_of_long_blocks": (
        "FOLD",
        {**blocks([1, 2**12, 2**12], [1, 2**12], [0, 0]), "OutputTensor": packed("FLOAT32", 1, 1, 1, 2**13 - 1)},
    ),
    "constants": (
        "FILL_VALUE_CONSTANT",
        {"OutputTensor": packed("UINT8", 2, FAR), "ValueDataType": "UINT8", "Value": 1},
    ),
    "sequences": (
        "FILL_VALUE_SEQUENCE",
        {"OutputTensor": packed("FLOAT16", FAR), "ValueDataType": "FLOAT16", "ValueStart": 0.1, "ValueDelta": 1e-4},
    ),
    "diagonals": ("DIAGONAL_MATRIX", {"OutputTensor": packed("UINT8", FAR, 2), "Offset": 0, "Value": 1}),
    "pictures": ("VALUE_SCALE_2D", {"InputTensor": repeated("FLOAT16", FAR, 1, 1, 1), "Scale": 1.5, "Bias": [2]}),
}


def tensors(plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    inputs = {name: desc.view(bytearray(b"\x01" * desc.total_size_in_bytes)) for name, desc in plan.inputs.items()}
    return inputs, {name: np.empty(desc.sizes, desc.data_type.dtype) for name, desc in plan.outputs.items()}


@pytest.mark.usefixtures("gc_disabled")
@pytest.mark.parametrize("name", NASTY)
def test_huge_movements_stop_soon_within_bounds(device, name):
    operator, desc = NASTY[name]
    plan = check({"type": operator, "desc": desc})
    inputs, outputs = tensors(plan)
    assert_stops_soon_in_bounds(device, plan, inputs, outputs)


BLOWN_UP = {
    "tiles": ("TILE", {"InputTensor": packed("UINT8", 2), "Repeats": [2**31]}),
    "columns": ("UNFOLD", blocks([1, 1, 2**16, 2**16], [9, 9], [8, 8])),
    "constants": ("FILL_VALUE_CONSTANT", {"OutputTensor": packed("UINT8", 2**16, 2**16), "Value": 1}),
}


@pytest.mark.parametrize("name", BLOWN_UP)
def test_outputs_with_too_many_elements_are_refused(name):
    operator, desc = BLOWN_UP[name]
    with pytest.raises(ContractViolation):
        check({"type": operator, "desc": desc})
