"""Unpickling of bytes that may only contain instances of certain classes, so that they cannot run other code."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from typing import Any


class Unpickler(pickle.Unpickler):
    """Reads one object.

    Args:
        written: the pickled bytes.
        classes: the classes it may have instances of, besides Python's own containers, numbers and texts.
    """

    def __init__(self, written: bytes, classes: Iterable[type]) -> None:
        super().__init__(io.BytesIO(written))
        self._classes: dict[tuple[str, str], type] = {}
        self.allow(classes)

    def allow(self, classes: Iterable[type]) -> None:
        """Allows further classes."""
        self._classes.update(((each.__module__, each.__qualname__), each) for each in classes)

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Returns a class by its name.

        Raises:
            UnpicklingError: the class is not allowed.
        """
        found = self._classes.get((module_name, global_name))
        if found is None:
            raise pickle.UnpicklingError(f"{module_name[:60]}.{global_name[:60]} is not a class of these messages")
        return found
