"""The functions of the accuracy benchmark: their mpmath versions and their names in other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mpmath
import numpy as np

from opwire.tensor import Array


class Function(NamedTuple):
    """An elementwise function.

    Attributes:
        name: name of the operator.
        exact: computes it on mpmath numbers.
        inside: returns a mask of the elements in its domain.
        numpy: the NumPy function.
        torch: its name in PyTorch or ``torch.nn.functional``.
        jax: its name in ``jax.numpy``, ``jax.nn`` or ``jax.scipy.special``.
        onnx: name of the ONNX operator.
        attributes: attributes of the desc.
        inputs: number of inputs.
    """

    name: str
    exact: Callable[..., Any]
    inside: Callable[..., Array] = np.isfinite
    numpy: Callable[..., Array] | None = None
    torch: str = ""
    jax: str = ""
    onnx: str = ""
    attributes: Mapping[str, Any] = {}
    inputs: int = 1


def _up_to_1(x: Array) -> Array:
    return np.abs(x) <= 1


def _named(name: str, numpy: Any, inside: Callable[[Array], Array] = np.isfinite) -> Function:
    """Returns a function with similar names in all libraries."""
    exact = getattr(mpmath, name.lower())
    title = name.title()
    return Function(f"ELEMENT_WISE_{name}", exact, inside, numpy, name.lower(), numpy.__name__, title)


def _gelu(x: Any) -> Any:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return (x if x > 0 else 0) + mpmath.log1p(mpmath.exp(-abs(x)))


def _elu(x: Any) -> Any:
    return x if x >= 0 else mpmath.expm1(x)


FUNCTIONS = (
    _named("EXP", np.exp),
    _named("LOG", np.log, lambda x: np.isfinite(x) & (x > 0)),
    _named("SIN", np.sin),
    _named("COS", np.cos),
    _named("TAN", np.tan),
    _named("ASIN", np.arcsin, _up_to_1),
    _named("ACOS", np.arccos, _up_to_1),
    _named("ATAN", np.arctan),
    _named("SINH", np.sinh),
    _named("COSH", np.cosh),
    _named("TANH", np.tanh),
    _named("ASINH", np.arcsinh),
    _named("ACOSH", np.arccosh, lambda x: np.isfinite(x) & (x >= 1)),
    _named("ATANH", np.arctanh, lambda x: np.abs(x) < 1),
    _named("SQRT", np.sqrt, lambda x: np.isfinite(x) & (x >= 0)),
    Function("ELEMENT_WISE_ERF", mpmath.erf, torch="erf", jax="erf", onnx="Erf"),
    Function(
        "ELEMENT_WISE_POW",
        mpmath.power,
        lambda x, y: np.isfinite(x) & np.isfinite(y) & (x > 0),
        np.power,
        "pow",
        "power",
        "Pow",
        inputs=2,
    ),
    Function(
        "ELEMENT_WISE_DIVIDE",
        mpmath.fdiv,
        lambda x, y: np.isfinite(x) & np.isfinite(y) & (y != 0),
        np.divide,
        "div",
        "divide",
        "Div",
        inputs=2,
    ),
    Function("ACTIVATION_SIGMOID", _sigmoid, torch="sigmoid", jax="sigmoid", onnx="Sigmoid"),
    Function("ACTIVATION_GELU", _gelu, torch="gelu", onnx="Gelu"),
    Function(
        "ACTIVATION_SOFTPLUS", _softplus, torch="softplus", jax="softplus", onnx="Softplus", attributes={"Steepness": 1}
    ),
    Function("ACTIVATION_ELU", _elu, torch="elu", jax="elu", onnx="Elu", attributes={"Alpha": 1}),
    Function("ACTIVATION_SOFTSIGN", lambda x: x / (1 + abs(x)), torch="softsign", jax="soft_sign", onnx="Softsign"),
)
