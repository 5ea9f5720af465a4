"""Which operators turn images into columns of blocks, and back."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .fold import FoldJob
from .unfold import UnfoldJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE = {"FOLD": FoldJob, "UNFOLD": UnfoldJob}
