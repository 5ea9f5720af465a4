"""Reads operator descs: finds the violations at every feature level, and the tensors, including derived ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from .desc import MAX_REPORTED, Report, ViolationAtLevels, is_object, pointer_to, show
from .fields import GivenTensors, TensorMember
from .level import FeatureLevel
from .operator import Operator
from .operators import CATALOG, OperatorType, declaration, find, hint, nearest_first
from .support import SupportRows, TensorSupport, row_for
from .tensor import MAX_ELEMENTS, BufferTensorDesc
from .tensor_desc import GivenTensor
from .tensor_names import split
from .violation import OBSERVED_SOURCE, Basis, Code, Fault, Violation

if TYPE_CHECKING:
    from .rules import OutputRule


class ReadDesc(NamedTuple):
    """An operator desc after reading: everything level-independent, and what is needed to check it at a level.

    ``rows`` are its support rows, empty if unknown. ``read`` has the tensor members, None for omitted ones, and
    ``is_complete`` says whether all of them could be read. ``decided`` has the rules of the outputs that valid inputs
    determine. ``inputs`` and ``outputs`` are the individual tensors, including derived ones; empty if they cannot be
    determined, which for outputs is the case if any rule is broken. ``structural`` and ``at_levels`` are the violations
    of its form and its rules, ``advice`` the warnings, and ``uncomputable`` the reasons why it does not run if valid.
    """

    type: OperatorType | None
    pointer: str
    declared: Operator[Any] | None
    attributes: Any | None
    rows: SupportRows
    given: Mapping[str, GivenTensor]
    read: Mapping[str, Any]
    is_complete: bool
    tensors: Mapping[str, Any]
    inputs: Mapping[str, BufferTensorDesc]
    outputs: Mapping[str, BufferTensorDesc]
    decided: Mapping[str, OutputRule]
    structural: tuple[Violation, ...]
    at_levels: tuple[ViolationAtLevels, ...]
    advice: tuple[ViolationAtLevels, ...]
    uncomputable: tuple[Violation, ...]

    def violations_at(self, level: FeatureLevel, *, strict: bool = False) -> tuple[Violation, ...]:
        """Returns every violation at a level: those specific to the level first, then those at all levels.

        Args:
            level: the level.
            strict: whether warnings count.
        """
        if self.type is not None and level < self.type.introduced:
            found: tuple[Violation, ...] = (self._early(self.type, level), *self.structural)
        else:
            limited = [found.violation for found in self.at_levels if found.counts_at(level)] if self.at_levels else ()
            found = (*self._row_violations(level), *limited, *self.structural)
        return (*found, *self.warnings_at(level)) if strict else found

    def warnings_at(self, level: FeatureLevel) -> tuple[Violation, ...]:
        """Returns what DirectML accepts at a level although it is undocumented, and what opwire cannot compute."""
        limited = [found.violation for found in self.advice if found.counts_at(level)]
        return (*self._undocumented_at(level), *limited, *self.uncomputable)

    def _early(self, kind: OperatorType, level: FeatureLevel) -> Violation:
        message = f"{kind.name} requires {kind.introduced} or higher; {level} was requested"
        at = f"{self.pointer}/type"
        return Violation(Code.OPERATOR_NOT_IN_LEVEL, at, message, available_from=kind.introduced)

    def minimum_level(self, *, strict: bool = False) -> FeatureLevel | None:
        """Returns the lowest level at which the desc is valid, or None."""
        return next((lowest for lowest in FeatureLevel if not self.violations_at(lowest, strict=strict)), None)

    def _undocumented_at(self, level: FeatureLevel) -> Iterator[Violation]:
        """Yields a warning for each tensor that DirectML's row allows and the page's does not."""
        row = row_for(self.rows, level)
        if row is None:
            return
        for name, given in self.given.items():
            limits = row.tensors[name.partition("[")[0]]
            if limits.page is not None and limits.admit(given.desc) and not limits.page.admit(given.desc):
                page = None if self.declared is None else self.declared.schema.source
                for found in _misfits(name, given, limits.page, level):
                    yield replace(found, source=page, documented=True)

    def _row_violations(self, level: FeatureLevel) -> Sequence[Violation]:
        row = row_for(self.rows, level)
        if row is None:
            return ()
        tensors = row.tensors
        found: list[Violation] = []
        for name, given in self.given.items():
            limits = tensors.get(name) or tensors[name.partition("[")[0]]
            if not limits.admit(given.desc):
                found += self._given_misfits(name, given, limits, level)
        if not found and len(self.given) < len(self.inputs) + len(self.outputs):
            found += self._derived_misfits(tensors, level)
        for name in row.required:
            if self.read.get(name, name) is None:
                available = _available_from(row.level for row in self.rows if name not in row.required)
                message = f"{name} is required at {level} and missing"
                at = f"{self.pointer}/desc"
                found.append(Violation(Code.MISSING_FIELD, at, message, available_from=available))
        return found

    def _given_misfits(
        self, name: str, given: GivenTensor, limits: TensorSupport, level: FeatureLevel
    ) -> Iterator[Violation]:
        is_documented = limits.page is None or not limits.page.admit(given.desc)
        source = self.declared.schema.source if is_documented and self.declared else OBSERVED_SOURCE
        every = [(row.level, row.tensors[name.partition("[")[0]]) for row in self.rows]
        for found in _misfits(name, given, limits, level, every):
            yield replace(found, source=source, documented=is_documented)

    def _derived_misfits(self, tensors: Mapping[str, TensorSupport], level: FeatureLevel) -> Iterator[Violation]:
        at = f"{self.pointer}/desc"
        for name, output in self.outputs.items():
            limits = tensors[name.partition("[")[0]]
            if name not in self.given and not limits.admit(output):
                for found in _misfits(name, GivenTensor(output, at), limits, level):
                    yield replace(found, pointer=at, message=f"{found.message}; it is derived, since it is not given")


def _misfits(
    name: str,
    given: GivenTensor,
    limits: TensorSupport,
    level: FeatureLevel,
    every: Sequence[tuple[FeatureLevel, TensorSupport]] = (),
) -> Iterator[Violation]:
    """Yields how a tensor exceeds its limits; ``every`` has the limits of each row, with its level."""
    desc = given.desc
    if desc.data_type not in limits.data_types:
        allowed = [row.name for row in limits.data_types]
        yield Violation(
            Code.DATA_TYPE_NOT_IN_LEVEL,
            f"{given.pointer}/DataType",
            f"{desc.data_type.name} given for {name}; at {level} allowed: {', '.join(allowed)}",
            allowed,
            _available_from(at for at, row in every if desc.data_type in row.data_types),
        )
    least, greatest = limits.ranks
    if not least <= desc.rank <= greatest:
        span = f"{least} to {greatest}" if least < greatest else f"{least}"
        yield Violation(
            Code.RANK_NOT_IN_LEVEL,
            f"{given.pointer}/Sizes",
            f"rank {desc.rank} given for {name}; at {level} allowed: {span}",
            list(range(least, greatest + 1)),
            _available_from(at for at, row in every if row.ranks[0] <= desc.rank <= row.ranks[1]),
        )


def _available_from(levels: Iterator[FeatureLevel]) -> FeatureLevel | None:
    return min(levels, default=None)


_OPERATOR: Mapping[str, None] = dict.fromkeys(("type", "desc"))
_NO_TENSORS = GivenTensors({}, {}, complete=False)


def read_desc(operator: object, pointer: str) -> ReadDesc:
    """Reads ``{"type": ..., "desc": {...}}``, found at ``pointer`` in a request."""
    report = Report()
    if not is_object(operator):
        report.add(Code.WRONG_TYPE, pointer, f"{show(operator)} given; expected an operator (an object)")
        return _described(None, pointer, None, None, (), _NO_TENSORS, {}, report)
    report.unknown_fields(operator, _OPERATOR, pointer, "an operator")
    kind = _read_type(operator, pointer, report)
    declared = None if kind is None else declaration(kind.name)
    at = f"{pointer}/desc"
    desc = operator.get("desc")
    if "desc" not in operator:
        report.add(Code.MISSING_FIELD, pointer, "desc is required and missing")
    elif not is_object(desc):
        report.add(Code.WRONG_TYPE, at, f"{show(desc)} given; expected a desc (an object)")
    elif declared is not None:
        if not declared.schema.aliases:
            return _DescReader(declared, desc, at, report).read(kind, pointer)
        written = _written(desc, declared)
        return _restored(_DescReader(declared, _renamed(desc, written), at, report).read(kind, pointer), written)
    return _described(kind, pointer, declared, None, (), _NO_TENSORS, {}, report)


def _described(
    kind: OperatorType | None,
    pointer: str,
    declared: Operator[Any] | None,
    attributes: Any | None,
    rows: SupportRows,
    read: GivenTensors,
    tensors: Mapping[str, Any],
    report: Report,
    decided: Mapping[str, OutputRule] = {},
) -> ReadDesc:
    violations, at_levels = tuple(report.violations), tuple(report.at_levels)
    known = tensors or (read.values if read.complete else {})
    inputs = {} if declared is None else _among(known, declared.members.inputs)
    outputs = {} if declared is None else _among(tensors, declared.members.outputs)
    given = (read.places, read.values, read.complete, tensors, inputs, outputs, decided)
    limited = (violations, at_levels, tuple(report.warnings), tuple(report.uncomputable))
    return ReadDesc(kind, pointer, declared, attributes, rows, *given, *limited)


def _written(desc: Mapping[str, Any], declared: Operator[Any]) -> Mapping[str, str]:
    """Returns the members that a desc gives under an alias, with that alias."""
    aliases = declared.schema.aliases.items()
    return {name: alias for alias, name in aliases if alias in desc and name not in desc}


def _renamed(desc: Mapping[str, Any], written: Mapping[str, str]) -> Mapping[str, Any]:
    """Returns a desc with aliases replaced by the names of directml.h."""
    names = {alias: name for name, alias in written.items()}
    return {names.get(name, name): value for name, value in desc.items()} if names else desc


def _restored(desc: ReadDesc, written: Mapping[str, str]) -> ReadDesc:
    """Returns a desc whose pointers use the names given in the request."""
    if not written:
        return desc

    def restored(pointer: str) -> str:
        at = f"{desc.pointer}/desc/"
        name, slash, rest = pointer.removeprefix(at).partition("/")
        return f"{at}{written[name]}{slash}{rest}" if pointer.startswith(at) and name in written else pointer

    return desc._replace(
        given={name: given._replace(pointer=restored(given.pointer)) for name, given in desc.given.items()},
        structural=tuple(replace(found, pointer=restored(found.pointer)) for found in desc.structural),
    )


def _read_type(operator: Mapping[str, Any], pointer: str, report: Report) -> OperatorType | None:
    if "type" not in operator:
        report.add(Code.MISSING_FIELD, pointer, "type is required and missing")
        return None
    kind = find(operator["type"])
    at = f"{pointer}/type"
    if kind is None:
        message = (
            f"{show(operator['type'])} is not one of DirectML's {len(CATALOG)} operator types{hint(operator['type'])}"
        )
        report.add(Code.UNKNOWN_OPERATOR, at, message, nearest_first(operator["type"]))
    elif declaration(kind.name) is None:
        message = f"{kind.name} is a DirectML operator that opwire does not support yet"
        report.add(Code.OPERATOR_NOT_EXECUTABLE, at, message)
    return kind


class _DescReader(NamedTuple):
    """Reads the desc of a declared operator."""

    declared: Operator[Any]
    desc: Mapping[str, Any]
    pointer: str
    report: Report

    def read(self, kind: OperatorType | None, pointer: str) -> ReadDesc:
        declared, desc, at, report = self
        report.page = declared.schema.source
        members = declared.members
        if not desc.keys() <= members.names.keys():
            known = self._elements_by_name()
            report.unknown_fields(desc, {**members.names, **known}, at, declared.name)
        values, complete = members.read_attributes(desc, at, report)
        read = members.read_tensors(desc, at, report)
        self._withdraw_foreign_ranks(read)
        attributes = declared.attributes(**values) if complete else None
        known = {**values, **read.values}
        for member in members.outputs:
            known.pop(member.name, None)
        found = len(report.violations)
        if faults := declared.on_inputs.faults(known, {} if complete else members.choices(values)):
            self._report(faults, read)
        if members.nested:
            self._check_nested(values)
        tensors: Mapping[str, Any] = {}
        decided: dict[str, OutputRule] = {}
        if complete and len(report.violations) == found and members.input_names <= known.keys():
            tensors = self._outputs(known, read, decided)
        rows = declared.support.rows(values)
        return _described(kind, pointer, declared, attributes, rows, read, tensors, report, decided)

    def _withdraw_foreign_ranks(self, read: GivenTensors) -> None:
        """Withdraws tensors of a rank that no level allows, which rules need not expect. The rows report them."""
        for name, (least, greatest) in self.declared.support.ranks.items():
            value = read.values.get(name)
            if value is None:
                continue
            if type(value) is tuple:
                fits = all(least <= len(desc.sizes) <= greatest for desc in value)
            else:
                fits = least <= len(value.sizes) <= greatest
            if not fits:
                read.complete = False
                del read.values[name]

    def _elements_by_name(self) -> dict[str, None]:
        """Returns the members that name an element of an array which is given too, with a warning for each.

        ``outputs`` of a validation names tensors like that, so a desc completed with them may have them.
        """
        arrays = [member.name for member in self.declared.members.tensors if member.is_array]
        given = [name for name in self.desc if split(name)[1] is not None]
        found = {name: split(name)[0] for name in given if split(name)[0] in arrays and self.desc.get(split(name)[0])}
        for name, array in islice(found.items(), MAX_REPORTED):
            message = f"{name} is ignored, since {array} is given"
            self.report.add(Code.UNKNOWN_FIELD, pointer_to(self.pointer, name), message, basis=Basis.PAGE)
        return dict.fromkeys(found)

    def _outputs(self, known: dict[str, Any], read: GivenTensors, decided: dict[str, OutputRule]) -> Mapping[str, Any]:
        """Applies the rules of the outputs, and adds those that are determined to ``decided``.

        Returns:
            All tensors, including derived ones, or {} if a rule is broken.
        """
        found = len(self.report.violations)
        for member in self.declared.members.outputs:
            rule = self.declared.outputs[member.name].rule(known)
            if rule is not None:
                decided[member.name] = rule
            self._output(member, rule, known, read)
        if len(self.report.violations) > found or not read.complete:
            return {}
        if self.declared.on_outputs.rules:
            self._report(self.declared.on_outputs.faults(known), read)
            if len(self.report.violations) > found:
                return {}
        return {member.name: known[member.name] for member in self.declared.members.tensors}

    def _output(self, member: TensorMember, rule: OutputRule | None, known: dict[str, Any], read: GivenTensors) -> None:
        name = member.name
        if name not in read.values:
            return  # it could not be read
        output = known[name] = read.values[name]
        if output is not None:
            if rule is not None:
                self._report(list(rule.faults(name, output)), read)
        elif not member.role.is_optional:
            if rule is None or not rule.is_derivable:
                message = f"{name} is required and missing: it cannot be derived from the inputs and attributes"
                self.report.add(Code.MISSING_FIELD, self.pointer, message)
                return
            known[name] = derived = rule.derived()
            if derived.total_size_in_bytes * 8 // derived.data_type.bits > MAX_ELEMENTS:
                message = f"{name} would have {derived.element_count} elements; a tensor has at most {MAX_ELEMENTS}"
                self.report.add(Code.TOO_MANY_ELEMENTS, self.pointer, message)

    def _check_nested(self, values: Mapping[str, Any]) -> None:
        """Applies the attribute rules of nested operators, which DirectML does not enforce there."""
        for member in self.declared.members.nested:
            for nested in member.operators(values.get(member.name)):
                inner = declaration(nested.name)
                if inner is not None:
                    within = _DescReader(inner, nested.desc, nested.pointer, self.report)
                    faults = inner.on_attributes.faults(nested.values)
                    within._report([replace(fault, basis=Basis.PAGE) for fault in faults], _NO_TENSORS)

    def _report(self, faults: Sequence[Fault], read: GivenTensors) -> None:
        for fault in faults:
            at = self._place(fault.path, read)
            levels = {"since": fault.since, "until": fault.until}
            self.report.add(fault.code, at, fault.message, fault.allowed, **levels, basis=fault.basis)

    def _place(self, path: tuple[str | int, ...], read: GivenTensors) -> str:
        name, *below = path
        if below and isinstance(below[0], int) and f"{name}[{below[0]}]" in read.places:
            return pointer_to(read.places[f"{name}[{below[0]}]"].pointer, *below[1:])
        if name in read.places:
            return pointer_to(read.places[str(name)].pointer, *below)
        if self.desc.get(str(name)) is None:
            # It is not in the desc: a derived tensor, or an array whose count is 0.
            return self.pointer
        return pointer_to(self.pointer, *path)


def _among(tensors: Mapping[str, Any], members: Iterable[TensorMember]) -> dict[str, BufferTensorDesc]:
    """Returns the descs of the tensors that are present; those of an array as ``NAME[0]``, ``NAME[1]``, ..."""
    found: dict[str, BufferTensorDesc] = {}
    for member in members:
        value = tensors.get(member.name)
        if value is None:
            continue
        if member.is_array:
            found.update(member.parts(value))
        else:
            found[member.name] = value
    return found
