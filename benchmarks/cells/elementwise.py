"""Elementwise operators, packed, transposed and with a broadcast input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opwire.tensor import Array

from ..cell import Cell, Function, Library, Onnx, Tensor, below, functional, named, normal, positive, torch
from .functions import FUNCTIONS

SIZES = {"4KB": 1 << 12, "256KB": 1 << 18, "16MB": 1 << 24, "64MB": 1 << 26}

_ALL = ("float32", "float16", "int32", "uint8")
_INTEGERS = ("int32", "uint8")
_FLOATS = ("float32", "float16")

ARITHMETIC, TRANSCENDENTAL, CHAINS = "arithmetic", "transcendental", "chains of three"

_aten = Library("torch.ops.aten")


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
    torch: Function | None
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


def _named(name: str, of_torch: str, numpy: str, onnx: str, **other: Any) -> _Row:
    """Returns an operator, given its names in PyTorch, in NumPy and JAX, and in ONNX."""
    peers = named(f"numpy.{numpy}"), named(f"jax.numpy.{numpy}"), onnx
    return _Row(ARITHMETIC, f"ELEMENT_WISE_{name}", named(f"torch.{of_torch}"), *peers, **other)


def _function(name: str, **other: Any) -> _Row:
    """Returns a function whose accuracy is measured, too."""
    (found,) = (each for each in FUNCTIONS if each.name == name)
    peers = named(found.torch), named(found.numpy), named(found.jax), found.onnx
    return _Row(TRANSCENDENTAL, name, *peers, **other)


def _alone(group: str, name: str, operator: str, function: Function, fields: Mapping[str, Any]) -> _Row:
    """Returns what is measured on GPUs alone, in the usual form of PyTorch."""
    return _Row(group, name, function, fields=fields, writes=False, devices=("cuda",), operator=operator)


def _relu(x: Array, out: Array) -> None:
    np.maximum(x, x.dtype.type(0), out=out)


def _scaled(scale: float, bias: float) -> dict[str, Any]:
    return {"ScaleBias": {"Scale": scale, "Bias": bias}}


def _fused(activation: str) -> dict[str, Any]:
    return {"FusedActivation": {"Type": f"ACTIVATION_{activation}", "Desc": {}}}


_ON_GPUS = ("COS", "TAN", "ASIN", "ATAN", "SINH", "COSH")

_ROWS = (
    _named("ADD", "add", "add", "Add", types=_ALL),
    _named("MULTIPLY", "mul", "multiply", "Mul", types=_ALL),
    _named("DIVIDE", "div", "true_divide", "Div"),
    _named("MAX", "maximum", "maximum", "Max", types=_ALL),
    _named("LOGICAL_GREATER_THAN", "gt", "greater", "Greater", types=_ALL, devices=("cpu",)),
    _named("BIT_AND", "bitwise_and", "bitwise_and", "BitwiseAnd", types=_INTEGERS, devices=("cpu",)),
    _named("ABS", "abs", "abs", "Abs"),
    _named("SQRT", "sqrt", "sqrt", "Sqrt"),
    _Row(ARITHMETIC, "ACTIVATION_RELU", lambda x, out: _aten.relu.out(x, out=out), _relu, named("jax.nn.relu"), "Relu"),
    _alone(ARITHMETIC, "ADD1 and RELU", "ELEMENT_WISE_ADD1", lambda a, b: functional.relu(a + b), _fused("RELU")),
    _alone(TRANSCENDENTAL, "ADD1 and GELU", "ELEMENT_WISE_ADD1", lambda a, b: functional.gelu(a + b), _fused("GELU")),
    _alone(ARITHMETIC, "IDENTITY", "ELEMENT_WISE_IDENTITY", lambda x: x.clone(), {}),
    _alone(ARITHMETIC, "scaled IDENTITY", "ELEMENT_WISE_IDENTITY", lambda x: x * 0.7 + 0.1, _scaled(0.7, 0.1)),
    _alone(ARITHMETIC, "CLIP", "ELEMENT_WISE_CLIP", lambda x: x.clamp(-0.5, 2), {"Min": -0.5, "Max": 2}),
    _alone(
        ARITHMETIC, "LEAKY_RELU", "ACTIVATION_LEAKY_RELU", lambda x: functional.leaky_relu(x, 0.01), {"Alpha": 0.01}
    ),
    *(_function(f"ELEMENT_WISE_{name}") for name in ("EXP", "LOG", "SIN", "TANH", "ERF")),
    *(_function(f"ELEMENT_WISE_{name}", devices=("cuda",)) for name in _ON_GPUS),
    _function("ELEMENT_WISE_POW"),
    _function("ACTIVATION_SIGMOID"),
    _Row(TRANSCENDENTAL, "ACTIVATION_GELU", lambda x, out: _aten.gelu.out(x, out=out), onnx="Gelu"),
    _alone(TRANSCENDENTAL, "CONSTANT_POW", "ELEMENT_WISE_CONSTANT_POW", lambda x: x**2.5, {"Exponent": 2.5}),
    _alone(TRANSCENDENTAL, "SOFTPLUS", "ACTIVATION_SOFTPLUS", lambda x: functional.softplus(x), {"Steepness": 1}),
    _alone(TRANSCENDENTAL, "ELU", "ACTIVATION_ELU", lambda x: functional.elu(x), {"Alpha": 1}),
    _alone(
        TRANSCENDENTAL,
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
    # Other libraries give bytes, too.
    logical = {"OutputTensor": {"DataType": "UINT8", "Sizes": list(sizes)}} if is_logical else {}
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
