"""The operators that unfold images to columns of blocks, and fold them back."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .fold import FoldJob
from .unfold import UnfoldJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE = {"FOLD": FoldJob, "UNFOLD": UnfoldJob}
