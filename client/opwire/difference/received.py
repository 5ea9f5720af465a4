"""The tensors of a side, as the model has them: what cannot be read is missing, and what is left over is known."""

from __future__ import annotations

from zipfile import BadZipFile

from ..tensor import Array
from .sides import Tensors
from .subjects import Subject

_UNREADABLE = (OSError, EOFError, ValueError, TypeError, BadZipFile)


class Received(Tensors):
    """The tensors of a side that a model asks for.

    Args:
        subject: the model.
        tensors: the tensors of the side.
    """

    def __init__(self, subject: Subject, tensors: Tensors) -> None:
        self._subject = subject
        self._tensors = tensors
        self._asked = {*subject.inputs, *subject.given}
        self._unreadable: dict[str, str] = {}

    def get(self, name: str) -> Array | None:
        self._asked.add(name)
        try:
            array = self._tensors.get(name)
        except _UNREADABLE as error:
            self._unreadable[name] = f"it cannot be read: {' '.join(str(error).split())}"
            return None
        return None if array is None else self._subject.adapted(name, array)

    def missing(self, name: str) -> str:
        return self._unreadable.get(name) or self._tensors.missing(name)

    def offer(self, name: str, array: Array) -> None:
        self._tensors.offer(name, array)

    def names(self) -> list[str]:
        return self._tensors.names()

    def unused(self) -> list[str]:
        """Returns the tensors that the side has and the model does not."""
        return [name for name in self.names() if name not in self._asked and self._subject.type_of(name) is None]
