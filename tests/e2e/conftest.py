"""Plain HTTP to a real server."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture(scope="session")
def http(server_url: str) -> Iterator[httpx.Client]:
    """A connection to the server of the session."""
    with httpx.Client(base_url=server_url, timeout=30) as client:
        yield client
