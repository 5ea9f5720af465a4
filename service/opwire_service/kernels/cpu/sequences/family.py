"""The operators that generate numbers as they write them."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .arithmetic import SequenceJob
from .pictures import SCALE, PictureJob

KERNELS: tuple[Kernel, ...] = tuple(SCALE.values())

PREPARE = {"FILL_VALUE_SEQUENCE": SequenceJob, "VALUE_SCALE_2D": PictureJob}
