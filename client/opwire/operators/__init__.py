"""The operators that opwire declares, in the order of DirectML's values, and the catalog of all operator types.

Each module in this folder declares the operators of the schema's family of the same name, as its ``FAMILY``. It is
imported when one of them is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ..operator import Operator
from ..schema import CATALOG, PREFIX, OperatorType, find, hint, nearest_first


@cache
def declaration(name: str) -> Operator[Any] | None:
    """Returns the declaration of an operator type by name, or None if it only has a schema."""
    kind = CATALOG.get(name)
    return None if kind is None else _family(kind.family).get(name)


class _Declared(Mapping[str, Operator[Any]]):
    def __getitem__(self, name: str) -> Operator[Any]:
        family = CATALOG[name].family
        found = _family(family).get(name)
        if found is None:
            raise KeyError(f"{name} has no entry in FAMILY of operators/{family}.py")
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in CATALOG.items() if name in _family(kind.family))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _family(name: str) -> Mapping[str, Operator[Any]]:
    if name not in _modules():
        return {}
    declared: tuple[Operator[Any], ...] = import_module(f"{__name__}.{name}").FAMILY
    return {operator.name: operator for operator in declared}


@cache
def _modules() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(__path__))


OPERATORS: Mapping[str, Operator[Any]] = _Declared()
"""The declared operators by name."""

__all__ = ["CATALOG", "OPERATORS", "PREFIX", "OperatorType", "declaration", "find", "hint", "nearest_first"]
