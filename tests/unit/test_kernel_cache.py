"""The cache of compiled kernels on disk: what makes its entries stale."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opwire_service.kernels.cpu.families import KERNELS
from opwire_service.kernels.cpu.jit import sources
from opwire_service.kernels.cpu.jit.sources import stamp

MODULES = {Path(kernel.function.py_func.__code__.co_filename).relative_to(sources.KERNELS) for kernel in KERNELS}
"""The files that hold kernels."""

READERS = {
    "regions": {"regions"},
    "resampling": {"resampling"},
    "averages": {"averages", "resampling"},
    "pooling": {"averages", "pooling", "resampling"},
    "reduce": {"reduce"},
    "extremes": {"extremes", "pooling"},
    "numbers": {"averages", "pooling", "reduce", "regions", "resampling"},
    "run": {"averages", "extremes", "pooling", "reduce", "regions", "resampling", "run"},
}
"""Folder -> the folders whose kernels may be made from what it holds."""


@pytest.mark.parametrize("folder", READERS)
def test_an_edit_makes_no_kernels_stale_but_those_that_are_made_from_it(tmp_path, folder):
    before = stamps(tmp_path / "before")
    after = stamps(tmp_path / "after", edited=folder)
    stale = {module for module in before if before[module] != after[module]}
    assert {module.parts[0] for module in stale} == READERS[folder]
    assert {module for module in MODULES if module.parts[0] == folder} <= stale


def stamps(copy: Path, edited: str | None = None) -> dict[Path, bytes]:
    """The stamps of a copy of the kernels, in which each file of a folder may have been edited."""
    shutil.copytree(sources.KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if edited:
        for file in (copy / edited).glob("*.py"):
            file.write_text(file.read_text("utf-8") + "\nEDITED = True\n", "utf-8")
    return {module: stamp(copy / module, copy) for module in MODULES}


IMPORTS = {
    "family/kernels.py": "from . import near\nfrom ..other.far import function\nfrom ...outside import Type\n",
    "family/near.py": "def inner() -> None:\n    from .late import constant\n",
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
