"""Security headers: pages of the server load nothing from other origins and cannot be framed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EVERYWHERE = {"x-content-type-options": "nosniff"}
"""Headers of every response: browsers must not take it for something else than its media type says."""


def headers(*directives: str) -> dict[str, str]:
    """Returns the security headers for a page and its files.

    Args:
        directives: directives of the Content-Security-Policy that allow what the default ``'none'`` forbids.
    """
    ends = ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
    return {
        "content-security-policy": "; ".join(("default-src 'none'", *directives, *ends)),
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }


def raw(fields: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    """Returns headers in ASGI form."""
    return [(name.encode(), value.encode()) for name, value in fields.items()]
