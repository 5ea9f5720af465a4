"""A DxDispatch model: buffers, dispatchables, and the commands that bind and run them.

Source: ``doc/Guide.md``, ``models/_schema.json`` and ``JsonParsers.cpp`` of DxDispatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..check import Plan, Validation, check, validate
from ..desc import Report, pointer_to, show
from ..errors import ContractViolation, ProblemCode, RequestError
from ..graph import CONSTANT, GRAPHS_FROM, check_graph, validate_graph
from ..graph.serialized import SerializedGraph, read_serialized
from ..level import LOWEST, FeatureLevel
from ..operator import Code, Violation
from .commands import Bindings, Command, read_bindings, read_command
from .model_object import ModelObject
from .resources import Buffer, read_buffer
from .text import read_text

_FOREIGN = {"hlsl": "an HLSL compute shader", "onnx": "an ONNX model"}
_GRAPH = "dmlserializedgraph"
_COMPILE_TYPES = {"DmlCompileOp": 0, "DmlCompileGraph": 1}
_EXECUTION_FLAGS = {
    "NONE": 0,
    "ALLOW_HALF_PRECISION_COMPUTATION": 1,
    "DISABLE_META_COMMANDS": 2,
    "DESCRIPTORS_VOLATILE": 4,
}
_EXECUTION_FLAG_PREFIX = "DML_EXECUTION_FLAG_"
_OWN_MEMBERS = frozenset({"type", "Type", "dmlCompileType", "executionFlags", "bindings"})


class PlanOf(Protocol):
    """Checks operators as ``opwire.check.check`` does."""

    def __call__(self, operator: object, level: FeatureLevel, /, *, strict: bool, pointer: str) -> Plan: ...


@dataclass(frozen=True, slots=True, eq=False)
class OperatorDispatchable:
    """A DirectML operator of the model.

    Attributes:
        operator: ``{"type": ..., "desc": {...}}``, unchecked.
        places: the paths of ``type`` and ``desc`` below ``pointer``; the latter is empty if the members are inline.
        bindings: the initial bindings, made before the first command.
        pointer: the pointer to the dispatchable in the model.
        is_graph: whether it is compiled as the only node of a graph, which does not affect results.
    """

    operator: object
    places: Mapping[str, str]
    bindings: Bindings
    pointer: str
    is_graph: bool = False

    def check(self, level: FeatureLevel, *, strict: bool = False, plan_of: PlanOf = check) -> Plan:
        """Returns the plan of the operator, as made by ``plan_of``.

        Raises:
            ContractViolation: with every violation, located in the model.
        """
        early = self._early(level)
        try:
            plan = plan_of(self.operator, level, strict=strict, pointer=self.pointer)
        except ContractViolation as error:
            raise ContractViolation([*early, *map(self._in_place, error.violations)]) from None
        if early:
            raise ContractViolation(early)
        return plan

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        """Returns the outcome of checking the operator at a level, with the violations located in the model."""
        found = validate(self.operator, level, strict=strict, pointer=self.pointer)
        minimum = found.minimum_feature_level
        if minimum is not None and self.is_graph:
            minimum = max(minimum, GRAPHS_FROM)
        violations = (*self._early(level), *map(self._in_place, found.violations))
        warnings = tuple(map(self._in_place, found.warnings))
        return replace(found, violations=violations, minimum_feature_level=minimum, warnings=warnings)

    def _early(self, level: FeatureLevel) -> list[Violation]:
        if not self.is_graph or level >= GRAPHS_FROM:
            return []
        message = f"graphs require {GRAPHS_FROM} or higher; {level} was requested"
        at = f"{self.pointer}/dmlCompileType"
        return [Violation(Code.OPERATOR_NOT_IN_LEVEL, at, message, available_from=GRAPHS_FROM)]

    def _in_place(self, violation: Violation) -> Violation:
        member, slash, rest = violation.pointer.removeprefix(self.pointer + "/").partition("/")
        if member not in self.places:
            return violation
        return replace(violation, pointer=self.pointer + self.places[member] + slash + rest)


@dataclass(frozen=True, slots=True)
class ForeignDispatchable:
    """A dispatchable of a kind that opwire cannot run."""

    kind: str
    pointer: str

    @property
    def violation(self) -> Violation:
        message = f"{_FOREIGN[self.kind]} given; opwire runs only DirectML operators and graphs"
        return Violation(Code.OPERATOR_NOT_EXECUTABLE, self.pointer + "/type", message)

    def check(self, level: FeatureLevel, *, strict: bool = False) -> Plan:
        """Raises the violation; there is no plan.

        Raises:
            ContractViolation: always.
        """
        raise ContractViolation([self.violation])

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        return Validation((self.violation,), None, {})


@dataclass(frozen=True, slots=True, eq=False)
class GraphDispatchable:
    """A graph read from a file.

    Attributes:
        graph: the graph.
        bindings: the initial bindings, made before the first command.
        pointer: the pointer to the dispatchable in the model.
        kept: the bytes of its constants, by the names of the plan's inputs.
    """

    graph: SerializedGraph
    bindings: Bindings
    pointer: str
    kept: Mapping[str, bytes]

    def check(self, level: FeatureLevel, *, strict: bool = False) -> Plan:
        """Returns the plan of the graph.

        Raises:
            ContractViolation: with every violation; the messages say where in the graph.
        """
        try:
            return check_graph(self.graph.graph, level, strict=strict)
        except ContractViolation as error:
            raise ContractViolation([self._in_place(violation) for violation in error.violations]) from None

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        """Returns the outcome of checking the graph at a level."""
        found = validate_graph(self.graph.graph, level, strict=strict)
        violations, warnings = (tuple(map(self._in_place, each)) for each in (found.violations, found.warnings))
        return replace(found, violations=violations, warnings=warnings)

    def _in_place(self, violation: Violation) -> Violation:
        message = f"{violation.pointer or 'the graph'}: {violation.message}"
        return replace(violation, pointer=self.pointer + "/sourcePath", message=message)


@dataclass(frozen=True, slots=True, eq=False)
class GraphFile:
    """A graph in a file that has not been read.

    Attributes:
        path: the path of the file, as given in the model.
        bindings: the initial bindings, made before the first command.
        pointer: the pointer to the dispatchable in the model.
    """

    path: str
    bindings: Bindings
    pointer: str

    def read(self, data: bytes, beside: Callable[[str], bytes]) -> GraphDispatchable:
        """Returns the graph, given the contents of the file.

        Args:
            data: the contents of the file.
            beside: reads a constant from the file ``NAME.bin`` next to it.

        Raises:
            RequestError: the file is not a graph.
            OSError: raised by ``beside``.
        """
        graph = read_serialized(data)
        kept = {CONSTANT + name: constant for name, constant in graph.constants.items()}
        kept |= {name: beside(name) for name in graph.files}
        return GraphDispatchable(graph, self.bindings, self.pointer, kept)

    def check(self, level: FeatureLevel, *, strict: bool = False) -> Plan:
        """Raises a violation; there is no plan until the file is read.

        Raises:
            ContractViolation: always.
        """
        raise ContractViolation(self.validate(level, strict=strict).violations)

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> Validation:
        message = f"the file {show(self.path)} was not read"
        return Validation((Violation(Code.MISSING_TENSOR, self.pointer + "/sourcePath", message),), None, {})


Dispatchable = OperatorDispatchable | GraphDispatchable | GraphFile | ForeignDispatchable


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model after reading. Its operators are not checked yet, and the files it refers to have not been opened."""

    resources: Mapping[str, Buffer]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]

    def validate(self, level: FeatureLevel, *, strict: bool = False) -> dict[str, Validation]:
        """Returns the outcome of checking each dispatchable at a level, by name."""
        return {name: each.validate(level, strict=strict) for name, each in self.dispatchables.items()}


