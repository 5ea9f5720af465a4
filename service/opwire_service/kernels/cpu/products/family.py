"""GEMM and CONVOLUTION."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .convolution import ConvolutionJob
from .gemm import GemmJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE = {"GEMM": GemmJob, "CONVOLUTION": ConvolutionJob}
