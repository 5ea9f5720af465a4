"""The operators that a device can run. The reference device runs all of them, so it defines the set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opwire.operator import Operator
from opwire.operators import OPERATORS

from .reference import KERNELS


class _Executable(Mapping[str, Operator[Any]]):
    def __getitem__(self, name: str) -> Operator[Any]:
        if name not in KERNELS:
            raise KeyError(name)
        return OPERATORS[name]

    def __contains__(self, name: object) -> bool:
        return name in KERNELS

    def __iter__(self) -> Iterator[str]:
        return iter(KERNELS)

    def __len__(self) -> int:
        return len(KERNELS)


EXECUTABLE: Mapping[str, Operator[Any]] = _Executable()
"""The executable operators, by name."""
