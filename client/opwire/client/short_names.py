"""The short names of methods: ``relu`` for ``activation_relu``, and the names of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from keyword import iskeyword

from ..schema import CATALOG

_LEFT_OUT = ("ELEMENT_WISE_", "ACTIVATION_")
"""Beginnings of operator types that may be left out; of two equal names, the first counts."""

_OF_OTHERS = {
    "attention": "MULTIHEAD_ATTENTION",
    "avg_pool": "AVERAGE_POOLING",
    "batch_norm": "BATCH_NORMALIZATION",
    "concat": "JOIN",
    "conv": "CONVOLUTION",
    "conv2d": "CONVOLUTION",
    "cumprod": "CUMULATIVE_PRODUCT",
    "cumsum": "CUMULATIVE_SUMMATION",
    "div": "ELEMENT_WISE_DIVIDE",
    "equal": "ELEMENT_WISE_LOGICAL_EQUALS",
    "full": "FILL_VALUE_CONSTANT",
    "greater": "ELEMENT_WISE_LOGICAL_GREATER_THAN",
    "greater_equal": "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL",
    "isinf": "ELEMENT_WISE_IS_INFINITY",
    "isnan": "ELEMENT_WISE_IS_NAN",
    "less": "ELEMENT_WISE_LOGICAL_LESS_THAN",
    "less_equal": "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL",
    "matmul": "GEMM",
    "maximum": "ELEMENT_WISE_MAX",
    "minimum": "ELEMENT_WISE_MIN",
    "mul": "ELEMENT_WISE_MULTIPLY",
    "neg": "ELEMENT_WISE_NEGATE",
    "pad": "PADDING",
    "prelu": "ACTIVATION_PARAMETERIZED_RELU",
    "sub": "ELEMENT_WISE_SUBTRACT",
    "topk": "TOP_K",
    "where": "ELEMENT_WISE_IF",
}
"""What NumPy, PyTorch, ONNX or WebNN call an operator type."""


def _shortened() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for beginning in _LEFT_OUT:
        for name in CATALOG:
            short = name.removeprefix(beginning).lower()
            if short != name.lower() and not iskeyword(short):
                found.setdefault(short, name)
    return {short: name for short, name in {**found, **_OF_OTHERS}.items() if short.upper() not in CATALOG}


SHORT_NAMES: Mapping[str, str] = _shortened()
"""The operator types by the short names of their methods."""
