"""The normalizations of the CPU device."""

from __future__ import annotations

from collections.abc import Callable

from opwire.check import Plan

from ..jit.compiler import Kernel
from ..run.job import Job
from .affine import AFFINE
from .batch_normalization import GivenStatisticsJob
from .gradients import GradientsJob
from .lengths import LengthsJob
from .response import PREPARE as RESPONSES
from .statistics import StatisticsJob

KERNELS: tuple[Kernel, ...] = AFFINE

PREPARE: dict[str, Callable[[Plan], Job]] = {
    "BATCH_NORMALIZATION": GivenStatisticsJob,
    "BATCH_NORMALIZATION_TRAINING": StatisticsJob,
    "MEAN_VARIANCE_NORMALIZATION": StatisticsJob,
    "MEAN_VARIANCE_NORMALIZATION1": StatisticsJob,
    "MEAN_VARIANCE_NORMALIZATION2": StatisticsJob,
    "BATCH_NORMALIZATION_GRAD": GradientsJob,
    "BATCH_NORMALIZATION_TRAINING_GRAD": GradientsJob,
    "LP_NORMALIZATION": LengthsJob,
    **RESPONSES,
}
