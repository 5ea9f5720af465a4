"""Where what was compiled for GPUs, and what was measured of devices, is kept."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "OPWIRE_KERNEL_CACHE"


def cache_folder() -> Path:
    """The folder that ``OPWIRE_KERNEL_CACHE`` names, or one in the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opwire" / "kernels"
