"""JSON pointers (RFC 6901), implemented independently of the package."""

from __future__ import annotations

from typing import Any


def resolves(document: Any, pointer: str) -> bool:
    """Whether a pointer refers to an existing value of a document."""
    if pointer == "":
        return True
    if not pointer.startswith("/"):
        return False
    value = document
    for part in pointer[1:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and str(int(name)) == name and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    return True
