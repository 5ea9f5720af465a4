"""Models, and their metadata, configuration and index as generated from the operator declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import version as version_of
from typing import Any

from opwire.desc import show
from opwire.describe import RowInfo, describe
from opwire.errors import NotFoundError, ProblemCode
from opwire.fields import Member, Role, TensorMember
from opwire.level import HIGHEST, FeatureLevel
from opwire.operator import Operator
from opwire.schema import CATALOG, PREFIX
from opwire.tensor import DataType
from opwire.tensor_names import element

from ..engine.registered_graph import RegisteredGraph
from ..kernels.executable import EXECUTABLE
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


@dataclass(frozen=True, slots=True, eq=False)
class ServedModel:
    """A model: an operator at a feature level, or a registered graph.

    Attributes:
        name: name of the model.
        operator: operator that it runs.
        level: feature level that its requests are checked against.
        version: the level as a version of the protocol, which is its hexadecimal value.
        versions: all versions of the model.
        inputs, outputs: for each tensor by name, whether it is an array of tensors.
        optional: outputs that are only computed if they are requested.
        parameters: fields that are given as parameters, by name.
        graph: the registered graph, if the model is one.
    """

    name: str
    operator: Operator[Any]
    level: FeatureLevel
    version: str
    versions: tuple[str, ...]
    inputs: Mapping[str, bool]
    outputs: Mapping[str, bool]
    optional: tuple[str, ...]
    parameters: Mapping[str, Member]
    graph: RegisteredGraph | None = None


def _outputs(operator: Operator[Any]) -> tuple[TensorMember, ...]:
    return operator.members.outputs


def versions(name: str) -> tuple[str, ...]:
    """Returns the versions of an operator type's model, lowest first: its feature levels."""
    return tuple(version_at(level) for level in FeatureLevel if level >= CATALOG[name].introduced)


def version_at(level: FeatureLevel) -> str:
    """Returns a feature level as a version of the protocol."""
    return f"{level.value:x}"


@cache
def model_of(name: str, version: str) -> ServedModel:
    """Returns the model of an operator type, given by its name without the prefix, at one of its versions."""
    operator = EXECUTABLE[name]
    inputs = {member.name: member.is_array for member in operator.members.inputs}
    return ServedModel(
        operator.name,
        operator,
        FeatureLevel(int(version, 16)),
        version,
        versions(name),
        inputs,
        {member.name: member.is_array for member in _outputs(operator)},
        tuple(member.name for member in _outputs(operator) if member.role is Role.OPTIONAL_OUTPUT),
        {member.name: member for member in operator.members.every if member.name not in inputs},
    )


def models(names: Iterable[str] = EXECUTABLE) -> Iterator[ServedModel]:
    """Yields every version of the models of some operator types."""
    return (model_of(name, version) for name in names for version in versions(name))


def is_operator(name: str) -> bool:
    """Whether a name, with or without ``DML_OPERATOR_``, is that of an operator's model."""
    return name.removeprefix(PREFIX) in EXECUTABLE


def find_model(name: str, version: str | None) -> ServedModel:
    """Returns the model of an operator type, named with or without ``DML_OPERATOR_``.

    Args:
        name: name of the model.
        version: version of the model; None for the highest feature level.

    Raises:
        NotFoundError: there is no such model or version.
    """
    kind = name.removeprefix(PREFIX)
    if not is_operator(name):
        close = get_close_matches(kind, EXECUTABLE)
        instead = f"did you mean {' or '.join(close)}?" if close else "GET /v2/repository/index lists them"
        raise NotFoundError(ProblemCode.UNKNOWN_OPERATOR, f"there is no model {show(name)}; {instead}")
    known = versions(kind)
    wanted = version_at(HIGHEST) if version is None else version
    if wanted not in known:
        raise no_version(name, version, known)
    return model_of(kind, wanted)


def no_version(name: str, version: object, known: Iterable[str]) -> NotFoundError:
    """Returns the error for a version that a model does not have."""
    there = ", ".join(known)
    return NotFoundError(ProblemCode.NOT_FOUND, f"{name} has no version {show(version)}; its versions are {there}")


