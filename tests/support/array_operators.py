"""Operators with array members, declared for tests of the code that transports them; no device runs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.level import HIGHEST
from opwire.operator import Attributes, Operator, declare
from opwire.rules import Undecided
from opwire.tensor import Array, BufferTensorDesc, DataType


def _no_work(attributes: Any, tensors: Any) -> int:
    return 0


JOIN: Operator[Any] = declare("JOIN", outputs={"OutputTensor": Undecided()}, work=_no_work)
SPLIT: Operator[Any] = declare("SPLIT", outputs={"OutputTensors": Undecided()}, work=_no_work)


def desc_of(*sizes: int) -> BufferTensorDesc:
    return BufferTensorDesc(DataType.FLOAT32, sizes)


def join_plan(*lengths: int) -> Plan:
    """Returns a plan of JOIN for one-dimensional tensors."""
    inputs = {f"InputTensors[{i}]": desc_of(length) for i, length in enumerate(lengths)}
    outputs = {"OutputTensor": desc_of(sum(lengths))}
    return Plan(JOIN, HIGHEST, Attributes(Axis=0), inputs, outputs, 1)


def split_plan(*lengths: int) -> Plan:
    """Returns a plan of SPLIT for a one-dimensional tensor."""
    outputs = {f"OutputTensors[{i}]": desc_of(length) for i, length in enumerate(lengths)}
    return Plan(SPLIT, HIGHEST, Attributes(Axis=0), {"InputTensor": desc_of(sum(lengths))}, outputs, 1)


def counted(*lengths: int) -> list[Array]:
    """Returns arrays of the given lengths, each with different values."""
    return [np.arange(length, dtype=np.float32) + 100 * i for i, length in enumerate(lengths)]


def join_operator(*lengths: int) -> dict[str, Any]:
    tensors = [{"DataType": "FLOAT32", "Sizes": [length]} for length in lengths]
    return {"type": "JOIN", "desc": {"InputTensors": tensors, "OutputTensor": tensors[0], "Axis": 0}}
