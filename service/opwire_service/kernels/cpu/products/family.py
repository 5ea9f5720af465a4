"""GEMM."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .gemm import GemmJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE = {"GEMM": GemmJob}
