"""Elementwise operators, packed, transposed and with a broadcast input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Function, Library, Onnx, Tensor, below, functional, jnp, normal, positive, torch

SIZES = {"4KB": 1 << 12, "256KB": 1 << 18, "16MB": 1 << 24, "64MB": 1 << 26}

_ALL = ("float32", "float16", "int32", "uint8")
_INTEGERS = ("int32", "uint8")
_FLOATS = ("float32", "float16")

ARITHMETIC, FUNCTIONS, CHAINS = "arithmetic", "transcendental", "chains of three"

_aten, _nn = Library("torch.ops.aten"), Library("jax.nn")


@dataclass(frozen=True, slots=True)
class _Row:
    """An operator and its equivalents.

    Attributes:
        group, name: identify it.
        torch, numpy, jax: functions of the inputs; those of NumPy and PyTorch take ``out`` if it ``writes``.
        onnx: the operator of ONNX.
        types: the data types on the CPU; on a GPU, both floats.
        fields: attributes of the desc.
        devices: where it is measured.
        operator: the operator, if it is not ``name``.
    """

    group: str
    name: str
    torch: Function
    numpy: Function | None = None
    jax: Function | None = None
    onnx: str = ""
    types: tuple[str, ...] = _FLOATS
    fields: Mapping[str, Any] = field(default_factory=dict)
    writes: bool = True
    devices: tuple[str, ...] = ("cpu", "cuda")
    operator: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        name = self.operator or self.name
        if name == "ELEMENT_WISE_POW":
            return "InputTensor", "ExponentTensor"
        return ("ATensor", "BTensor") if name.removeprefix("ELEMENT_WISE_") in _PAIRS else ("InputTensor",)


_PAIRS = ("ADD", "ADD1", "MULTIPLY", "DIVIDE", "MAX", "LOGICAL_GREATER_THAN", "BIT_AND")


def _named(group: str, name: str, peers: tuple[str, str, str, str], **other: Any) -> _Row:
    """Returns an operator, given its names in PyTorch, NumPy, JAX and ONNX."""
    of_torch, numpy, jax, onnx = peers
    return _Row(
        group,
        name,
        lambda *inputs, out: getattr(torch, of_torch)(*inputs, out=out),
        getattr(np, numpy) if numpy else None,
        (lambda *inputs: getattr(jnp, jax)(*inputs)) if jax else None,
        onnx,
        **other,
    )


def _function(name: str, numpy: str = "", jax: str = "", onnx: str = "") -> _Row:
    """Returns a function with the same name in PyTorch, on GPUs alone if the others do not have it."""
    plain = name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_").lower()
    devices = ("cpu", "cuda") if onnx else ("cuda",)
    return _named(FUNCTIONS, name, (plain, numpy, jax, onnx), devices=devices)


def _of_aten(group: str, name: str, function: Callable[[], Function], *given: float, **other: Any) -> _Row:
    """Returns an activation of PyTorch that writes to an output."""
    return _Row(group, name, lambda x, out: function()(x, *given, out=out), **other)


def _alone(group: str, name: str, operator: str, function: Function, fields: Mapping[str, Any]) -> _Row:
    """Returns what is measured on GPUs alone, in the usual form of PyTorch."""
    return _Row(group, name, function, fields=fields, writes=False, devices=("cuda",), operator=operator)


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, x.dtype.type(0), out=out)


def _scaled(scale: float, bias: float) -> dict[str, Any]:
    return {"ScaleBias": {"Scale": scale, "Bias": bias}}


def _fused(activation: str) -> dict[str, Any]:
    return {"FusedActivation": {"Type": f"ACTIVATION_{activation}", "Desc": {}}}


_ROWS = (
    _named(ARITHMETIC, "ELEMENT_WISE_ADD", ("add", "add", "add", "Add"), types=_ALL),
    _named(ARITHMETIC, "ELEMENT_WISE_MULTIPLY", ("mul", "multiply", "multiply", "Mul"), types=_ALL),
    _named(ARITHMETIC, "ELEMENT_WISE_DIVIDE", ("div", "true_divide", "true_divide", "Div")),
    _named(ARITHMETIC, "ELEMENT_WISE_MAX", ("maximum", "maximum", "maximum", "Max"), types=_ALL),
    _named(
        ARITHMETIC,
        "ELEMENT_WISE_LOGICAL_GREATER_THAN",
        ("gt", "greater", "greater", "Greater"),
        types=_ALL,
        devices=("cpu",),
    ),
    _named(
        ARITHMETIC,
        "ELEMENT_WISE_BIT_AND",
        ("bitwise_and", "bitwise_and", "bitwise_and", "BitwiseAnd"),
        types=_INTEGERS,
        devices=("cpu",),
    ),
    _named(ARITHMETIC, "ELEMENT_WISE_ABS", ("abs", "abs", "abs", "Abs")),
    _named(ARITHMETIC, "ELEMENT_WISE_SQRT", ("sqrt", "sqrt", "sqrt", "Sqrt")),
    _of_aten(
        ARITHMETIC, "ACTIVATION_RELU", lambda: _aten.relu.out, numpy=_relu, jax=lambda x: _nn.relu(x), onnx="Relu"
    ),
    _alone(ARITHMETIC, "ADD1 and RELU", "ELEMENT_WISE_ADD1", lambda a, b: functional.relu(a + b), _fused("RELU")),
    _alone(FUNCTIONS, "ADD1 and GELU", "ELEMENT_WISE_ADD1", lambda a, b: functional.gelu(a + b), _fused("GELU")),
    _alone(ARITHMETIC, "IDENTITY", "ELEMENT_WISE_IDENTITY", lambda x: x.clone(), {}),
    _alone(ARITHMETIC, "scaled IDENTITY", "ELEMENT_WISE_IDENTITY", lambda x: x * 0.7 + 0.1, _scaled(0.7, 0.1)),
    _alone(ARITHMETIC, "CLIP", "ELEMENT_WISE_CLIP", lambda x: x.clamp(-0.5, 2), {"Min": -0.5, "Max": 2}),
    _alone(
        ARITHMETIC, "LEAKY_RELU", "ACTIVATION_LEAKY_RELU", lambda x: functional.leaky_relu(x, 0.01), {"Alpha": 0.01}
    ),
    _function("ELEMENT_WISE_EXP", "exp", "exp", "Exp"),
    _function("ELEMENT_WISE_LOG", "log", "log", "Log"),
    _function("ELEMENT_WISE_SIN", "sin", "sin", "Sin"),
    _function("ELEMENT_WISE_TANH", "tanh", "tanh", "Tanh"),
    _Row(FUNCTIONS, "ELEMENT_WISE_ERF", lambda x, out: torch.erf(x, out=out), onnx="Erf"),
    *(_function(f"ELEMENT_WISE_{name}") for name in ("COS", "TAN", "ASIN", "ATAN", "SINH", "COSH")),
    _named(FUNCTIONS, "ELEMENT_WISE_POW", ("pow", "power", "power", "Pow")),
    _Row(
        FUNCTIONS,
        "ACTIVATION_SIGMOID",
        lambda x, out: torch.sigmoid(x, out=out),
        jax=lambda x: _nn.sigmoid(x),
        onnx="Sigmoid",
    ),
    _of_aten(FUNCTIONS, "ACTIVATION_GELU", lambda: _aten.gelu.out, onnx="Gelu"),
    _alone(FUNCTIONS, "CONSTANT_POW", "ELEMENT_WISE_CONSTANT_POW", lambda x: x**2.5, {"Exponent": 2.5}),
    _alone(FUNCTIONS, "SOFTPLUS", "ACTIVATION_SOFTPLUS", lambda x: functional.softplus(x), {"Steepness": 1}),
    _alone(FUNCTIONS, "ELU", "ACTIVATION_ELU", lambda x: functional.elu(x), {"Alpha": 1}),
    _alone(
        FUNCTIONS,
        "HARD_SWISH",
        "ACTIVATION_HARD_SWISH",
        lambda x: functional.hardswish(x),
        {"Alpha": 1 / 6, "Beta": 0.5},
    ),
    *(
        _Row(
            CHAINS,
            f"ELEMENT_WISE_{name}",
            lambda x, name=name: getattr(torch, name.lower())(x * 0.5 + 0.25),
            types=("float32",),
            fields=_scaled(0.5, 0.25),
            writes=False,
            devices=("cpu",),
        )
        for name in ("EXP", "TANH", "SQRT", "ABS", "ERF")
    ),
)

_AXES: Mapping[str, tuple[int, ...]] = {"packed": (), "transposed": (), "row": (0,), "column": (1,)}
"""The layouts of the last input on the CPU, with the axes along which it repeats."""


def _cell(row: _Row, dtype: str, sizes: tuple[int, ...], layout: str, repeated: tuple[int, ...], size: str) -> Cell:
    name = row.operator or row.name
    draw = below(1, 100) if dtype in _INTEGERS else positive if name.endswith(("LOG", "SQRT", "POW")) else normal
    order = tuple(range(len(sizes)))[::-1] if layout == "transposed" else ()
    tensors = [Tensor(sizes, dtype, draw) for _ in row.inputs[:-1]]
    tensors.append(Tensor(sizes, dtype, draw, order, repeated))
    is_logical = "LOGICAL" in name
    logical = (
        {"OutputTensor": {"DataType": "UINT8", "Sizes": list(sizes)}} if is_logical else {}
    )  # like other libraries
    return Cell(
        group=row.group,
        name=row.name,
        operator=name,
        inputs=dict(zip(row.inputs, tensors, strict=True)),
        fields={**row.fields, **logical},
        type=dtype.upper(),
        layout=layout,
        size=size,
        numpy=row.numpy,
        torch=row.torch,
        jax=row.jax,
        onnx=Onnx(row.onnx, outputs=("bool" if is_logical else dtype,)) if row.onnx else None,
        writes=row.writes,
    )


def cpu() -> Iterator[Cell]:
    for row in _ROWS:
        if "cpu" not in row.devices:
            continue
        for dtype in row.types:
            for layout, repeated in _AXES.items():
                if len(row.inputs) < 2 and (repeated or (row.group == CHAINS and layout != "packed")):
                    continue
                for size, count in SIZES.items():
                    elements = count // np.dtype(dtype).itemsize
                    rows = min(1024, elements // 64)
                    yield _cell(row, dtype, (rows, elements // rows), layout, repeated, size)


def cuda() -> Iterator[Cell]:
    for dtype, scale in (("float32", 1), ("float16", 2)):
        sizes = (64 * scale, 1024, 1024)
        for row in _ROWS:
            if "cuda" in row.devices:
                yield _cell(row, dtype, sizes, "packed", (), "256MB")
                if row.name in ("ELEMENT_WISE_ADD", "ADD1 and GELU"):
                    for axis in range(3):
                        yield _cell(row, dtype, sizes, f"axis {axis}", (axis,), "256MB")