def lowest_level(found: Iterable[Validation]) -> FeatureLevel | None:
    """Returns the lowest level at which all operators are valid, or None."""
    levels = [validation.minimum_feature_level for validation in found]
    return None if None in levels else max((level for level in levels if level is not None), default=LOWEST)


def parse_model(text: str | bytes) -> Model:
    """Reads the text of a model file.

    Raises:
        RequestError: INVALID_JSON, or INVALID_REQUEST with every violation.
    """
    return read_model(read_text(text))


def read_model(value: object) -> Model:
    """Reads a model from JSON values.

    Raises:
        RequestError: INVALID_REQUEST, with every violation.
    """
    report = Report()
    model = _model(value, report)
    if report.violations or model is None:
        _report_unknown_operators(value, report)
        places = ", ".join(violation.pointer or "the root" for violation in report.violations[:3])
        detail = f"the model is malformed at {places}"
        raise RequestError(ProblemCode.INVALID_REQUEST, detail, violations=report.violations)
    return model


def read_operator(value: Mapping[str, Any]) -> Dispatchable:
    """Reads a standalone dispatchable, without a model: an operator's type and desc.

    Raises:
        RequestError: INVALID_REQUEST, with every violation.
    """
    report = Report()
    alone = {name: member for name, member in value.items() if name != "bindings"}
    dispatchable = _dispatchable(ModelObject(alone, "", report), ())
    if report.violations:
        raise RequestError(ProblemCode.INVALID_REQUEST, "the operator is malformed", violations=report.violations)
    return dispatchable


