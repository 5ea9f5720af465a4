"""The ONNX node tests as DirectML descs with inputs and expected outputs.

The files are not part of the project; the tests use them if they are inside or next to the repository.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from opwire.operators import OPERATORS
from opwire.tensor import Array, DataType
from tests.support.conformance import PLACES

ABSENT = "conformance/onnx.jsonl.gz is neither in the repository nor in ../shared"


def cases(name: str) -> list[dict[str, Any]]:
    """Returns a file's cases for declared operators, or none if the file is absent."""
    found = next((place / name for place in PLACES if (place / name).is_file()), None)
    if found is None:
        return []
    with gzip.open(found, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [record for record in records if kind(record) in OPERATORS]


def kind(record: dict[str, Any]) -> str:
    name: str = record["operator"]["type"]
    return name.removeprefix("DML_OPERATOR_")


def buffers(record: dict[str, Any]) -> dict[str, bytes]:
    """Returns the input buffers; tensors of arrays are named ``NAME[i]``."""
    return {name: base64.b64decode(tensor["data_b64"]) for name, tensor in _each(record["inputs"])}


def answers(record: dict[str, Any]) -> dict[str, Array]:
    """Returns the elements of the output buffers, in stored order."""
    return {
        name: np.frombuffer(base64.b64decode(tensor["data_b64"]), DataType[tensor["dtype"]].dtype)
        for name, tensor in _each(record["outputs"])
    }


def _each(tensors: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name if single else f"{name}[{i}]", tensor)
        for name, given in tensors.items()
        for single in [isinstance(given, dict)]
        for i, tensor in enumerate([given] if single else given)
    ]
