"""What a rule is: a relation between the members of a desc, which says what breaks it and where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from ..tensor import BufferTensorDesc
from ..violation import Code, Fault

Values = Mapping[str, Any]
"""The members of a desc by name: numbers, tuples of them, enum members, a tensor's ``BufferTensorDesc``, a tuple of
those for an array of tensors; None for what was left out. What could not be read is not there."""

Path = tuple[str | int, ...]


class Rule(ABC):
    """A relation that each valid desc fulfils.

    A rule is asked only once all that it reads is known. It holds where it does not apply: where an optional tensor is
    left out, or where another rule is broken without which it makes no sense.

    Attributes:
        code: of its violations.
        reads: the members that it looks at.
    """

    code: ClassVar[Code]

    __slots__ = ("__weakref__",)

    @property
    @abstractmethod
    def reads(self) -> frozenset[str]: ...

    @abstractmethod
    def faults(self, values: Values) -> Iterable[Fault]:
        """What breaks the rule; nothing if it holds."""

    def parts(self) -> Iterator[Rule]:
        """The rules that it is made of: itself, or those that it puts a condition on."""
        yield self


def tensors_of(values: Values, name: str) -> Iterator[tuple[Path, str, BufferTensorDesc]]:
    """The tensors of a member, each with its place and what messages call it; none if it was left out or not read."""
    value = values.get(name)
    if value is None:
        return
    if isinstance(value, tuple):
        for k, desc in enumerate(value):
            yield (name, k), f"{name}[{k}]", desc
    else:
        yield (name,), name, value


def every_tensor(values: Values, names: Iterable[str]) -> Iterator[tuple[Path, str, BufferTensorDesc]]:
    """The tensors of several members."""
    for name in names:
        yield from tensors_of(values, name)
