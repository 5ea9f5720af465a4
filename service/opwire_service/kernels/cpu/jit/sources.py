"""Finds the sources of a kernel's machine code: its module and those of ``kernels`` that it imports, transitively.

Imports from elsewhere are for Python only and do not become machine code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Root folder of the kernels, with the functions that those of a CPU share with others."""


def stamp(module: Path, folder: Path = ROOT) -> bytes:
    """Returns a digest of the sources that a module's kernels are made from.

    Args:
        module: file that defines the kernels.
        folder: only modules below this folder count; they must be imported by relative names.
    """
    sources = sha256()
    for path in sorted(_reached(module, folder)):
        sources.update(_read(path))
    return sources.digest()


def _reached(module: Path, folder: Path) -> set[Path]:
    """Returns a module and all modules it imports, directly or indirectly."""
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
"""Matches a relative import. Parsing the sources instead would dominate the server's startup time."""

_NAME = re.compile(rb"\w+")


@cache
def imported(path: Path, folder: Path) -> frozenset[Path]:
    """Returns the modules below a folder that a module imports by relative names."""
    statements = _IMPORT.findall(_read(path))
    return frozenset(each for found in statements for each in _modules(path, *found) if folder in each.parents)


def _modules(path: Path, dots: bytes, module: bytes, names: bytes) -> Iterator[Path]:
    """Yields the files of those names in an import statement that are modules."""
    parent = path.parents[len(dots) - 1].joinpath(*module.decode().split("."))
    for named in (parent, *(parent / name.decode() for name in _NAME.findall(names))):
        if (file := named.with_suffix(".py")).is_file():
            yield file
