"""Fixtures for testing the console in the system's Chromium, driven by Playwright, against a real server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.browser.tabs import Tabs
from tests.support.http.serving import serving

playwright = pytest.importorskip("playwright.sync_api")
playwright.expect.set_options(timeout=20_000)  # slow on a busy machine is not broken

# Switches off background traffic: any request to another host fails a test.
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
"""Browsers, from the one that takes the least processor time to the others."""


def _chromium() -> str:
    found = os.environ.get("OPWIRE_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no chromium on the PATH; OPWIRE_CHROMIUM names another one")
    return found


@pytest.fixture(scope="package")
def tabs() -> Iterator[Tabs]:
    """Opens tabs. Closed after the last browser test, as asyncio loops of other tests cannot run beside Playwright."""
    path = _chromium()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=_QUIET)
        yield Tabs(browser)
        browser.close()


@pytest.fixture(scope="package")
def console_url() -> Iterator[str]:
    """The URL of a server with default settings."""
    with serving() as server:
        assert server.url is not None
        yield server.url


@pytest.fixture(autouse=True)
def _closed_tabs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Closes a test's tabs and fails the test if anything went wrong in them."""
    yield
    if "tabs" in request.fixturenames:
        problems = request.getfixturevalue("tabs").close_all()
        assert not problems, "\n".join(problems)
