"""The cache folder for compiled GPU kernels and device measurements."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "OPWIRE_KERNEL_CACHE"


def cache_folder() -> Path:
    """Returns the folder set by ``OPWIRE_KERNEL_CACHE``, or a default one in the user's cache directory."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opwire" / "kernels"
