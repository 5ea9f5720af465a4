"""The functions whose accuracy is measured: in mpmath, and in other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import mpmath
import numpy as np

from opwire.tensor import Array

from ..cell import Function as Call
from ..cell import Library, functional, jnp, torch

_nn, _special = Library("jax.nn"), Library("jax.scipy.special")


class Function(NamedTuple):
    """An elementwise function.

    Attributes:
        name: name of the operator.
        exact: computes it on mpmath numbers.
        inside: returns a mask of the elements in its domain.
        numpy, torch, jax: the functions of the libraries.
        onnx: name of the ONNX operator.
        fields: attributes of the desc.
        inputs: number of inputs.
    """

    name: str
    exact: Callable[..., Any]
    inside: Callable[..., Array] = np.isfinite
    numpy: Call | None = None
    torch: Call | None = None
    jax: Call | None = None
    onnx: str = ""
    fields: Mapping[str, Any] = {}
    inputs: int = 1


def _up_to_1(x: Array) -> Array:
    return np.abs(x) <= 1


def _named(name: str, numpy: Any, inside: Callable[[Array], Array] = np.isfinite) -> Function:
    """Returns a function with similar names in all libraries."""
    return Function(
        f"ELEMENT_WISE_{name}",
        getattr(mpmath, name.lower()),
        inside,
        numpy,
        lambda x: getattr(torch, name.lower())(x),
        lambda x: getattr(jnp, numpy.__name__)(x),
        name.title(),
    )


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
    Function("ELEMENT_WISE_ERF", mpmath.erf, torch=lambda x: torch.erf(x), jax=lambda x: _special.erf(x), onnx="Erf"),
    Function(
        "ELEMENT_WISE_POW",
        mpmath.power,
        lambda x, y: np.isfinite(x) & np.isfinite(y) & (x > 0),
        np.power,
        lambda x, y: torch.pow(x, y),
        lambda x, y: jnp.power(x, y),
        "Pow",
        inputs=2,
    ),
    Function(
        "ELEMENT_WISE_DIVIDE",
        mpmath.fdiv,
        lambda x, y: np.isfinite(x) & np.isfinite(y) & (y != 0),
        np.divide,
        lambda x, y: torch.div(x, y),
        lambda x, y: jnp.divide(x, y),
        "Div",
        inputs=2,
    ),
    Function(
        "ACTIVATION_SIGMOID",
        _sigmoid,
        torch=lambda x: torch.sigmoid(x),
        jax=lambda x: _nn.sigmoid(x),
        onnx="Sigmoid",
    ),
    Function("ACTIVATION_GELU", _gelu, torch=lambda x: functional.gelu(x), onnx="Gelu"),
    Function(
        "ACTIVATION_SOFTPLUS",
        _softplus,
        torch=lambda x: functional.softplus(x),
        jax=lambda x: _nn.softplus(x),
        onnx="Softplus",
        fields={"Steepness": 1},
    ),
    Function(
        "ACTIVATION_ELU",
        _elu,
        torch=lambda x: functional.elu(x),
        jax=lambda x: _nn.elu(x),
        onnx="Elu",
        fields={"Alpha": 1},
    ),
    Function(
        "ACTIVATION_SOFTSIGN",
        lambda x: x / (1 + abs(x)),
        torch=lambda x: functional.softsign(x),
        jax=lambda x: _nn.soft_sign(x),
        onnx="Softsign",
    ),
)
