"""The third-party cases: published examples and test suites of other projects, with their expected bytes.

The file is not part of the project; the tests use it if it is inside or next to the repository.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.level import FeatureLevel
from opwire.tensor import Array, DataType
from opwire_service.kernels.executable import EXECUTABLE
from tests.support.paths import ROOT

PLACES = (ROOT / "conformance", ROOT.parent / "shared" / "conformance")

ABSENT = "conformance/cases.jsonl.gz is neither in the repository nor in ../shared"


@dataclass(frozen=True)
class ThirdPartyCase:
    """A case for one operator; a case that is valid for several operators appears once for each.

    Attributes:
        id: Id of the case, followed by the operator if the case was published for another one.
        operator: The operator as JSON, ``{"type", "desc"}``, with every output declared.
        own: Whether the lowest level is stated for this operator.
        lowest: The stated lowest level.
        inputs: The inputs, packed.
        outputs: The expected outputs, packed.
    """

    id: str
    operator: dict[str, Any]
    own: bool
    lowest: FeatureLevel
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    @property
    def executable(self) -> bool:
        return self.operator["type"] in EXECUTABLE


def load() -> list[ThirdPartyCase]:
    """Returns every case, or none if the file is absent."""
    found = next((place / "cases.jsonl.gz" for place in PLACES if (place / "cases.jsonl.gz").is_file()), None)
    if found is None:
        return []
    with gzip.open(found, "rt", encoding="utf-8") as lines:
        return [case for line in lines for case in _read(json.loads(line))]


def _read(record: dict[str, Any]) -> list[ThirdPartyCase]:
    # "MAX_POOLING2 (Dilations all 1)" starts with the operator's name; the rest says how to translate the desc.
    names = [record["dml_operator"], *(text.split()[0] for text in record["also_valid_as"])]
    return [_case(record, name, own=i == 0) for i, name in enumerate(names)]


def _case(record: dict[str, Any], name: str, *, own: bool) -> ThirdPartyCase:
    attributes = dict(record["attributes"])
    if name in ("MAX_POOLING2", "AVERAGE_POOLING1"):
        attributes.setdefault("Dilations", [1] * len(attributes["WindowSize"]))
    if "WindowSize" in attributes:
        attributes["DimensionCount"] = len(attributes["WindowSize"])
    else:
        attributes["AxisCount"] = len(attributes["Axes"])
    tensors = {
        field: {"DataType": tensor["dtype"], "Sizes": tensor["sizes"]}
        for field, tensor in (record["inputs"] | record["outputs"]).items()
    }
    return ThirdPartyCase(
        id=record["id"] if own else f"{record['id']} as {name}",
        operator={"type": name, "desc": {**tensors, **attributes}},
        own=own,
        lowest=FeatureLevel.parse(record["dml_support"]["min_feature_level"]),
        inputs={field: _array(tensor) for field, tensor in record["inputs"].items()},
        outputs={field: _array(tensor) for field, tensor in record["outputs"].items()},
    )


def _array(tensor: dict[str, Any]) -> Array:
    data = base64.b64decode(tensor["data_b64"], validate=True)
    return np.frombuffer(data, DataType[tensor["dtype"]].dtype).reshape(tensor["sizes"])
