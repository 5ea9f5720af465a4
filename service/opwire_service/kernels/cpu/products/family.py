"""Matrix products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ..jit.compiler import Kernel
from ..run.job import Job
from .attention import AttentionJob
from .calls import CALLS, CLEAR
from .convolution import ConvolutionJob
from .direct import DIRECT
from .gemm import GemmJob
from .integer_convolution import IntegerConvolutionJob
from .integer_products import IntegerProductJob
from .multiplying import MULTIPLY, MULTIPLY_SINGLES
from .packing import PACK
from .rounding import ROUND
from .settling import SETTLE, SETTLE_FEW
from .single_rows import MULTIPLY_ROW
from .unfolding import UNFOLD
from .widening import WIDEN

KERNELS: tuple[Kernel, ...] = (
    *(CALLS, CLEAR, MULTIPLY, MULTIPLY_SINGLES),
    *[
        kernel
        for kernels in (WIDEN, PACK, MULTIPLY_ROW, UNFOLD, ROUND, SETTLE_FEW, SETTLE, DIRECT)
        for kernel in kernels.values()
    ],
)

PREPARE: dict[str, Callable[[Plan], Job]] = {
    "CONVOLUTION": ConvolutionJob,
    "CONVOLUTION_INTEGER": IntegerConvolutionJob,
    "GEMM": GemmJob,
    "MATRIX_MULTIPLY_INTEGER": IntegerProductJob,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": IntegerProductJob,
    "MULTIHEAD_ATTENTION": AttentionJob,
    "MULTIHEAD_ATTENTION1": AttentionJob,
    "QUANTIZED_LINEAR_CONVOLUTION": IntegerConvolutionJob,
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": IntegerProductJob,
}