def server_metadata(*, shared_memory: bool) -> dict[str, object]:
    """Returns the response to ``GET /v2``.

    Args:
        shared_memory: whether shared memory regions may be registered.
    """
    extensions = [*EXTENSIONS, "system_shared_memory"] if shared_memory else list(EXTENSIONS)
    return {"name": "opwire", "version": version_of("opwire"), "extensions": extensions}


def metadata(model: ServedModel) -> dict[str, object]:
    """Returns the response to ``GET /v2/models/NAME``: the tensors, and which data types and ranks they support."""
    inputs, outputs = _tensors(model)
    support = [] if model.graph else _rows_at(model)
    return {
        "name": model.name,
        "versions": list(model.versions),
        "platform": PLATFORM,
        "inputs": inputs,
        "outputs": outputs,
        "parameters": {"attributes": attributes(model), "support": support},
    }


def config(model: ServedModel) -> dict[str, object]:
    """Returns the response to ``GET /v2/models/NAME/config``, in the JSON form of Triton's protocol buffer."""

    def described(tensor: Mapping[str, Any]) -> dict[str, object]:
        return {
            "name": tensor["name"],
            "data_type": f"TYPE_{tensor['datatype']}",
            "dims": tensor["shape"],
            "optional": False,
            "is_shape_tensor": False,
        }

    inputs, outputs = _tensors(model)
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "opwire",
        "max_batch_size": 0,
        "version_policy": {"all": {}},
        "input": [described(tensor) for tensor in inputs],
        "output": [described(tensor) for tensor in outputs],
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": False},
        "parameters": {name: {"string_value": text} for name, text in attributes(model).items()},
    }


def index(graphs: Iterable[ServedModel]) -> list[dict[str, object]]:
    """Returns the response to ``POST /v2/repository/index``.

    Args:
        graphs: models of the client's registered graphs.
    """
    every = [(name, version) for name in EXECUTABLE for version in versions(name)]
    every += [(model.name, model.version) for model in graphs]
    return [{"name": name, "version": version, "state": "READY", "reason": ""} for name, version in every]


def attributes(model: ServedModel) -> dict[str, str]:
    """Returns the request parameters of a model by name, with a description of their values."""
    return {name: member.hint() for name, member in model.parameters.items()}


def _rows_at(model: ServedModel) -> list[RowInfo]:
    """Returns the support rows that apply at the model's level: one, or one per group of functions."""
    rows = describe(CATALOG[model.operator.name])["support"]
    known = [row for row in rows if FeatureLevel.parse(row["feature_level"]) <= model.level]
    return [row for i, row in enumerate(known) if all(row["when"] != other["when"] for other in known[:i])]


def _tensors(model: ServedModel) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the inputs and outputs; those of a graph have fixed shapes."""
    if model.graph is None:
        members = (model.operator.members.inputs, _outputs(model.operator))
        inputs, outputs = ([_tensor(model, member) for member in each] for each in members)
        return inputs, outputs
    inputs, outputs = (
        [{"name": name, "datatype": NAMES[desc.data_type], "shape": list(desc.sizes)} for name, desc in descs.items()]
        for descs in (model.graph.inputs, model.graph.outputs)
    )
    return inputs, outputs


def _tensor(model: ServedModel, member: TensorMember) -> dict[str, Any]:
    """Describes a tensor by one data type and the lowest rank of its support row, as the protocol allows only one each.

    An array of tensors is represented by its first, since the protocol has no arrays.
    """
    limits = _rows_at(model)[0]["tensors"][member.name]
    preferred = DataType[limits["data_types"][0]]
    if member.role.is_output and "UINT32" in limits["data_types"] and not preferred.is_float:
        preferred = DataType.UINT32
    name = element(member.name, 0) if member.is_array else member.name
    return {"name": name, "datatype": NAMES[preferred], "shape": [-1] * limits["ranks"][0]}
