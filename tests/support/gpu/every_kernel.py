"""Small plans that together run every CUDA kernel; ``coverage.missing`` tells which ones they leave out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from opwire.check import Plan, check
from opwire.enums import ReduceFunction
from opwire.errors import ContractViolation
from opwire.graph import check_graph
from opwire.operators import OPERATORS
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.elementwise import TABLE_WORTH
from tests.cuda.test_normalization import CASES
from tests.cuda.test_normalization import Case as DrawnCase
from tests.cuda.test_normalization import plan_of as plan_of_case
from tests.support.elements import FORMULAS, plan_of

FUNCTIONS = tuple(function.name for function in ReduceFunction)
DATA_TYPES = ("FLOAT32", "FLOAT16", "INT32", "INT64", "UINT8")
Layout = tuple[list[int], list[int], list[int] | None]
"""Sizes, axes and strides."""

Product = tuple[list[int], list[int], dict[str, object]]

SMALL: dict[str, Layout] = {
    "last": ([40, 96], [1], None),
    "last in splits": ([1, 33001], [1], None),
    "first": ([320, 32], [0], None),
    "first in splits": ([8200, 3], [0], None),
    "middle": ([3, 37, 31], [1], None),
    "all": ([5, 7, 9], [0, 1, 2], None),
    "first and last": ([5, 7, 9], [0, 2], None),
    "transposed": ([6, 10], [1], [1, 6]),
    "repeated": ([3, 50], [1], [7, 0]),
    "none": ([17], [], None),
}
"""Reductions that take a single pass."""

LARGE: dict[str, Layout] = {
    "last": ([64, 1024], [1], None),
    "last in splits": ([1, 131072], [1], None),
    "first": ([256, 264], [0], None),
    "first in splits": ([8200, 8], [0], None),
    "middle": ([4, 128, 129], [1], None),
    "transposed": ([304, 220], [1], [1, 304]),
}
"""Reductions with a fast pass and one that settles its results, for functions that have both."""

UNDECIDED: dict[tuple[str, str], tuple[list[float], float | None]] = {
    ("L2", "FLOAT32"): ([1, 2.0**-12, 2.0**-12, 2.0**-24], 0),
    ("L2", "FLOAT16"): ([1, 2.0**-5, 2.0**-11], 0),
    ("SUM_SQUARE", "FLOAT32"): ([4096, 1], 0),
    ("SUM_SQUARE", "FLOAT16"): ([45, 4, 2, 2], 0),
    ("MULTIPLY", "FLOAT32"): ([97, 257, 673], 1),
    ("MULTIPLY", "FLOAT16"): ([3, 683], 1),
    ("LOG_SUM_EXP", "FLOAT32"): ([70000], 0),
    ("LOG_SUM_EXP", "FLOAT16"): ([], None),
}
"""Elements whose reduction the fast pass cannot round, and the rest; with None, the logarithm is close to 0."""

POOLINGS: dict[str, dict[str, list[int]]] = {
    "strips": {"sizes": [1, 3, 21, 32], "window": [3, 3], "stride": [2, 2], "padding": [1, 1]},
    "strips without overlap": {"sizes": [2, 1, 16, 32], "window": [2, 2], "stride": [2, 2], "padding": [0, 0]},
    "ragged strips": {"sizes": [1, 2, 9, 13], "window": [3, 3], "stride": [1, 1], "padding": [1, 1]},
    "large windows": {"sizes": [1, 1, 40, 40], "window": [35, 35], "stride": [1, 1], "padding": [0, 0]},
    "three dimensions": {"sizes": [1, 2, 5, 6, 7], "window": [2, 3, 2], "stride": [1, 2, 1], "padding": [1, 1, 0]},
}


def packed(*sizes: int, data_type: str = "FLOAT32") -> dict[str, object]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def running(*sizes: int, axis: int, data_type: str = "FLOAT32", of: str = "Sum") -> dict[str, object]:
    fields = {"Axis": axis, "AxisDirection": "INCREASING", f"HasExclusive{of}": False}
    return {"InputTensor": packed(*sizes, data_type=data_type), **fields}


ROWS: dict[str, object] = {"StartPadding": [1, 1], "EndPadding": [1, 1], "PaddingMode": "REFLECTION", "PaddingValue": 0}
WINDOW = {"InputWindowOffsets": [0, 1], "InputWindowSizes": [5, 90], "InputWindowStrides": [1, 1]}

PAIRS = "Strides", "Dilations", "StartPadding", "EndPadding"
BLOCKS: dict[str, object] = {"WindowSizes": [3, 5], **{name: [1, 1] for name in PAIRS}}

LARGER: tuple[tuple[str, dict[str, object]], ...] = (
    ("SLICE1", {"InputTensor": packed(5, 100), **WINDOW}),
    ("TILE", {"InputTensor": {**packed(64, 70), "Strides": [1, 64]}, "Repeats": [1, 1]}),
    ("PADDING", {"InputTensor": packed(3, 70), **ROWS}),
    ("TOP_K", {"InputTensor": packed(2, 5000), "Axis": 1, "K": 3}),
    ("TOP_K", {"InputTensor": packed(2, 5000), "Axis": 1, "K": 5000}),
    ("SPACE_TO_DEPTH1", {"InputTensor": packed(2, 3, 30, 150), "BlockSize": 2, "Order": "COLUMN_ROW_DEPTH"}),
    ("UNFOLD", {"InputTensor": packed(1, 2, 30, 35), **BLOCKS}),
    ("CUMULATIVE_SUMMATION", running(2, 5000, axis=1)),
    ("CUMULATIVE_SUMMATION", running(1, 2_500_000, axis=1)),
    ("CUMULATIVE_SUMMATION", running(3, 8500, axis=0)),
    ("CUMULATIVE_SUMMATION", running(1, 100_000, axis=1, data_type="INT32")),
    ("CUMULATIVE_SUMMATION", running(1, 100_000, axis=1, data_type="INT64")),
    ("CUMULATIVE_SUMMATION", running(4, 5, axis=1, data_type="INT32")),
    ("CUMULATIVE_PRODUCT", running(2, 5000, axis=1, of="Product")),
    ("CUMULATIVE_PRODUCT", running(1, 20_000, axis=1, of="Product")),
    ("CUMULATIVE_PRODUCT", running(3, 8500, axis=0, of="Product")),
    ("ELEMENT_WISE_EXP", {"InputTensor": packed(TABLE_WORTH, data_type="FLOAT16")}),
)
"""Larger inputs for operators whose worked examples do not reach all of their kernels."""

COMPUTED_ON_HOST = DrawnCase(
    "ROI_ALIGN",
    1,
    {
        "InputTensor": [1, 1, 4, 4],
        "ROITensor": [2, 4],
        "BatchIndicesTensor": ("UINT32", [2]),
        "OutputTensor": [2, 1, 1, 1],
        "ReductionFunction": "AVERAGE",
        "InterpolationMode": "LINEAR",
        **dict.fromkeys(("SpatialScaleX", "SpatialScaleY", "OutOfBoundsInputValue"), 1),
        **dict.fromkeys(("MinimumSamplesPerOutput", "MaximumSamplesPerOutput"), 2**16),
    },
)
"""More samples than one launch handles, so the host computes the outputs."""
PRODUCTS: dict[str, Product] = {
    "plain": ([70, 33], [33, 40], {}),
    "transposed": ([33, 70], [40, 33], {"TransA": "TRANSPOSE", "TransB": "TRANSPOSE", "Alpha": 0.3}),
    "batch": ([3, 2, 9, 17], [3, 2, 17, 5], {"FusedActivation": {"Type": "ACTIVATION_GELU"}}),
    "softmax": ([30, 40], [40, 50], {"FusedActivation": {"Type": "ACTIVATION_SOFTMAX1", "Axes": [0]}}),
    "large": ([1030, 1030], [1030, 1030], {}),
    "large and transposed": ([1030, 1030], [1030, 1030], {"TransA": "TRANSPOSE"}),
    "deep": ([2, 2**20 + 77], [2**20 + 77, 2], {}),
    "by remainders": ([1030, 16390], [16390, 1027], {}),
}
"""Sizes of both matrices, and attributes."""

CONVOLUTIONS: dict[str, tuple[list[int], list[int], dict[str, object]]] = {
    "several filters": ([2, 6, 9, 11], [10, 3, 3, 2], {"GroupCount": 2}),
    "few filters": ([2, 8, 9], [8, 1, 3], {"GroupCount": 8}),
    "transposed": ([1, 10, 5, 4, 6], [10, 12, 2, 1, 2], {"Direction": "BACKWARD", "Strides": [3, 1, 2]}),
    "by remainders": ([2, 48, 19, 17], [70, 24, 3, 3], {"GroupCount": 2}),
}
"""Sizes of the input and the filter, and attributes."""

Case = tuple[Plan, bytes | bytearray]
"""A plan and the bytes of its inputs."""


def reduction(function: str, data_type: str, layout: Layout) -> Iterator[Plan]:
    """Yields plans of a reduction if it takes the type; ARGMAX and ARGMIN in both axis directions."""
    sizes, axes, strides = layout
    tensor: dict[str, object] = {"DataType": data_type, "Sizes": sizes}
    if strides is not None:
        tensor["Strides"] = strides
    desc = {"InputTensor": tensor, "Axes": axes}
    try:
        yield check({"type": "REDUCE", "desc": {"Function": function, **desc}})
    except ContractViolation:
        return
    if function.startswith("ARG"):
        yield check({"type": function, "desc": {**desc, "AxisDirection": "DECREASING"}})


def pooling(row: Mapping[str, list[int]], data_type: str, operator: str) -> Iterator[Plan]:
    """Yields a plan, and one with indices if the operator has them."""
    desc: dict[str, object] = {
        "InputTensor": {"DataType": data_type, "Sizes": row["sizes"]},
        "WindowSize": row["window"],
        "Strides": row["stride"],
        "StartPadding": row["padding"],
        "EndPadding": row["padding"],
    }
    if operator == "MAX_POOLING2":
        desc["Dilations"] = [1] * len(row["window"])
    plan = check({"type": operator, "desc": desc})
    yield plan
    if operator != "MAX_POOLING":
        indices = {"DataType": "UINT64", "Sizes": list(plan.outputs["OutputTensor"].sizes)}
        yield check({"type": operator, "desc": {**desc, "OutputIndicesTensor": indices}})


def product(row: Product, data_type: str) -> Plan:
    a, b, attributes = row
    tensors = {"ATensor": {"DataType": data_type, "Sizes": a}, "BTensor": {"DataType": data_type, "Sizes": b}}
    plain = {"TransA": "NONE", "TransB": "NONE", "Alpha": 1, "Beta": 1}
    return check({"type": "GEMM", "desc": {**tensors, **plain, **attributes}})


def convolution(sizes: list[int], kernel: list[int], attributes: Mapping[str, object], data_type: str) -> Plan:
    spatial = len(sizes) - 2
    names = {"Strides": 1, "Dilations": 1, "StartPadding": 1, "EndPadding": 1, "OutputPadding": 0}
    desc = {
        "InputTensor": {"DataType": data_type, "Sizes": sizes},
        "FilterTensor": {"DataType": data_type, "Sizes": kernel},
        "Mode": "CROSS_CORRELATION",
        "Direction": "FORWARD",
        "GroupCount": 1,
        **{name: [value] * spatial for name, value in names.items()},
    }
    return check({"type": "CONVOLUTION", "desc": {**desc, **attributes}})


def tensor(data_type: str, *sizes: int) -> dict[str, object]:
    return {"DataType": data_type, "Sizes": list(sizes)}


def integer_products() -> Iterator[Plan]:
    """Yields integer matrix products and convolutions."""
    scales = {f"{name}ScaleTensor": tensor("FLOAT32", 1) for name in ("A", "B", "Output")}
    matrices = {"ATensor": tensor("UINT8", 9, 17), "BTensor": tensor("INT8", 17, 33)}
    zeros = {"AZeroPointTensor": tensor("UINT8", 9, 1), "BZeroPointTensor": tensor("INT8", 1, 33)}
    yield check({"type": "MATRIX_MULTIPLY_INTEGER", "desc": {**matrices, **zeros}})
    yield check({"type": "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "desc": {**matrices, **scales}})
    wide = {"ATensor": tensor("INT32", 9, 17), "BTensor": tensor("INT32", 17, 33)}
    floats = {f"{name}ScaleTensor": tensor("FLOAT16", 1) for name in "AB"}
    yield check({"type": "MATRIX_MULTIPLY_INTEGER_TO_FLOAT", "desc": {**wide, **floats}})
    images = {"InputTensor": tensor("INT8", 2, 6, 9, 11), "FilterTensor": tensor("UINT8", 10, 3, 3, 2)}
    arrays = {"Strides": [1, 2], "Dilations": [1, 1], "StartPadding": [1, 1], "EndPadding": [1, 1], "GroupCount": 2}
    zero = {"InputZeroPointTensor": tensor("INT8", 1, 1, 1, 1)}
    yield check({"type": "CONVOLUTION_INTEGER", "desc": {**images, **zero, **arrays}})
    scales = {f"{name}ScaleTensor": tensor("FLOAT32", 1, 1, 1, 1) for name in ("Input", "Filter", "Output")}
    bias = {"BiasTensor": tensor("INT32", 1, 10, 1, 1)}
    yield check({"type": "QUANTIZED_LINEAR_CONVOLUTION", "desc": {**images, **scales, **bias, **arrays}})


def products() -> Iterator[Plan]:
    """Yields matrix products and convolutions."""
    yield from integer_products()
    for data_type in ("FLOAT32", "FLOAT16"):
        for row in PRODUCTS.values():
            yield product(row, data_type)
        for sizes, kernel, attributes in CONVOLUTIONS.values():
            yield convolution(sizes, kernel, attributes, data_type)


def formula(name: str, strides: tuple[int, ...] = (96, 32, 8, 1)) -> Plan:
    """Returns a plan of an element-wise operator whose last input has the given strides."""
    members = OPERATORS[name].members.inputs
    rows = OPERATORS[name].support.rows({})[0].tensors
    memory = np.zeros(99, np.uint8)
    arrays = {}
    for member in members:
        dtype = min(rows[member.name].data_types, key=lambda each: (not each.is_float, -each.bits)).dtype
        is_last = member is members[-1]
        steps = [step * dtype.itemsize for step in (strides if is_last else (96, 32, 8, 1))]
        arrays[member.name] = np.lib.stride_tricks.as_strided(memory.astype(dtype), (1, 3, 4, 8), steps)
    return plan_of(name, arrays, **({"Bias": [1, 2, 3]} if name == "VALUE_SCALE_2D" else {}))


def formulas() -> Iterator[Plan]:
    """Yields a plan of each element-wise operator, and sums of tensors with various strides."""
    yield from map(formula, FORMULAS)
    for strides in ((0, 0, 8, 1), (0, 8, 1, 0), (0, 0, 0, 0), (0, 1, 3, 12)):
        yield formula("ELEMENT_WISE_ADD", strides)


def others() -> Iterator[Plan]:
    """Yields the worked examples of all other operators, and larger inputs."""
    for name in sorted(JOBS.keys() - {"REDUCE", *FORMULAS}):
        for example in OPERATORS[name].examples:
            yield check({"type": name, "desc": example.desc}, example.level)
    for name, desc in LARGER:
        yield check({"type": name, "desc": desc})


def cases() -> Iterator[Case]:
    """Yields everything that is run."""
    generator = np.random.default_rng(1)

    def any_bytes(plans: Iterable[Plan]) -> Iterator[Case]:
        for plan in plans:
            yield plan, generator.bytes(max((desc.data_size_in_bytes for desc in plan.inputs.values()), default=0))

    for function, data_type, layout in itertools.product(FUNCTIONS, DATA_TYPES, SMALL.values()):
        yield from any_bytes(reduction(function, data_type, layout))
    for (function, data_type), layout in itertools.product(UNDECIDED, LARGE.values()):
        for plan in reduction(function, data_type, layout):
            yield from any_bytes([plan])
            yield plan, undecided_input(plan, *UNDECIDED[function, data_type])
    for data_type, row in itertools.product(DATA_TYPES, POOLINGS.values()):
        yield from any_bytes(pooling(row, data_type, "MAX_POOLING2"))
    for operator in ("MAX_POOLING", "MAX_POOLING1"):
        yield from any_bytes(pooling(POOLINGS["strips"], "FLOAT32", operator))
    yield from any_bytes(formulas())
    yield from any_bytes(plan_of_case(case, data_type) for case in CASES for data_type in ("FLOAT32", "FLOAT16"))
    yield from any_bytes([plan_of_case(COMPUTED_ON_HOST, "FLOAT32")])
    yield from any_bytes(others())
    yield from any_bytes(products())
    yield from any_bytes([regrouped()])


def undecided_input(plan: Plan, values: list[float], rest: float | None) -> bytearray:
    """Returns an input in which every reduced row has the same values, scattered among a filler."""
    desc = plan.inputs["InputTensor"]
    (axis,) = plan.attributes.Axes
    buffer = bytearray(desc.total_size_in_bytes)
    rows = np.moveaxis(desc.view(buffer), axis, -1)
    rows[...] = -math.log(desc.sizes[axis]) if rest is None else rest
    rows[..., 5 : 5 + len(values)] = values
    return buffer


def regrouped() -> Plan:
    """Returns a graph whose second step reads the gaps between the elements of the first step's output."""
    packed, wide = ({"DataType": "FLOAT32", "Sizes": [5, 7], "Strides": steps} for steps in ([7, 1], [16, 2]))
    every = {"DataType": "FLOAT32", "Sizes": [77]}
    nodes = {
        "root": {
            "type": "ELEMENT_WISE_SQRT",
            "desc": {"InputTensor": packed, "OutputTensor": wide},
            "inputs": {"InputTensor": "input:x"},
        },
        "all": {"type": "ELEMENT_WISE_ABS", "desc": {"InputTensor": every}, "inputs": {"InputTensor": "root"}},
    }
    return check_graph({"nodes": nodes, "outputs": {"y": "all"}})