def _report_unknown_operators(value: object, report: Report) -> None:
    """Reports the operator types of a malformed model that do not exist, which its dispatchables would report."""
    given = value.get("dispatchables") if isinstance(value, Mapping) else None
    listed = ModelObject(given if isinstance(given, Mapping) else {}, "/dispatchables", Report())
    for _, members in listed.children():
        dispatchable = _dispatchable(members, ())
        if isinstance(dispatchable, OperatorDispatchable):
            found = dispatchable.validate(LOWEST).violations
            report.violations += [each for each in found if each.code is Code.UNKNOWN_OPERATOR]


def _model(value: object, report: Report) -> Model | None:
    if not isinstance(value, Mapping):
        report.add(Code.WRONG_TYPE, "", f"{show(value)} given; expected a model (an object)")
        return None
    root = ModelObject(value, "", report)
    resources, dispatchables = root.child("resources"), root.child("dispatchables")
    commands = value.get("commands")
    if root.required("commands") and not isinstance(commands, list):
        report.add(Code.WRONG_TYPE, "/commands", f"{show(commands)} given; expected a list of commands")
    if resources is None or dispatchables is None or not isinstance(commands, list):
        return None
    # The names of malformed members count too, so that references to them are not additional violations.
    names = (resources.values, dispatchables.values)
    buffers = {name: read_buffer(members) for name, members in resources.children()}
    operators = {name: _dispatchable(members, resources.values) for name, members in dispatchables.children()}
    listed = ModelObject({}, "/commands", report)
    items = [listed.nested(item, i) for i, item in enumerate(commands)]
    steps = [read_command(members, *names) for members in items if members is not None]
    return Model(
        {name: buffer for name, buffer in buffers.items() if buffer is not None},
        operators,
        tuple(step for step in steps if step is not None),
    )


def _dispatchable(members: ModelObject, buffers: Iterable[str]) -> Dispatchable:
    type_name = "type" if members.has("type") else "Type"
    kind = members.values.get(type_name)
    if isinstance(kind, str) and kind.lower() in _FOREIGN:
        return ForeignDispatchable(kind.lower(), members.pointer)
    if isinstance(kind, str) and kind.lower() == _GRAPH:
        path = members.string("sourcePath")
        bindings = read_bindings(members, buffers) if members.has("bindings") else {}
        return GraphFile(path or "", bindings, members.pointer)
    is_graph = _compile_type(members) == _COMPILE_TYPES["DmlCompileGraph"]
    _check_flags(members)
    desc_name = next((name for name in ("Desc", "desc") if name in members.values), None)
    inline = {name: value for name, value in members.values.items() if name not in _OWN_MEMBERS}
    operator = {"desc": inline if desc_name is None else members.values[desc_name]}
    if members.has(type_name):
        operator["type"] = kind
    places = {"type": f"/{type_name}", "desc": "" if desc_name is None else f"/{desc_name}"}
    bindings = read_bindings(members, buffers) if members.has("bindings") else {}
    return OperatorDispatchable(operator, places, bindings, members.pointer, is_graph)


def _compile_type(members: ModelObject) -> int | None:
    """Returns how the operator is compiled, or reports an unknown compile type."""
    given = members.values["dmlCompileType"] if members.has("dmlCompileType") else "DmlCompileOp"
    return members.report.member(given, members.at("dmlCompileType"), _COMPILE_TYPES, "")


def _check_flags(members: ModelObject) -> None:
    """Reports unknown execution flags. The known ones do not affect results."""
    report = members.report
    flags = members.values.get("executionFlags")
    at = members.at("executionFlags")
    if isinstance(flags, list):
        for i, flag in enumerate(flags):
            report.member(flag, pointer_to(at, i), _EXECUTION_FLAGS, _EXECUTION_FLAG_PREFIX)
    elif flags is not None:
        report.member(flags, at, _EXECUTION_FLAGS, _EXECUTION_FLAG_PREFIX)
