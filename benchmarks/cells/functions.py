"""The functions whose accuracy is measured: in mpmath, and in other libraries."""

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
        numpy, torch, jax: full names of the functions of the libraries.
        onnx: name of the ONNX operator.
        fields: attributes of the desc.
        inputs: number of inputs.
    """

    name: str
    exact: Callable[..., Any]
    inside: Callable[..., Array] = np.isfinite
    numpy: str = ""
    torch: str = ""
    jax: str = ""
    onnx: str = ""
    fields: Mapping[str, Any] = {}
    inputs: int = 1


def _up_to_1(x: Array) -> Array:
    return np.abs(x) <= 1


def _gelu(x: Any) -> Any:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return (x if x > 0 else 0) + mpmath.log1p(mpmath.exp(-abs(x)))


def _elu(x: Any) -> Any:
    return x if x >= 0 else mpmath.expm1(x)


def _usual(name: str, inside: Callable[[Array], Array] = np.isfinite, numpy: str = "") -> Function:
    """Returns a function that all libraries have; NumPy and JAX may name some differently."""
    plain = name.lower()
    of_numpy, exact = numpy or plain, getattr(mpmath, plain)
    return Function(
        f"ELEMENT_WISE_{name}",
        *(exact, inside, f"numpy.{of_numpy}", f"torch.{plain}", f"jax.numpy.{of_numpy}", name.title()),
    )


def _activation(name: str, exact: Callable[[Any], Any], torch: str, jax: str = "", **fields: float) -> Function:
    """Returns an activation, which NumPy does not have."""
    onnx = name.title()
    return Function(f"ACTIVATION_{name}", exact, torch=torch, jax=jax and f"jax.nn.{jax}", onnx=onnx, fields=fields)


def _pair(name: str, exact: Callable[..., Any], inside: Callable[..., Array], numpy: str, torch: str) -> Function:
    """Returns a function of two inputs, which ONNX abbreviates like PyTorch."""
    names = f"numpy.{numpy}", f"torch.{torch}", f"jax.numpy.{numpy}", torch.title()
    return Function(f"ELEMENT_WISE_{name}", exact, inside, *names, inputs=2)


_NN = "torch.nn.functional"

FUNCTIONS = (
    _usual("EXP"),
    _usual("LOG", lambda x: np.isfinite(x) & (x > 0)),
    _usual("SIN"),
    _usual("COS"),
    _usual("TAN"),
    _usual("ASIN", _up_to_1, "arcsin"),
    _usual("ACOS", _up_to_1, "arccos"),
    _usual("ATAN", numpy="arctan"),
    _usual("SINH"),
    _usual("COSH"),
    _usual("TANH"),
    _usual("ASINH", numpy="arcsinh"),
    _usual("ACOSH", lambda x: np.isfinite(x) & (x >= 1), "arccosh"),
    _usual("ATANH", lambda x: np.abs(x) < 1, "arctanh"),
    _usual("SQRT", lambda x: np.isfinite(x) & (x >= 0)),
    Function("ELEMENT_WISE_ERF", mpmath.erf, torch="torch.erf", jax="jax.scipy.special.erf", onnx="Erf"),
    _pair("POW", mpmath.power, lambda x, y: np.isfinite(x) & np.isfinite(y) & (x > 0), "power", "pow"),
    _pair("DIVIDE", mpmath.fdiv, lambda x, y: np.isfinite(x) & np.isfinite(y) & (y != 0), "divide", "div"),
    _activation("SIGMOID", _sigmoid, "torch.sigmoid", "sigmoid"),
    _activation("GELU", _gelu, f"{_NN}.gelu"),
    _activation("SOFTPLUS", _softplus, f"{_NN}.softplus", "softplus", Steepness=1),
    _activation("ELU", _elu, f"{_NN}.elu", "elu", Alpha=1),
    _activation("SOFTSIGN", lambda x: x / (1 + abs(x)), f"{_NN}.softsign", "soft_sign"),
)
