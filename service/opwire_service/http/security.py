"""The headers under which pages of the server may load nothing from elsewhere, and be shown nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def headers(*directives: str) -> dict[str, str]:
    """The security headers of a page and of its files.

    Args:
        directives: of the content security policy, besides those that forbid everything.
    """
    ends = ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")
    return {
        "content-security-policy": "; ".join(("default-src 'none'", *directives, *ends)),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }


def raw(fields: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    """Headers as ASGI has them."""
    return [(name.encode(), value.encode()) for name, value in fields.items()]
