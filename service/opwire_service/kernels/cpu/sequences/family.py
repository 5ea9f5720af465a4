"""Which operators compute numbers as they write them."""

from __future__ import annotations

from ..jit.compiler import Kernel
from .arithmetic import SequenceJob
from .pictures import PictureJob

KERNELS: tuple[Kernel, ...] = ()

PREPARE = {"FILL_VALUE_SEQUENCE": SequenceJob, "VALUE_SCALE_2D": PictureJob}
