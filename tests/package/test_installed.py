"""Checks of an installed copy, run against the working tree and, outside of it, against the wheel."""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.metadata import metadata, version
from pathlib import Path

import numpy as np
import pytest

from opwire import Client
from tests.support.paths import ROOT

PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
COMMAND = Path(sys.executable).with_name("opwire")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address that ``opwire serve`` prints."""
    with subprocess.Popen([COMMAND, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = (re.search(r"opwire is ready at (http://\S+)", line) for line in process.stderr)
            yield next(found[1] for found in lines if found)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
    assert process.returncode == 0


def test_the_distribution_has_its_metadata():
    assert version("opwire") == PROJECT["version"]
    assert metadata("opwire")["Requires-Python"] == PROJECT["requires-python"]
    assert metadata("opwire")["License-Expression"] == PROJECT["license"]


IMPORT_ALL = """
import importlib, pkgutil
for name in ("opwire", "opwire_service"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print((error.name or "").partition(".")[0])
"""
OPTIONAL = {"cupy", "matplotlib", "onnx", "onnxruntime", "opentelemetry", "ray"}
"""What is imported only where it is present."""


def test_every_module_imports_only_what_is_installed_with_it():
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL]
    missing = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert set(missing.split()) <= OPTIONAL


@pytest.mark.parametrize("package", ["opwire", "opwire_service"])
def test_package_is_typed(package):
    assert resources.files(importlib.import_module(package)).joinpath("py.typed").is_file()


def test_the_signatures_of_the_clients_are_installed():
    assert resources.files("opwire.client").joinpath("typed.pyi").is_file()


def test_the_command_has_help():
    shown = subprocess.run([COMMAND, "--help"], capture_output=True, text=True, timeout=120, check=True).stdout
    assert {"serve", "validate", "run", "operators"} <= set(re.findall(r"\w+", shown))


def test_an_installed_server_executes_a_request(url):
    with Client(url) as client:
        result = client.argmax(np.array([[1, 5, 2], [9, np.nan, 3]], np.float32), axes=[1])
    assert result.output.tolist() == [[1], [0]]


def test_an_installed_server_has_the_console():
    from opwire_service.http.documents.console import PAGES, Console

    console = Console()
    assert {"app/api.js", "css/base.css", "vendor/codemirror.js", "vendor/LICENSES.txt"} <= set(console.files)
    for page in PAGES.values():
        assert console.version.encode() in console.page(page, "./")
