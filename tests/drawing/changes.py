"""Changes of one member of a drawn desc."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .descs import Drawn


def changed(drawn: Drawn, name: str, **changes: Any) -> dict[str, Any]:
    """The desc with some members of one tensor changed."""
    desc = deepcopy(drawn.desc)
    desc[name] = {**desc[name], **changes}
    return desc
