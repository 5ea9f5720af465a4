"""Recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from opwire.check import Plan

from ..jit.compiler import Kernel
from ..run.job import Job
from .job import RecurrentJob, Variant
from .steps import GRU, LSTM, RNN

_VARIANTS = {"RNN": Variant(RNN, 1, 1, 0), "GRU": Variant(GRU, 2, 2, 1), "LSTM": Variant(LSTM, 3, 4, 0)}

KERNELS: tuple[Kernel, ...] = tuple(variant.kernel for variant in _VARIANTS.values())

PREPARE: dict[str, Callable[[Plan], Job]] = {
    name: partial(RecurrentJob, variant) for name, variant in _VARIANTS.items()
}
