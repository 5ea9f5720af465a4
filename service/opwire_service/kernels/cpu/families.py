"""Registry of the CPU kernels: which family prepares which operator, and every kernel there is."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from .argreduce import family as argreduce
from .casting import family as casting
from .cumulative import family as cumulative
from .elementwise import family as elementwise
from .folding import family as folding
from .indexing import family as indexing
from .jit.compiler import Kernel
from .max_pooling import backward as max_pooling_backward
from .max_pooling import family as max_pooling
from .normalization import family as normalization
from .optimizer import family as optimizer
from .pooling import family as pooling
from .products import family as products
from .quantization import family as quantization
from .random import family as random
from .recurrent import family as recurrent
from .reduce import family as reduce
from .regions import family as regions
from .resampling import family as resampling
from .run import sharing
from .run.job import Job
from .selecting import family as selecting
from .sequences import family as sequences
from .softmax import family as softmax
from .views import family as views

_FAMILIES = (
    *(argreduce, reduce, max_pooling, max_pooling_backward, pooling, regions, resampling),
    *(views, casting, indexing, selecting, sequences, folding),
    *(elementwise, softmax, normalization, quantization, cumulative, random, optimizer),
    *(products, recurrent),
)

PREPARE: dict[str, Callable[[Plan], Job]] = {
    name: prepare for family in _FAMILIES for name, prepare in family.PREPARE.items()
}
"""Builds the job for a plan, by operator name. Operators not listed here run on the reference kernels."""

ALWAYS = sharing.KERNELS
"""Kernels that any plan may need."""

KERNELS: tuple[Kernel, ...] = (*ALWAYS, *(kernel for family in _FAMILIES for kernel in family.KERNELS))
"""Every kernel that can be compiled."""

COMPILING = "opwire_service.kernels.cpu.compiling"
"""Module that compiles ``KERNELS`` in a separate process."""
