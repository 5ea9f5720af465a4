"""Elements limited to an interval, and the gradients of that."""

from __future__ import annotations

from .formulas import of_family

KERNELS = of_family("clipping")
