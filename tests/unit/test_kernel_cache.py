"""Invalidation of the on-disk cache of compiled kernels."""

from __future__ import annotations

import ast
import pickle
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.serialize import dumps

from opwire_service.kernels.cpu.families import KERNELS
from opwire_service.kernels.cpu.jit import cache, sources
from opwire_service.kernels.cpu.jit.sources import stamp

MODULES = {Path(kernel.function.py_func.__code__.co_filename).relative_to(sources.KERNELS) for kernel in KERNELS}
"""Files that contain kernels."""

READERS = {
    **{leaf: {leaf} for leaf in ("casting", "indexing", "products", "reduce", "regions", "resampling")},
    **{leaf: {leaf} for leaf in ("selecting", "sequences")},
    "averages": {"averages", "resampling"},
    "pooling": {"averages", "pooling", "resampling"},
    "views": {"cumulative", "indexing", "resampling", "views"},
    "extremes": {"extremes", "pooling"},
}
"""Maps each folder to the folders whose kernels may depend on it."""


@pytest.mark.parametrize("folder", READERS)
def test_an_edit_invalidates_only_dependent_kernels(tmp_path, folder):
    before = stamps(tmp_path / "before")
    after = stamps(tmp_path / "after", edited=folder)
    stale = {module for module in before if before[module] != after[module]}
    assert {module.parts[0] for module in stale} == READERS[folder]
    assert {module for module in MODULES if module.parts[0] == folder} <= stale


def stamps(copy: Path, edited: str | None = None) -> dict[Path, bytes]:
    """Returns the stamps in a copy of the kernels, optionally after editing each file of a folder."""
    shutil.copytree(sources.KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if edited:
        for file in (copy / edited).glob("*.py"):
            file.write_text(file.read_text("utf-8") + "\nEDITED = True\n", "utf-8")
    return {module: stamp(copy / module, copy) for module in MODULES}


IMPORTS = {
    "family/kernels.py": "from . import near\nfrom ..other.far import (\n    one,\n)\nfrom ...outside import Type\n",
    "family/near.py": "def inner() -> None:\n    from .late import constant as one, two\n",
    "family/late.py": "constant = 1\n",
    "family/unused.py": "from .kernels import kernel\n",
    "other/far.py": "from ..family import kernels\n",
    "../outside.py": "Type = int\n",
}


@pytest.mark.parametrize(
    ("edited", "counts"),
    [
        ("family/kernels.py", True),
        ("family/near.py", True),
        ("family/late.py", True),
        ("other/far.py", True),
        ("family/unused.py", False),
        ("../outside.py", False),
    ],
)
def test_a_stamp_follows_every_form_of_import(tmp_path, edited, counts):
    found = []
    for name, text in (("before", ""), ("after", "\nnew = True\n")):
        folder = tmp_path / name / "kernels"
        for file, source in IMPORTS.items():
            path = (folder / file).resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source + (text if file == edited else ""), "utf-8")
        found.append(stamp(folder / "family" / "kernels.py", folder))
    assert (found[0] != found[1]) == counts


def test_kernel_imports_match_those_found_by_python():
    for file in sources.KERNELS.rglob("*.py"):
        found = {each.relative_to(sources.KERNELS) for each in sources.imported(file, sources.KERNELS)}
        assert found == set(parsed_imports(file.relative_to(sources.KERNELS)))


def parsed_imports(module: Path) -> Iterator[Path]:
    """Yields the kernel modules that a module imports."""
    for node in ast.walk(ast.parse((sources.KERNELS / module).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(module.parts):
            parent = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            named = [parent, *(parent / each.name for each in node.names)]
            yield from (each.with_suffix(".py") for each in named if (sources.KERNELS / f"{each}.py").is_file())


def test_machine_code_that_cannot_be_restored_is_compiled_again(tmp_path):
    module = tmp_path / "doubling.py"
    module.write_text("def double(x):\n    return 2 * x\n", "utf-8")
    signature = numba.int64(numba.int64)
    written = cached(module)
    written.compile(signature)
    assert is_restored(cached(module), signature)
    (file,) = Path(written._cache.cache_path).glob("*.nbc")
    with file.open("rb") as pieces:
        stamped, key = pickle.load(pieces), pickle.load(pieces)
    damaged = (pickle.dumps(stamped), dumps(key), pickle.dumps("no machine code"))  # type: ignore[no-untyped-call] # numba is untyped
    file.write_bytes(b"".join(damaged))
    assert not is_restored(cached(module), signature)
    again = cached(module)
    again.compile(signature)
    assert again(21) == 42


def cached(module: Path) -> Any:
    """The function ``double`` of a module, not compiled yet, with a cache beside the module."""
    double = runpy.run_path(str(module))["double"]
    dispatcher = numba.njit(double)
    cache.keep(dispatcher)
    return dispatcher


def is_restored(dispatcher: Any, signature: Any) -> bool:
    return dispatcher._cache.load_overload(signature, dispatcher.targetctx) is not None
