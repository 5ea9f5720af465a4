"""The quantizations of the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opwire.check import Plan

from ..jit.compiler import Kernel
from ..run.job import Job
from .dynamic import DynamicJob
from .element_wise import LinearJob
from .sums import SumsJob

KERNELS: tuple[Kernel, ...] = ()

_SINGLE = partial(LinearJob, scale="ScaleTensor", zero_point="ZeroPointTensor")
_BLOCKS = partial(LinearJob, scale="QuantizationTensors[0]", zero_point="QuantizationTensors[1]")

PREPARE: dict[str, Callable[[Plan], Job]] = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": partial(_SINGLE, quantizes=True),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": partial(_SINGLE, quantizes=False),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": SumsJob,
    "DYNAMIC_QUANTIZE_LINEAR": DynamicJob,
    "QUANTIZE": partial(_BLOCKS, quantizes=True),
    "DEQUANTIZE": partial(_BLOCKS, quantizes=False),
}
