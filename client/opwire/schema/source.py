"""The JSON files of the schema."""

from __future__ import annotations

import json
from functools import cache
from pkgutil import get_data
from typing import Any


@cache
def document(name: str) -> dict[str, Any]:
    """Returns a file of the schema, by name without ``.json``. It must not be modified."""
    text = get_data(__name__, f"{name}.json")
    assert text is not None  # the file is part of the package
    found: dict[str, Any] = json.loads(text)
    return found
