"""SOFTMAX, LOG_SOFTMAX and HARDMAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from opwire.check import Plan
from opwire.tensor import Array, DataType

from ....execution import Stop
from ...cpu.softmax.settling import Row
from ...reference.softmax import LOG_SOFTMAX, SOFTMAX, axes_of
from ..job import Card
from .exponentials import MACROS, OF_PAIRS, logarithms
from .rows import NormalizationJob, RowKernels


def _exact(row: Array, values: Array, beside: Mapping[str, Array], stop: Stop, *, logarithm: bool) -> Array:
    share = LOG_SOFTMAX if logarithm else SOFTMAX
    return Row(row, share, logarithm=logarithm, stop=stop).results(values)


def _kernels(*, logarithm: bool) -> RowKernels:
    return RowKernels(
        ("normalization/exponential", "normalization/softmax"),
        32,
        16,
        (("LOGARITHM", int(logarithm)), *MACROS),
        exact=partial(_exact, logarithm=logarithm),
        keeps=not logarithm,
        prefetches=not logarithm,  # prefetching slows the logarithm down
    )


SINGLES = _kernels(logarithm=False)
"""SOFTMAX of FLOAT32."""

LOGARITHMS = _kernels(logarithm=True)
"""LOG_SOFTMAX."""

HALVES = RowKernels(
    ("normalization/exponential", "normalization/softmax_halves"),
    24,
    32,
    MACROS,
    exact=partial(_exact, logarithm=False),
    keeps=True,
)
"""SOFTMAX of FLOAT16."""


_SOURCE_OF_PAIRS = tuple(
    f"normalization/{each}" for each in ("exponential_pairs", "exponential", "softmax", "totals", "softmax_pairs")
)


def _in_pairs(kernels: RowKernels, shared: RowKernels) -> RowKernels:
    """Returns kernels for GPUs with few float64 units, except for rows that several blocks share."""
    return replace(
        kernels,
        source=_SOURCE_OF_PAIRS,
        state_bytes=24,
        row_bytes=16,
        macros=(*kernels.macros, *OF_PAIRS),
        functions=logarithms(),
        in_pairs=True,
        resums=True,
        shared=shared,
    )


HARDMAX = RowKernels(("normalization/hardmax",), 8, 4, ordered=True)


def job(plan: Plan, card: Card, *, kernels: RowKernels) -> NormalizationJob:
    """Returns the job for a softmax or hardmax plan."""
    source, target = plan.inputs["InputTensor"], plan.outputs["OutputTensor"]
    own = HALVES if kernels is SINGLES and source.data_type is DataType.FLOAT16 else kernels
    if card.prefers_pairs and kernels is not HARDMAX:
        own = _in_pairs(kernels, own)
    return NormalizationJob(source, target, {}, axes_of(plan), own, card.processors)


_FORMS = {"SOFTMAX": SINGLES, "LOG_SOFTMAX": LOGARITHMS, "HARDMAX": HARDMAX}

JOBS: dict[str, Callable[[Plan, Card], NormalizationJob]] = {
    f"ACTIVATION_{name}{form}": partial(job, kernels=kernels) for name, kernels in _FORMS.items() for form in ("", "1")
}
