"""The members of a desc struct by kind, and how their values are read from a desc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..desc import Report, as_integer
from ..tensor_desc import GivenTensor
from ..violation import Code
from .choices import Enumerated
from .counts import Count
from .member import UNREAD, Member
from .numbers import MAX_NUMBERS, Array
from .tensors import TensorMember


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a desc struct by kind, each kind in the order of the struct.

    Attributes:
        every: all members.
        names: the names of all members, as a mapping for fast lookup.
        tensors, inputs, outputs: all tensors, and those of either role, including optional ones.
        input_names: the names of all inputs. Outputs are determined only once each of these was read or is omitted.
        attributes: the members that are neither tensors nor counts.
        nested: the attributes that hold operators.
        defaults: the defaults of attributes by name; for an array, that of each element.
        counts: the counts of arrays of numbers or operators.
        tensor_counts: the counts of arrays of tensors.
    """

    every: tuple[Member, ...]
    names: Mapping[str, None]
    tensors: tuple[TensorMember, ...]
    inputs: tuple[TensorMember, ...]
    outputs: tuple[TensorMember, ...]
    input_names: frozenset[str]
    attributes: tuple[Member, ...]
    nested: tuple[Member, ...]
    defaults: Mapping[str, Any]
    counts: tuple[Count, ...]
    tensor_counts: tuple[Count, ...]

    @classmethod
    def of(cls, members: Sequence[Member]) -> Members:
        tensors = tuple(member for member in members if isinstance(member, TensorMember))
        counts = tuple(member for member in members if isinstance(member, Count))
        attributes = tuple(member for member in members if not isinstance(member, TensorMember | Count))
        names = {member.name for member in tensors}
        return cls(
            tuple(members),
            dict.fromkeys(member.name for member in members),
            tensors,
            tuple(member for member in tensors if not member.role.is_output),
            tuple(member for member in tensors if member.role.is_output),
            frozenset(member.name for member in tensors if not member.role.is_output),
            attributes,
            tuple(member for member in attributes if member.holds_operators),
            {member.name: member.default for member in attributes if member.default is not None},
            tuple(count for count in counts if not names.issuperset(count.counts)),
            tuple(count for count in counts if names.issuperset(count.counts)),
        )

    def read_attributes(self, desc: Mapping[str, Any], pointer: str, report: Report) -> tuple[dict[str, Any], bool]:
        """Reads the attributes.

        Returns:
            The values by name, without those that could not be read or arrays of unknown length, and whether they are
            complete.
        """
        values: dict[str, Any] = {}
        desc = self.completed(desc)
        for member in self.attributes:
            value = member.read(desc, pointer, report)
            if value is not UNREAD:
                values[member.name] = value
        complete = len(values) == len(self.attributes)
        for count in self.counts:
            lengths = {name: len(values[name]) for name in count.counts if name in values}
            if not count.agree(desc, lengths, pointer, report):
                complete = False
                if len(set(lengths.values())) > 1:
                    for name in lengths:
                        del values[name]
        return values, complete

    def completed(self, desc: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a desc with the defaults of the attributes that it leaves out."""
        if self.defaults.keys() <= desc.keys():
            return desc
        found = dict(desc)
        for member in self.attributes:
            if member.default is None or member.name in desc:
                continue
            length = self._length(member.count, desc) if isinstance(member, Array) else None
            if length is not None:
                found[member.name] = [member.default] * length
            elif not isinstance(member, Array):
                found[member.name] = member.default
        return found

    def _length(self, count: str | None, desc: Mapping[str, Any]) -> int | None:
        """Returns the length of an array that a desc leaves out, or None if the desc does not tell.

        It is that of the arrays with the same count, or else the number of spatial dimensions of the first input.
        """
        (siblings,) = [each.counts for each in self.counts if each.name == count]
        lists = [desc[name] for name in siblings if isinstance(desc.get(name), list | tuple)]
        lengths = [as_integer(desc.get(count or "")), *map(len, lists), _spatial(desc.get(self.inputs[0].name))]
        return next((length for length in lengths if length is not None and 0 <= length <= MAX_NUMBERS), None)

    def choices(self, values: Mapping[str, Any]) -> dict[str, Sequence[object]]:
        """Returns the possible values of the enum members that are not among those read."""
        unread = (member for member in self.attributes if member.name not in values)
        return {member.name: list(member.type) for member in unread if isinstance(member, Enumerated)}

    def read_tensors(self, desc: Mapping[str, Any], pointer: str, report: Report) -> GivenTensors:
        """Returns the given tensors that are well-formed, and reports the violations of the others."""
        read = GivenTensors({}, {}, complete=True)
        for member in self.tensors:
            value: Any = member.read(desc, pointer, report)
            if value is UNREAD:
                read.complete = False
            else:
                member.place(value, read.values, read.places)
        for count in self.tensor_counts:
            lengths = {name: len(read.values[name]) for name in count.counts if read.values.get(name) is not None}
            read.complete &= count.agree(desc, lengths, pointer, report) or not lengths
        return read


@dataclass(slots=True)
class GivenTensors:
    """The tensors read from a desc.

    Attributes:
        values: by name, the desc of a tensor, the tuple of descs of an array, or None if omitted.
        places: each given desc with its pointer; those of an array as ``NAME[0]``, ``NAME[1]``, ...
        complete: whether everything given could be read.
    """

    values: dict[str, Any]
    places: dict[str, GivenTensor]
    complete: bool


def read_nested(members: Members, desc: Mapping[str, Any], pointer: str, report: Report) -> tuple[dict[str, Any], bool]:
    """Reads the attributes of a nested operator, whose tensors must be null."""
    for member in members.tensors:
        if desc.get(member.name) is not None:
            message = f"{member.name} given; the tensors of a fused operator must be null"
            report.add(Code.UNEXPECTED_TENSOR, f"{pointer}/{member.name}", message)
    return members.read_attributes(desc, pointer, report)


def _spatial(tensor: object) -> int | None:
    """Returns the number of spatial dimensions of a tensor desc, all but the first two, or None if it has no sizes."""
    if not isinstance(tensor, Mapping):
        return None
    sizes = tensor["Desc"].get("Sizes") if isinstance(tensor.get("Desc"), Mapping) else tensor.get("Sizes")
    return len(sizes) - 2 if isinstance(sizes, list | tuple) else None
