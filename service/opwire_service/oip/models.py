"""What the protocol says of models: metadata, configuration and the repository's index, made from the declarations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from opwire.describe import RowInfo, describe
from opwire.errors import NotFoundError, ProblemCode
from opwire.level import HIGHEST, FeatureLevel
from opwire.operator import ArrayField, CountField, EnumField, Operator, Role, TensorField
from opwire.operators import CATALOG, OPERATORS
from opwire.tensor import DataType

from .datatypes import NAMES

EXTENSIONS = (
    "binary_tensor_data",
    "model_configuration",
    "model_repository",
    "parameters",
    "schedule_policy",
    "statistics",
)

PLATFORM = "opwire_directml"


@dataclass(frozen=True, slots=True)
class Model:
    """An operator at a feature level."""

    operator: Operator[Any]
    level: FeatureLevel

    @property
    def version(self) -> str:
        """The level as the protocol writes versions: the digits of its hexadecimal value."""
        return f"{self.level.value:x}"


def levels_of(operator: Operator[Any]) -> list[FeatureLevel]:
    """The levels that have an operator, lowest first."""
    return [level for level in FeatureLevel if level >= CATALOG[operator.name].introduced]


def find_model(name: str, given: str | None) -> Model:
    """The model of a name and a version; without a version that of the highest level.

    Raises:
        NotFoundError: there is none.
    """
    operator = OPERATORS.get(name)
    if operator is None:
        names = ", ".join(OPERATORS)
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, f"there is no model {name[:100]!r}; there are {names}")
    if given is None:
        return Model(operator, HIGHEST)
    for level in levels_of(operator):
        if given == f"{level.value:x}":
            return Model(operator, level)
    versions = ", ".join(f"{level.value:x}" for level in levels_of(operator))
    raise NotFoundError(ProblemCode.NOT_FOUND, f"{name} has no version {given[:20]!r}; its versions are {versions}")


def server_metadata() -> dict[str, object]:
    """The answer to ``GET /v2``."""
    return {"name": "opwire", "version": version("opwire"), "extensions": list(EXTENSIONS)}


def metadata(model: Model) -> dict[str, object]:
    """The answer to ``GET /v2/models/NAME``: tensors of any sizes, and what each may be at this level."""
    operator = model.operator
    return {
        "name": operator.name,
        "versions": [f"{level.value:x}" for level in levels_of(operator)],
        "platform": PLATFORM,
        "inputs": [_tensor(model, member) for member in operator.inputs],
        "outputs": [_tensor(model, member) for member in _outputs(operator)],
        "parameters": {"attributes": attributes(operator), "support": _rows_at(model)},
    }


def config(model: Model) -> dict[str, object]:
    """The answer to ``GET /v2/models/NAME/config``, in the protocol buffer JSON of Triton."""
    operator = model.operator

    def tensor(member: TensorField) -> dict[str, object]:
        shape = _tensor(model, member)
        return {
            "name": member.name,
            "data_type": f"TYPE_{shape['datatype']}",
            "dims": shape["shape"],
            "optional": False,
            "is_shape_tensor": False,
        }

    return {
        "name": operator.name,
        "platform": PLATFORM,
        "backend": "opwire",
        "max_batch_size": 0,
        "version_policy": {"all": {}},
        "input": [tensor(member) for member in operator.inputs],
        "output": [tensor(member) for member in _outputs(operator)],
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": False},
        "parameters": {name: {"string_value": text} for name, text in attributes(operator).items()},
    }


def index() -> list[dict[str, object]]:
    """The answer to ``POST /v2/repository/index``."""
    return [
        {"name": operator.name, "version": f"{level.value:x}", "state": "READY", "reason": ""}
        for operator in OPERATORS.values()
        for level in levels_of(operator)
    ]


def attributes(operator: Operator[Any]) -> dict[str, str]:
    """What the request parameters of an operator are called, and what each takes."""
    described = {}
    for member in operator.fields:
        if isinstance(member, EnumField):
            described[member.name] = " | ".join(row.name for row in member.type)
        elif isinstance(member, ArrayField):
            described[member.name] = f'integers from {member.least}, as "[1, 2]" or "1,2" or one integer'
        elif isinstance(member, CountField):
            described[member.name] = f"the count of {' and of '.join(member.counts)}; may be left out"
        elif member.role is not Role.INPUT:
            described[member.name] = "a tensor desc as JSON text; may be left out"
    return described


def _outputs(operator: Operator[Any]) -> Iterable[TensorField]:
    return operator.tensor_fields(Role.OUTPUT, Role.OPTIONAL_OUTPUT)


def _rows_at(model: Model) -> list[RowInfo]:
    """The support rows that hold at the model's level: one, or one for each group of functions."""
    rows = describe(CATALOG[model.operator.name])["support"]
    known = [row for row in rows if FeatureLevel.parse(row["feature_level"]) <= model.level]
    return [row for i, row in enumerate(known) if all(row["when"] != other["when"] for other in known[:i])]


def _tensor(model: Model, member: TensorField) -> dict[str, Any]:
    """A tensor with the first data type and the least rank of its row: the protocol knows one of each."""
    limits = _rows_at(model)[0]["tensors"][member.name]
    preferred = DataType[limits["data_types"][0]]
    if member.role is not Role.INPUT and "UINT32" in limits["data_types"] and not preferred.is_float:
        preferred = DataType.UINT32
    return {"name": member.name, "datatype": NAMES[preferred], "shape": [-1] * limits["ranks"][0]}
