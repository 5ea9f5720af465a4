"""What importing the client imports, and what that costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import opwire
from opwire import errors

EXPORTED = """
    AsyncClient AuthenticationError BufferTensorDesc Call Client Code ConnectError ContractViolation DataType
    DeadlineExceededError FeatureLevel Graph GraphTensor InternalError InvalidResponseError LengthRequiredError
    LimitExceededError LocalClient
    MethodNotAllowedError NotExecutableError NotFoundError OpwireError OverloadedError Plan PoolingResult ProblemCode
    RequestError Result SlowBodyError TransportError TransportTimeout UnavailableError UnsupportedMediaError Validation
    Violation __version__ assert_close_ulp check check_graph diff local prepare strided ulp validate validate_graph
"""
DEPENDENCIES = "import numpy, httptools, httpx, pybase64; from pydantic import TypeAdapter, with_config"
"""What the client uses of them; pydantic loads its parts on demand."""


def run(code: str) -> str:
    """Returns what a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_all_exported_names_exist():
    assert sorted(opwire.__all__) == EXPORTED.split()
    assert all(getattr(opwire, name) is not None for name in opwire.__all__)
    name = "Nonsense"
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        getattr(opwire, name)


def test_every_error_is_exported():
    raised = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert raised <= set(opwire.__all__)


def test_check_is_the_function_rather_than_the_module():
    operator = {"type": "ARGMAX", "desc": {}}
    with pytest.raises(opwire.ContractViolation):
        opwire.check(operator)
    assert sys.modules["opwire.check"].check is opwire.check


@pytest.mark.parametrize("module", ["opwire", "opwire.check", "opwire.wire", "opwire.describe", "opwire.client"])
def test_the_client_does_not_need_the_service(module):
    heavy = ("fastapi", "starlette", "uvicorn", "typer", "numba", "cupy", "opwire_service", "prometheus_client", "rich")
    loaded = run(f"import sys, {module}; print(*sys.modules)").split()
    assert module in loaded
    # httpx has a command line of its own, which imports rich if it is installed
    brought = set(run("import sys, httpx; print(*sys.modules)").split())
    assert sorted(set(heavy) & (set(loaded) - brought)) == []


def test_http_libraries_are_imported_with_the_first_client():
    speakers = {"httpx", "httptools", "ssl", "opwire.client", "opwire.transport"}
    loaded = run("import sys, opwire; print(*sys.modules); opwire.Client; print(); print(*sys.modules)").splitlines()
    assert speakers.isdisjoint(loaded[0].split())
    assert speakers <= set(loaded[-1].split())


def test_the_client_imports_little_beyond_its_dependencies():
    loaded, brought = (
        set(run(f"import sys; {code}; print(*sys.modules)").split()) for code in ("import opwire.client", DEPENDENCIES)
    )
    added = {module for module in loaded - brought if module.partition(".")[0] != "opwire"}
    assert {module.partition(".")[0] for module in added} <= {*sys.stdlib_module_names, "numpy"}
    assert len(added) < 20


def seconds(code: str) -> float:
    """Returns the minimum CPU time of three fresh interpreters."""
    return min(float(run(f"import time; {code}; print(time.process_time())")) for _ in range(3))


@pytest.mark.serial
def test_importing_takes_little_longer_than_the_dependencies():
    assert seconds("import opwire") < 1.5 * seconds(DEPENDENCIES)


def test_dir_lists_what_the_package_offers():
    assert dir(opwire) == sorted(opwire.__all__)
    assert {"Client", "AsyncClient", "Graph", "prepare"} <= set(dir(opwire))
