"""Invalidation of the on-disk cache of compiled kernels."""

from __future__ import annotations

import ast
import os
import pickle
import runpy
import shutil
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.serialize import dumps

from opwire_service.kernels.code_files import read_own, write_own
from opwire_service.kernels.cpu.families import KERNELS
from opwire_service.kernels.cpu.jit import cache, sources
from opwire_service.kernels.cpu.jit.sources import stamp

MODULES = {Path(kernel.function.py_func.__code__.co_filename).relative_to(sources.ROOT) for kernel in KERNELS}
"""Files that contain kernels."""

READERS = {
    "formulas": {"reduce", "softmax"},
    **{leaf: {leaf} for leaf in ("casting", "indexing", "recurrent", "reduce", "regions", "resampling")},
    **{leaf: {leaf} for leaf in ("selecting", "sequences")},
    "pooling": {"pooling", "resampling"},
    "products": {"products", "recurrent"},
    "max_pooling": {"max_pooling"},
    "views": {"cumulative", "indexing", "resampling", "views"},
    "argreduce": {"argreduce", "max_pooling"},
}
"""Maps each folder to the folders of kernels that depend on it."""


@pytest.mark.parametrize("folder", READERS)
def test_an_edit_invalidates_only_dependent_kernels(tmp_path, folder):
    before = stamps(tmp_path / "before")
    after = stamps(tmp_path / "after", edited=folder)
    stale = {module for module in before if before[module] != after[module]}
    assert {module.parts[1] for module in stale} == READERS[folder]
    assert {module for module in MODULES if module.parts[1] == folder} <= stale


def stamps(copy: Path, edited: str | None = None) -> dict[Path, bytes]:
    """Returns the stamps in a copy of the kernels, optionally after editing each file of a folder."""
    shutil.copytree(sources.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__", "cuda"))
    if edited:
        for file in copy.glob(f"**/{edited}/*.py"):
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
    for file in sources.ROOT.rglob("*.py"):
        found = {each.relative_to(sources.ROOT) for each in sources.imported(file, sources.ROOT)}
        assert found == set(parsed_imports(file.relative_to(sources.ROOT)))


def parsed_imports(module: Path) -> Iterator[Path]:
    """Yields the kernel modules that a module imports."""
    for node in ast.walk(ast.parse((sources.ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(module.parts):
            parent = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            named = [parent, *(parent / each.name for each in node.names)]
            yield from (each.with_suffix(".py") for each in named if (sources.ROOT / f"{each}.py").is_file())


def test_machine_code_that_cannot_be_restored_is_compiled_again(tmp_path):
    module = tmp_path / "doubling.py"
    module.write_text("def double(x):\n    return 2 * x\n", "utf-8")
    signature = numba.int64(numba.int64)
    written = cached(module)
    written.compile(signature)
    assert is_restored(cached(module), signature)
    (file,) = Path(written._cache.cache_path).glob("*.kernel")
    rewrite(file, written, lambda key, data: dumps(key) + pickle.dumps("no machine code"))  # type: ignore[no-untyped-call] # numba is untyped
    assert not is_restored(cached(module), signature)
    again = cached(module)
    again.compile(signature)
    assert again(21) == 42


def rewrite(file: Path, dispatcher: Any, change: Callable[[Any, Any], bytes]) -> None:
    """Replaces the content of a cache file, with a seal that is right."""
    content = BytesIO(file.read_bytes()[32:])
    changed = change(pickle.load(content), pickle.load(content))
    file.write_bytes(dispatcher._cache._files._seal(changed) + changed)


class Planted:
    """An object that leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.trace,)


def own(file: Path) -> None:
    """The file of this user."""


def anyones(file: Path) -> None:
    file.chmod(0o646)


def a_groups(file: Path) -> None:
    file.chmod(0o664)


def anothers(file: Path) -> None:
    os.chown(file, 12345, -1)


def without_seal(file: Path) -> None:
    file.write_bytes(file.read_bytes()[32:])


def with_another_seal(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])


def with_a_changed_byte(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
posix = pytest.mark.skipif(os.name == "nt", reason="files have no modes")


@pytest.mark.parametrize(
    ("given", "runs"),
    [
        (own, True),
        pytest.param(anyones, False, marks=posix),
        pytest.param(a_groups, False, marks=posix),
        pytest.param(anothers, False, marks=needs_root),
        (without_seal, False),
        (with_another_seal, False),
        (with_a_changed_byte, False),
    ],
)
def test_files_that_others_may_have_written_are_not_unpickled(tmp_path, given, runs):
    module = tmp_path / "doubling.py"
    module.write_text("def double(x):\n    return 2 * x\n", "utf-8")
    signature, trace = numba.int64(numba.int64), tmp_path / "trace"
    written = cached(module)
    written.compile(signature)
    (file,) = Path(written._cache.cache_path).glob("*.kernel")
    rewrite(file, written, lambda key, data: pickle.dumps(key) + pickle.dumps(Planted(trace)))
    given(file)
    assert not is_restored(cached(module), signature)
    assert trace.exists() == runs


@posix
def test_a_file_is_not_written_through_a_link_that_lies_in_its_place(tmp_path):
    path, victim = tmp_path / "code", tmp_path / "victim"
    victim.write_text("kept")
    path.symlink_to(victim)
    path.with_name(f"code.{os.getpid()}-{threading.get_ident()}").symlink_to(victim)
    write_own(path, b"new")
    assert (victim.read_text(), read_own(path), path.is_symlink()) == ("kept", b"new", False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["code", "victim"]


def cached(module: Path) -> Any:
    """The function ``double`` of a module, not compiled yet, with a cache beside the module."""
    double = runpy.run_path(str(module))["double"]
    dispatcher = numba.njit(double)
    cache.keep(dispatcher)
    return dispatcher


def is_restored(dispatcher: Any, signature: Any) -> bool:
    return dispatcher._cache.load_overload(signature, dispatcher.targetctx) is not None
