"""Fixtures and options shared by all tests."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from opwire_service.devices.base import Device
from opwire_service.devices.cpu import CpuDevice
from tests.support.devices import loaded
from tests.support.http.clients import KINDS, MakeClient, clients
from tests.support.http.serving import serving
from tests.support.profiles import SMALL

# Every httpx client loads the trusted certificates, which takes 27 ms; no test server uses one of them.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# No deadlines: slow on a busy machine is not broken.
settings.register_profile("small", max_examples=SMALL, deadline=None, derandomize=True, database=None)
settings.register_profile("large", max_examples=10 * SMALL, deadline=None)
settings.load_profile("small")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("opwire")
    group.addoption("--thorough", action="store_true", help="run the tests marked thorough too")
    group.addoption("--serial", action="store_true", help="run the tests marked serial alone")


HAS_CUPY = find_spec("cupy") is not None

_OF_ALL = re.compile("^pytestmark = .*", re.MULTILINE)
"""Marks of all tests of a file."""


def pytest_report_header() -> str | None:
    return None if HAS_CUPY else "there is no CuPy here, so the tests marked cuda are left out"


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Disables the garbage collector during collection, when nothing becomes garbage."""
    gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignores files of which no test is to run: each process that runs tests would import them."""
    if not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text("utf-8")
    if config.getoption("--serial") and "mark.serial" not in text:
        return True
    of_all = _OF_ALL.findall(text)
    is_thorough, needs_card = (any(f"mark.{name}" in each for each in of_all) for name in ("thorough", "cuda"))
    return (is_thorough and not config.getoption("--thorough")) or (needs_card and not HAS_CUPY) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests that belong to another pass of ``scripts/test``, to ``scripts/test-all``, or need a GPU."""
    is_parallel = hasattr(config, "workerinput")
    only_serial: bool = config.getoption("--serial")
    thorough: bool = config.getoption("--thorough")

    def belongs(item: pytest.Item) -> bool:
        is_serial = item.get_closest_marker("serial") is not None
        in_pass = is_serial if only_serial else not (is_serial and is_parallel)
        is_here = HAS_CUPY or item.get_closest_marker("cuda") is None
        return in_pass and is_here and (thorough or item.get_closest_marker("thorough") is None)

    parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        parts[belongs(item)].append(item)
    if parts[False]:
        config.hook.pytest_deselected(items=parts[False])
        items[:] = parts[True]


def pytest_collection_finish() -> None:
    """Exempts all that was imported and collected from garbage collection, then enables the collector."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def gc_disabled() -> Iterator[None]:
    """Disables the garbage collector; its passes take longer the more objects earlier tests have left."""
    gc.disable()
    yield
    gc.enable()


# The first test that needs a kernel compiles it, which takes longer than the test itself.
_CARD = pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.timeout(600)])
DEVICE_NAMES = ["reference", "cpu", *([_CARD] if HAS_CUPY else [])]
"""The devices that device tests run on."""


@pytest.fixture(scope="session", params=DEVICE_NAMES)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == CpuDevice.name:
        yield request.getfixturevalue("cpu_device")
        return
    with loaded(request.param) as made:
        yield made


@pytest.fixture(scope="session")
def cpu_device() -> Iterator[CpuDevice]:
    """The CPU device with all kernels compiled, so that tests cover them and not their fallbacks."""
    made = CpuDevice()
    made.warm_up()
    yield made
    made.close()


@pytest.fixture(scope="session")
def cpu() -> Iterator[Device]:
    """The CPU device, for what other devices are compared with; its kernels are compiled as they are needed."""
    with loaded("cpu") as made:
        yield made


@pytest.fixture(scope="session")
def reference() -> Iterator[Device]:
    with loaded("reference") as made:
        yield made


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a real server with default settings, shared by all tests of a session."""
    with serving() as server:
        assert server.url is not None
        yield server.url


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop that ``anyio`` tests run on."""
    return "asyncio"


@pytest.fixture(params=KINDS)
def make_client(request: pytest.FixtureRequest) -> Iterator[MakeClient]:
    """Makes clients; a test that uses it runs once with each kind, sync and async."""
    with clients(request.param) as make:
        yield make


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    name = ("-subj", "/CN=opwire", "-addext", "subjectAltName=IP:127.0.0.1")
    command = [openssl, *new, *name, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
