"""Authentication: a request without a valid API key is refused before its body is read."""

from __future__ import annotations

from starlette.types import Scope

from opwire.errors import AuthenticationError, ProblemCode

from ...engine.pipeline import Engine
from ..data.exchange import Exchange
from ..documents.console import OPEN_PREFIXES as CONSOLE_PREFIXES
from ..documents.console import PAGES
from ..documents.docs import PATHS as DOCUMENTS
from ..documents.icon import PATH as ICON
from ..documents.responses import ONE_OPERATOR
from ..documents.responses import OPEN as DESCRIBED
from .api_keys import ApiKeys, fingerprint

OPEN = frozenset({*DESCRIBED, "/openapi.json", *DOCUMENTS, *PAGES, ICON})
"""Paths that need no key: health probes, and the contract, pages and documents, which are the same on every server."""

OPEN_PREFIXES = (ONE_OPERATOR, *CONSOLE_PREFIXES)
"""Prefixes of further paths that need no key."""

METRICS = "/metrics"

_MAX_KEY_LENGTH = 4096


class Gate:
    """Admits requests with a valid key, and requests to open paths.

    Args:
        keys: the valid keys.
        metrics_open: whether the metrics are accessible without a key.
    """

    def __init__(self, keys: ApiKeys, *, metrics_open: bool) -> None:
        self._keys = keys
        self._open = OPEN | {METRICS} if metrics_open else OPEN

    def replace(self, keys: ApiKeys) -> None:
        """Replaces the valid keys, from the next request on."""
        self._keys = keys

    def admits(self, scope: Scope) -> bool:
        """Whether a request is admitted.

        Stores the owner of its key in the scope's state as ``client``, or else, as ``refused_key``, what is known of
        the key.
        """
        if scope["path"] in self._open or scope["path"].startswith(OPEN_PREFIXES):
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = (given[0] if len(given) == 1 else b"").partition(b" ")
        state = scope.setdefault("state", {})
        if scheme.lower() != b"bearer" or len(key) > _MAX_KEY_LENGTH:
            state["refused_key"] = "malformed" if given else "missing"
            return False
        key = key.strip(b" ")
        state["client"] = owner = self._keys.owner(key)
        if owner is None:
            state["refused_key"] = fingerprint(key)
        return owner is not None


async def refuse(engine: Engine, exchange: Exchange) -> None:
    """Handles requests that are not admitted."""
    given = exchange.header(b"authorization")
    detail = "the API key is not valid" if given else "send an API key: Authorization: Bearer KEY"
    raise AuthenticationError(ProblemCode.UNAUTHORIZED, detail)
