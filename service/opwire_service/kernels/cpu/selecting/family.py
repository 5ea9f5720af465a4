"""Which operators choose elements by their values."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .nonzero import NonzeroJob
from .top import BEST, CHOSEN, TopJob

KERNELS: tuple[Kernel, ...] = (BEST, *CHOSEN.values())

PREPARE = {"TOP_K": TopJob, "TOP_K1": TopJob, "NONZERO_COORDINATES": NonzeroJob}
