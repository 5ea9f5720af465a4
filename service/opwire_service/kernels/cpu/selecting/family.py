"""The operators that select elements by value."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .nonzero import NonzeroJob
from .rows import CHOSEN, prepare
from .top import BEST

KERNELS: tuple[Kernel, ...] = (BEST, *CHOSEN.values())

PREPARE = {"TOP_K": prepare, "TOP_K1": prepare, "NONZERO_COORDINATES": NonzeroJob}
