"""Plans and difficult inputs for testing the values of element-wise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.check import Plan, check
from opwire.operators import OPERATORS
from opwire.tensor import Array, DataType
from opwire_service.devices.base import Device
from tests.support.execution import never_stop

ATTRIBUTES: dict[str, Any] = {
    "Alpha": 1.5,
    "Beta": -0.3,
    "Gamma": 2,
    "Bias": 0.5,
    "Threshold": 0.5,
    "Steepness": 2,
    "SigmoidInputScale": 3,
    "Exponent": 0.7,
    "Min": -1,
    "Max": 3,
    "Scale": 2,
    "RoundingMode": "TOWARD_INFINITY",
    "InfinityMode": "EITHER",
    "MinMaxDataType": "FLOAT32",
}

FORMULAS = tuple(name for name, operator in OPERATORS.items() if operator.formula is not None)

SHRINKS = (
    (0.5, -2.5),
    (-0.5, 2.5),
    (300, 0),
    (1e-30, 0),
    (-3e9, -np.inf),
    (np.inf, 3),
    (np.nan, 1),
    (1, np.nan),
    (1, np.inf),
)
"""A ``Bias`` and a ``Threshold`` each, for integers of up to 32 bits."""


def integers(data_type: DataType, count: int) -> Array:
    """Returns drawn integers of a type, and the first and last ones."""
    info = np.iinfo(data_type.dtype)
    drawn = np.random.default_rng(3).integers(info.min, info.max, count, data_type.dtype, endpoint=True)
    edges = [info.min, info.min + 1, info.max - 1, info.max, *range(max(info.min, -4), 5)]
    return np.concatenate([np.array(edges, data_type.dtype), drawn])


_SMALL = (0, -0.0, 1, -1, 0.5, -0.5, 2, -3, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38)
_MORE = (1 + 2**-23, 1 - 2**-24, 1e10, -1e10, 100.5, -100.5, 88.72284, -87.33655, -103.97208, 1e-8, 16777217, -33.3)

EDGES = (*_SMALL, np.inf, -np.inf, np.nan, *_MORE)
"""Values at which functions change their behavior."""

_ANGLES = (3.1415927, 6.2831855, 1.5707964, 355.0, 710.0, 51471.855, 16367173.0, 4.9e33, 2.0**127, 1.0e22, 5.3e29)
_NEAR = (8.5e-5, 0.00024414062, 1.9999999, 0.99999994, 1.0000001, 2.7182817, 0.6931472, 9.010913, 0.5493061)

HARD = (*_ANGLES, *_NEAR)
"""Values near multiples of pi, far from zero, and near zeros of functions."""


def unary(type_of: DataType) -> list[str]:
    """Returns the operators with a single input that take a data type."""
    return [
        name
        for name in FORMULAS
        if len(OPERATORS[name].members.inputs) == 1
        and name != "VALUE_SCALE_2D"
        and type_of in OPERATORS[name].support.rows({})[0].tensors["InputTensor"].data_types
    ]


def takes_scale(name: str) -> bool:
    """Whether an operator has a ScaleBias."""
    return any(member.name == "ScaleBias" for member in OPERATORS[name].members.attributes)


def plan_of(name: str, arrays: dict[str, Array], **attributes: Any) -> Plan:
    """Returns a plan for arrays with their actual strides; missing attributes come from ``ATTRIBUTES``."""
    members = OPERATORS[name].members
    chosen = {m.name: ATTRIBUTES[m.name] for m in members.attributes if m.name in ATTRIBUTES}
    tensors = {}
    for key, array in arrays.items():
        steps = [step // array.itemsize for step in array.strides]
        tensors[key] = {"DataType": DataType.of(array.dtype).name, "Sizes": list(array.shape), "Strides": steps}
    if "MinMaxDataType" in chosen:
        chosen["MinMaxDataType"] = tensors["InputTensor"]["DataType"]
    return check({"type": name, "desc": {**chosen, **tensors, **attributes}})


def answer(device: Device, plan: Plan, arrays: dict[str, Array], target: Array | None = None) -> Array:
    """Runs a plan and returns its output, written to ``target`` if given."""
    ((name, desc),) = plan.outputs.items()
    output = np.empty(desc.sizes, desc.data_type.dtype) if target is None else target
    device.run(plan, arrays, {name: output}, never_stop)
    return output


def drawn_floats(count: int, seed: int = 0) -> Array:
    """Returns the edge cases and hard values, then FLOAT32 values: half of them random bits, half of ordinary size."""
    draw = np.random.default_rng(seed)
    any_bits = draw.integers(0, 2**32, count // 2, np.uint32).view(np.float32)
    usual = draw.standard_normal(count - count // 2).astype(np.float32) * np.float32(8)
    both = np.array([*EDGES, *HARD], np.float32)
    return np.concatenate([both, -both, any_bits, usual])[:count]
