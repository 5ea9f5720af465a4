"""Which sources a kernel's machine code is made from: its module, and all that this imports of the CPU kernels.

What they import from elsewhere is for Python alone, and no part of any machine code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

KERNELS = Path(__file__).parents[1]
"""The folder of the CPU kernels."""


def stamp(module: Path, folder: Path = KERNELS) -> bytes:
    """A digest of the sources that the kernels of a module are made from.

    Args:
        module: the file that holds the kernels.
        folder: what it imports from there counts, by relative names as all kernels import each other.
    """
    sources = sha256()
    for path in sorted(_reached(module, folder)):
        sources.update(_read(path))
    return sources.digest()


def _reached(module: Path, folder: Path) -> set[Path]:
    """A module, the modules that it imports, and so on."""
    reached: set[Path] = set()
    waiting = [module]
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            waiting.extend(imported(path, folder))
    return reached


@cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


_IMPORT = re.compile(rb"^\s*from\s+(\.+)([\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)", re.MULTILINE)
"""A relative import. To parse the sources would take longer than all else that is done before a server is ready."""

_NAME = re.compile(rb"\w+")


@cache
def imported(path: Path, folder: Path) -> frozenset[Path]:
    """The modules in a folder that a module imports by relative names."""
    statements = _IMPORT.findall(_read(path))
    return frozenset(each for found in statements for each in _modules(path, *found) if folder in each.parents)


def _modules(path: Path, dots: bytes, module: bytes, names: bytes) -> Iterator[Path]:
    """The files of the modules among what a statement names."""
    parent = path.parents[len(dots) - 1].joinpath(*module.decode().split("."))
    for named in (parent, *(parent / name.decode() for name in _NAME.findall(names))):
        if (file := named.with_suffix(".py")).is_file():
            yield file
