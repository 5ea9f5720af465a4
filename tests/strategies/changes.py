"""Copies of drawn descs with one tensor changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .descs import Drawn


def changed(drawn: Drawn, name: str, **changes: Any) -> dict[str, Any]:
    """Returns the desc with some members of one tensor changed."""
    desc = deepcopy(drawn.desc)
    desc[name] = {**desc[name], **changes}
    return desc
