"""Which sources a kernel's machine code is made from: its module, and all that this imports of the CPU kernels.

What they import from elsewhere is for Python alone, and no part of any machine code.
"""

from __future__ import annotations

import ast
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
            waiting.extend(_imported(path, folder))
    return reached


@cache
def _read(path: Path) -> bytes:
    return path.read_bytes()


@cache
def _imported(path: Path, folder: Path) -> frozenset[Path]:
    statements = [node for node in ast.walk(ast.parse(_read(path))) if isinstance(node, ast.ImportFrom) and node.level]
    return frozenset(each for node in statements for each in _modules(path, node) if folder in each.parents)


def _modules(path: Path, statement: ast.ImportFrom) -> Iterator[Path]:
    """The files of the modules among what a statement names."""
    parent = path.parents[statement.level - 1].joinpath(*(statement.module or "").split("."))
    for named in (parent, *(parent / each.name for each in statement.names)):
        if (file := named.with_suffix(".py")).is_file():
            yield file
