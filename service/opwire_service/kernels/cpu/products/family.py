"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ..jit.compiler import Kernel
from ..run.job import Job
from .convolution import ConvolutionJob
from .gemm import GemmJob
from .integer_convolution import IntegerConvolutionJob
from .integer_products import IntegerProductJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CONVOLUTION": ConvolutionJob,
    "CONVOLUTION_INTEGER": IntegerConvolutionJob,
    "GEMM": GemmJob,
    "MATRIX_MULTIPLY_INTEGER": IntegerProductJob,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": IntegerProductJob,
    "QUANTIZED_LINEAR_CONVOLUTION": IntegerConvolutionJob,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": IntegerProductJob,
}
