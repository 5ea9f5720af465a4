"""An HTTP client connected to the shared server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture(scope="session")
def http(server_url: str) -> Iterator[httpx.Client]:
    """A connection to the server that the session shares."""
    with httpx.Client(base_url=server_url, timeout=30) as client:
        yield client
