"""From an operator desc and a feature level to a ``Plan``, or to every violation at once.

A plan is what devices run, and the proof that its desc was checked: nothing after this stage checks it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, NamedTuple

from .desc import MOST_ALIKE, GivenTensor, Report, is_object, pointer_to, read_attributes, read_tensors, show
from .errors import ContractViolation
from .level import HIGHEST, FeatureLevel, Limits, Rows, row_for
from .operator import Code, CountField, EnumField, Fault, Operator, OutputRule, Role, TensorField, Violation
from .operators import CATALOG, OPERATORS, OperatorType, find
from .tensor import MAX_ELEMENTS, BufferTensorDesc


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A checked operator desc with all its outputs known.

    Attributes:
        operator: its declaration.
        level: the feature level that it was checked against.
        attributes: the fields that are neither tensors nor counts, as the operator's own dataclass.
        inputs: the input descs in the order of the fields.
        outputs: the output descs in the order of the fields, derived where they were left out; an optional output that
            was left out is absent.
        work: element visits that it costs.
    """

    operator: Operator[Any]
    level: FeatureLevel
    attributes: Any
    inputs: Mapping[str, BufferTensorDesc]
    outputs: Mapping[str, BufferTensorDesc]
    work: int


@dataclass(frozen=True, slots=True)
class Validation:
    """What is known of an operator desc at a feature level.

    Attributes:
        violations: every reason to refuse it; empty if it is valid.
        minimum_feature_level: the lowest level that takes it, or None if none does.
        outputs: the desc of each output, derived where left out; empty while they cannot be known.
    """

    violations: tuple[Violation, ...]
    minimum_feature_level: FeatureLevel | None
    outputs: Mapping[str, BufferTensorDesc]

    @property
    def valid(self) -> bool:
        return not self.violations

    def to_json(self) -> dict[str, object]:
        """What ``POST /v1/validate`` answers."""
        minimum = self.minimum_feature_level
        return {
            "valid": self.valid,
            "violations": [violation.to_json() for violation in self.violations],
            "minimum_feature_level": None if minimum is None else str(minimum),
            "outputs": {name: desc.to_json() for name, desc in self.outputs.items()},
        }


def check(operator: object, feature_level: FeatureLevel | str | int = HIGHEST, *, pointer: str = "") -> Plan:
    """Checks an operator desc against exactly one feature level.

    Args:
        operator: ``{"type": ..., "desc": {...}}`` as DxDispatch writes it.
        feature_level: in any spelling that ``FeatureLevel.parse`` takes.
        pointer: where the operator stands in the request; the violations' pointers begin with it.

    Raises:
        ContractViolation: with every violation.
    """
    level = read_level(feature_level, "")
    desc = _read(operator, pointer)
    violations = desc.violations_at(level)
    if violations:
        raise ContractViolation(violations)
    assert desc.declared is not None  # without violations the desc is known whole
    members = desc.declared.members
    inputs, outputs = _among(desc.tensors, members.inputs), _among(desc.tensors, members.outputs)
    work = desc.declared.work(desc.attributes, desc.tensors)
    return Plan(desc.declared, level, desc.attributes, inputs, outputs, work)


def validate(operator: object, feature_level: FeatureLevel | str | int = HIGHEST, *, pointer: str = "") -> Validation:
    """Like ``check``, but returns what is wrong instead of raising it, and says which level would take the desc.

    Raises:
        ContractViolation: there is no such feature level.
    """
    level = read_level(feature_level, "")
    desc = _read(operator, pointer)
    minimum = next((lowest for lowest in FeatureLevel if not desc.violations_at(lowest)), None)
    outputs: Mapping[str, BufferTensorDesc] = {}
    if desc.declared is not None:
        outputs = _among(desc.tensors, desc.declared.members.outputs)
    return Validation(desc.violations_at(level), minimum, outputs)


def read_level(given: object, pointer: str) -> FeatureLevel:
    """The feature level that a request names.

    Raises:
        ContractViolation: there is no such level; the violation stands at ``pointer``.
    """
    try:
        return FeatureLevel.parse(given)
    except ValueError:
        names = [str(level) for level in FeatureLevel]
        message = f"{show(given)} given; the feature levels are {names[0]} to {names[-1]}"
        raise ContractViolation([Violation(Code.UNKNOWN_FEATURE_LEVEL, pointer, message, names)]) from None


