"""Fetches Microsoft's DirectML libraries for Linux, and compiles what they link to on a machine without a GPU.

The libraries are in the torch-directml wheels (MIT license). They are kept in the user's cache folder; none of them is
part of opwire.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "torch-directml"

VERSIONS = {"5_0+": "0.1.13.1.dev230119", "5_2": "0.1.13.1.dev230413", "6_2": "0.2.1.dev240521"}
"""The version of the package by the feature level that its library reports; ``5_0+`` also takes parts of 5_1."""

_LIBRARY = "libdirectml.so"
_STUBS = Path(__file__).parent / "stubs"
_PLATFORMS = [f"--platform=manylinux{version}_x86_64" for version in ("1", "2010", "2014")]


class Unavailable(Exception):
    """DirectML cannot be asked on this machine; the message says why."""


def folder(level: str) -> Path:
    """Returns the folder with the library of a level and its stubs, after fetching and compiling them once.

    Raises:
        Unavailable: this machine cannot run, fetch or compile them.
    """
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opwire" / "directml"
    found = home / f"{level}-{VERSIONS[level]}"
    if not found.exists():
        _require()
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            _fetch(VERSIONS[level], made)
            _move(made, found)
    _compile(found)
    return found


def _require() -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable("DirectML's library needs Linux on x86-64")


def _move(made: Path, found: Path) -> None:
    try:
        made.rename(found)
    except OSError:
        if not found.exists():  # otherwise another process was faster
            raise


def _fetch(version: str, target: Path) -> None:
    """Puts the library of a wheel into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = ("--no-deps", "--only-binary=:all:", "--python-version=310", *_PLATFORMS, f"{PACKAGE}=={version}")
        _run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", scratch, *wheel], "pip cannot fetch it")
        (file,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(file) as archive:
            (name,) = (each for each in archive.namelist() if Path(each).name.startswith("libdirectml"))
            with archive.open(name) as packed, (target / _LIBRARY).open("wb") as file_:
                shutil.copyfileobj(packed, file_)


def _compile(target: Path) -> None:
    """Compiles the stubs that are not there yet, or older than their source."""
    for source in sorted(_STUBS.glob("*.c")):
        made = target / f"lib{source.stem}.so"
        if made.exists() and made.stat().st_mtime >= source.stat().st_mtime:
            continue
        compiler = shutil.which("cc")
        if compiler is None:
            raise Unavailable("there is no C compiler (cc)")
        with tempfile.TemporaryDirectory(dir=target) as scratch:
            script, result = Path(scratch) / "versions", Path(scratch) / made.name
            script.write_text("VER_1 { global: *; };")  # the library asks for symbols of this version
            versions = [f"-Wl,--version-script={script}"] if source.stem == "d3d12" else []
            flags = ["-shared", "-fPIC", "-O1", f"-Wl,-soname,{made.name}", *versions]
            _run([compiler, *flags, "-o", str(result), str(source)], "the stubs cannot be compiled")
            result.replace(made)


def _run(command: list[str], problem: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        last = (ran.stderr.strip() or f"exit code {ran.returncode}").splitlines()[-1]
        raise Unavailable(f"{problem}: {last}")
