"""Rules: relations between the members of a desc that report where they are broken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar

from ..tensor import BufferTensorDesc
from ..violation import Basis, Code, Fault

Values = Mapping[str, Any]
"""The members of a desc by name: a number, a tuple of numbers, an enum member, a ``BufferTensorDesc``, or a tuple of
these for an array of tensors; None if omitted. Members that could not be read are missing."""

Path = tuple[str | int, ...]


class Rule(ABC):
    """A relation that holds in every valid desc.

    A rule is applied only if all the members that it reads are known. It also holds where it does not apply: if an
    optional tensor is omitted, or if a rule that it builds on is broken.

    Attributes:
        code: the code of its violations.
        members: the members that it reads, besides those that its fields name.
        words: the rule in words, with its fields in braces; by default the first line of its documentation.
    """

    code: ClassVar[Code]
    members: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = ""

    __slots__ = ("__weakref__",)
    __dataclass_fields__: ClassVar[dict[str, Any]]  # rules are dataclasses

    @property
    def reads(self) -> frozenset[str]:
        """The members that it reads. A rule whose fields hold other strings than names of members says so itself."""
        given = [getattr(self, each.name) for each in fields(self)]
        return frozenset(self.members).union(*map(_named, given))

    @property
    def text(self) -> str:
        """The rule in words, for documentation."""
        if not self.words:
            return (type(self).__doc__ or "").partition("\n")[0].removesuffix(".").replace("``", "")
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        written = {name: listed(each) if isinstance(each, tuple) else each for name, each in given.items()}
        return self.words.format(**written)

    @abstractmethod
    def faults(self, values: Values) -> Iterable[Fault]:
        """Returns the violations of the rule; none if it holds."""

    def parts(self, basis: Basis = Basis.BOTH) -> Iterator[tuple[Rule, Basis]]:
        """Yields the rules that it consists of with their bases: itself or, for a conditional rule, those within."""
        yield self, basis


def _named(value: Any) -> frozenset[str]:
    """Returns the members that a field of a rule names, or that the rule or number in it reads."""
    if isinstance(value, str | tuple):
        return frozenset(each for each in ((value,) if isinstance(value, str) else value) if type(each) is str)
    return getattr(value, "reads", frozenset())


def tensors_of(values: Values, name: str) -> Iterator[tuple[Path, str, BufferTensorDesc]]:
    """Yields the tensors of a member, each with its path and its name in messages; none if omitted or not read."""
    value = values.get(name)
    if value is None:
        return
    if isinstance(value, tuple):
        for k, desc in enumerate(value):
            yield (name, k), f"{name}[{k}]", desc
    else:
        yield (name,), name, value


def every_tensor(values: Values, names: Iterable[str]) -> Iterator[tuple[Path, str, BufferTensorDesc]]:
    """Yields the tensors of several members."""
    for name in names:
        value = values.get(name)
        if isinstance(value, tuple):
            yield from tensors_of(values, name)
        elif value is not None:  # most members, without a generator of their own
            yield (name,), name, value


def either(sizes: Iterable[int]) -> str:
    """Writes each size once, as ``1 or 4``."""
    return " or ".join(dict.fromkeys(map(str, sizes)))


def listed(names: Iterable[str]) -> str:
    """Writes names as ``A, B and C``."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