class _Desc(NamedTuple):
    """An operator desc as read: all that does not depend on the level, and what is needed for what does.

    ``rows`` are its support rows, none where they cannot be known.
    """

    type: OperatorType | None
    type_pointer: str
    declared: Operator[Any] | None
    attributes: Any | None
    rows: Rows
    given: Mapping[str, GivenTensor]
    tensors: Mapping[str, BufferTensorDesc]
    structural: tuple[Violation, ...]

    def violations_at(self, level: FeatureLevel) -> tuple[Violation, ...]:
        """Every violation at a level: of the operator's and its rows first, then those of any level."""
        if self.type is not None and level < self.type.introduced:
            early = Violation(
                Code.OPERATOR_NOT_IN_LEVEL,
                self.type_pointer,
                f"{self.type.name} exists from {self.type.introduced} on; {level} was requested",
                available_from=self.type.introduced,
            )
            return (early, *self.structural)
        return (*self._row_violations(level), *self.structural)

    def _row_violations(self, level: FeatureLevel) -> Iterator[Violation]:
        row = row_for(self.rows, level)
        if row is None:
            return
        for name, given in self.given.items():
            yield from _tensor_violations(name, given, row.tensors[name], self.rows, level)


def _tensor_violations(
    name: str, given: GivenTensor, limits: Limits, rows: Rows, level: FeatureLevel
) -> Iterator[Violation]:
    desc = given.desc
    if desc.data_type not in limits.data_types:
        allowed = [row.name for row in limits.data_types]
        yield Violation(
            Code.DATA_TYPE_NOT_IN_LEVEL,
            f"{given.pointer}/DataType",
            f"{desc.data_type.name} given for {name}; at {level} allowed: {', '.join(allowed)}",
            allowed,
            _available_from(row.level for row in rows if desc.data_type in row.tensors[name].data_types),
        )
    least, greatest = limits.ranks
    if not least <= desc.rank <= greatest:
        span = f"{least} to {greatest}" if least < greatest else f"{least}"
        yield Violation(
            Code.RANK_NOT_IN_LEVEL,
            f"{given.pointer}/Sizes",
            f"rank {desc.rank} given for {name}; at {level} allowed: {span}",
            list(range(least, greatest + 1)),
            _available_from(
                row.level for row in rows if row.tensors[name].ranks[0] <= desc.rank <= row.tensors[name].ranks[1]
            ),
        )


def _available_from(levels: Iterator[FeatureLevel]) -> FeatureLevel | None:
    return min(levels, default=None)


_OPERATOR: Mapping[str, None] = dict.fromkeys(("type", "desc"))


def _read(operator: object, pointer: str) -> _Desc:
    report = Report()
    type_pointer = f"{pointer}/type"
    if not is_object(operator):
        report.add(Code.WRONG_TYPE, pointer, f"{show(operator)} given where an operator (an object) belongs")
        return _Desc(None, type_pointer, None, None, (), {}, {}, tuple(report.violations))
    report.unknown_fields(operator, _OPERATOR, pointer, "an operator")
    kind = _read_type(operator, pointer, type_pointer, report)
    declared = None if kind is None else OPERATORS.get(kind.name)
    at = f"{pointer}/desc"
    attributes = None
    rows: Rows = ()
    given: dict[str, GivenTensor] = {}
    tensors: dict[str, BufferTensorDesc] = {}
    desc = operator.get("desc")
    if "desc" not in operator:
        report.add(Code.MISSING_FIELD, pointer, "desc is required and missing")
    elif not is_object(desc):
        report.add(Code.WRONG_TYPE, at, f"{show(desc)} given where a desc (an object) belongs")
    elif declared is not None:
        report.unknown_fields(desc, declared.members.names, at, declared.name)
        attributes, values = read_attributes(declared, desc, at, report)
        rows = _rows(declared, values) if attributes is None else declared.support(attributes)
        given = read_tensors(declared, desc, at, report)
        if declared.members.input_names <= given.keys():
            if attributes is not None:
                tensors = _complete(declared, attributes, given, desc, at, report)
            else:
                _constrain(declared, _stand_in(declared, values), given, desc, at, report)
    return _Desc(kind, type_pointer, declared, attributes, rows, given, tensors, tuple(report.violations))


def _rows(declared: Operator[Any], values: Mapping[str, object]) -> Rows:
    """The support rows while some attributes are unknown; none where they depend on those."""
    members = {member.name: member for member in declared.fields}

    def possible(name: str) -> Sequence[object]:
        member, value = members[name], values[name]
        if value is not None:
            return [value]
        return list(member.type) if isinstance(member, EnumField) else [()]

    choices = product(*map(possible, values))
    first, *others = (
        declared.support(declared.attributes(**dict(zip(values, chosen, strict=True)))) for chosen in choices
    )
    return first if all(other == first for other in others) else ()


def _stand_in(declared: Operator[Any], values: Mapping[str, object]) -> Any | None:
    """Attributes with some value for each unknown enum, for rules on the arrays; None while an array is unknown."""
    known = dict(values)
    for member in declared.fields:
        if isinstance(member, EnumField) and known[member.name] is None:
            known[member.name] = next(iter(member.type))
        elif isinstance(member, CountField):
            lengths = {len(array) for name in member.counts if isinstance(array := values[name], tuple)}
            if len(lengths) > 1:
                return None
    return None if None in known.values() else declared.attributes(**known)


def _constrain(
    declared: Operator[Any],
    attributes: Any | None,
    given: Mapping[str, GivenTensor],
    desc: Mapping[str, Any],
    pointer: str,
    report: Report,
) -> dict[str, BufferTensorDesc]:
    """Applies the rules between attributes and inputs, if the attributes are known; returns the inputs."""
    inputs = {member.name: given[member.name].desc for member in declared.members.inputs}
    if attributes is not None:
        _report_faults(declared.constraints(attributes, inputs), given, desc, pointer, report)
    return inputs


def _read_type(operator: Mapping[str, Any], pointer: str, at: str, report: Report) -> OperatorType | None:
    if "type" not in operator:
        report.add(Code.MISSING_FIELD, pointer, "type is required and missing")
        return None
    kind = find(operator["type"])
    if kind is None:
        report.add(
            Code.UNKNOWN_OPERATOR,
            at,
            f"{show(operator['type'])} is none of DirectML's {len(CATALOG)} operator types",
            list(OPERATORS),
        )
    elif kind.name not in OPERATORS:
        report.add(
            Code.OPERATOR_NOT_EXECUTABLE,
            at,
            f"{kind.name} is an operator of DirectML that opwire cannot run; it runs {', '.join(OPERATORS)}",
            list(OPERATORS),
        )
    return kind


def _complete(
    declared: Operator[Any],
    attributes: Any,
    given: Mapping[str, GivenTensor],
    desc: Mapping[str, Any],
    pointer: str,
    report: Report,
) -> dict[str, BufferTensorDesc]:
    """Applies the operator's rules; returns all its tensors, derived outputs too, or {} once a rule is broken."""
    found = len(report.violations)
    tensors = _constrain(declared, attributes, given, desc, pointer, report)
    if len(report.violations) > found:
        return {}
    rules = declared.outputs(attributes, tensors)
    for member in declared.members.outputs:
        rule = rules[member.name]
        if member.name in given:
            output = given[member.name].desc
            _report_faults(_output_faults(member.name, output, rule, tensors), given, desc, pointer, report)
            tensors[member.name] = output
        elif member.role is Role.OUTPUT and desc.get(member.name) is None:
            tensors[member.name] = derived = BufferTensorDesc(rule.data_type, tuple(sizes[0] for sizes in rule.sizes))
            if derived.element_count > MAX_ELEMENTS:
                message = (
                    f"{member.name} would have {derived.element_count} elements; a tensor has at most {MAX_ELEMENTS}"
                )
                report.add(Code.TOO_MANY_ELEMENTS, pointer, message)
    if len(report.violations) > found or _unread(declared, given, desc):
        return {}
    _report_faults(declared.output_constraints(attributes, tensors), given, desc, pointer, report)
    return tensors if len(report.violations) == found else {}


def _unread(declared: Operator[Any], given: Mapping[str, GivenTensor], desc: Mapping[str, Any]) -> bool:
    """Whether a tensor is there that could not be read."""
    return any(member.name not in given and desc.get(member.name) is not None for member in declared.members.tensors)


def _output_faults(
    name: str, output: BufferTensorDesc, rule: OutputRule, tensors: Mapping[str, BufferTensorDesc]
) -> Iterator[Fault]:
    if rule.same_as is not None and output.data_type is not rule.data_type:
        yield Fault(
            Code.DATA_TYPES_DIFFER,
            (name, "DataType"),
            f"{name} has {output.data_type.name} and {rule.same_as} {rule.data_type.name}; they must be equal",
            [rule.data_type.name],
        )
    if output.rank != len(rule.sizes):
        yield Fault(
            Code.RANKS_DIFFER,
            (name, "Sizes"),
            f"{name} has rank {output.rank} where {len(rule.sizes)} is required: the rank is kept",
            [len(rule.sizes)],
        )
        return
    for i, (size, allowed) in enumerate(zip(output.sizes, rule.sizes, strict=True)):
        if size not in allowed:
            yield Fault(
                Code.SIZES_MISMATCH,
                (name, "Sizes", i),
                f"size {size} given for dimension {i} of {name}; allowed: {' or '.join(map(str, allowed))}",
                list(allowed),
            )


def _report_faults(
    faults: Iterable[Fault],
    given: Mapping[str, GivenTensor],
    desc: Mapping[str, Any],
    pointer: str,
    report: Report,
) -> None:
    for fault in islice(faults, MOST_ALIKE):
        field, *below = fault.path
        if field in given:
            at = pointer_to(given[str(field)].pointer, *below)
        elif desc.get(str(field)) is None:
            at = pointer  # it does not stand there: a derived tensor, or an array that is empty as its count says
        else:
            at = pointer_to(pointer, *fault.path)
        report.add(fault.code, at, fault.message, fault.allowed)


def _among(tensors: Mapping[str, BufferTensorDesc], members: Iterable[TensorField]) -> dict[str, BufferTensorDesc]:
    return {member.name: tensors[member.name] for member in members if member.name in tensors}
