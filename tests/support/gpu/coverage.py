"""Which CUDA kernels a list of plans runs, and which it leaves out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from opwire.check import Plan
from opwire.graph import GRAPH
from opwire_service.kernels import cuda as kernels
from opwire_service.kernels.cuda.graph import graph_of
from opwire_service.kernels.cuda.job import Card, CudaJob, CudaMemory, KernelLaunch, MatrixProduct, Program
from tests.support.gpu.every_kernel import DATA_TYPES, FUNCTIONS, reduction

SOURCES = Path(kernels.__file__).parent

CARD = Card(132)
"""The card that the sizes below were chosen for; any card with more than a few will do."""

FEW_FLOAT64 = CARD._replace(float64_ratio=64)
"""A card that computes some operators in another way."""


def has_two_ways(plan: Plan) -> bool:
    """Whether a card with few float64 units runs other programs for a plan."""
    if plan.operator is GRAPH:
        return False
    first, second = (kernels.JOBS[plan.operator.name](plan, card).programs for card in (CARD, FEW_FLOAT64))
    return first != second


WALKS = ("DENSE", "ROWS", "SAME", "GATHER")
"""How the kernel of a formula can step through an input."""

TUNING = frozenset({"LANES", "ROW_BATCH", "ROW_BLOCKS", "COLUMN_BATCH", "COLUMN_BLOCKS"})
"""Macros that do not affect results."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Distinguishes launches: the entry point, what it computes, and whether blocks share an output."""

    entry: str
    computes: tuple[object, ...]
    splits: bool = False


def computes(program: Program) -> tuple[object, ...]:
    """What a program computes: its sources, and the macros that affect results."""
    return program.sources, *(macro for macro in program.macros if macro[0] not in TUNING)


def jobs(plan: Plan) -> Iterator[tuple[CudaJob, CudaMemory]]:
    """Yields the jobs of a plan, with null pointers for memory."""
    if plan.operator is GRAPH:
        for part in graph_of(plan, lambda each: kernels.JOBS[each.operator.name](each, CARD)).parts:
            yield part.job, CudaMemory(dict.fromkeys(part.inputs, 0), dict.fromkeys(part.outputs, 0), 0, 0, 0)
        return
    nowhere = CudaMemory(dict.fromkeys(plan.inputs, 0), dict.fromkeys(plan.outputs, 0), 0, 0, 0)
    yield kernels.JOBS[plan.operator.name](plan, CARD), nowhere
    if has_two_ways(plan):
        yield kernels.JOBS[plan.operator.name](plan, FEW_FLOAT64), nowhere


@cache
def launches(plan: Plan) -> tuple[KernelLaunch, ...]:
    """Returns the launches of a plan, except matrix products computed by a library."""
    every = (launch for job, memory in jobs(plan) for launch in job.launches(memory))
    return tuple(launch for launch in every if not isinstance(launch, MatrixProduct))


@cache
def launched(plan: Plan) -> tuple[Kernel, ...]:
    """Returns the kernels that a plan launches."""
    return tuple(kernel for launch in launches(plan) for kernel in kernels_of(launch, plan))


def kernels_of(launch: KernelLaunch, plan: Plan) -> Iterator[Kernel]:
    """Yields the kernels of a launch, with the properties that ``required`` looks at."""
    if "reduction" in launch.program.sources:
        yield Kernel(launch.entry, computes(launch.program), launch.grid[1] > 1)
    elif any(source.startswith("products/") for source in launch.program.sources):
        macros = dict(launch.program.macros)
        operand = macros.get("LEFT") or macros.get("INPUT") or macros.get("ELEMENT")
        yield Kernel(launch.entry, (operand, macros.get("QUANTIZED")))
    elif "elementwise" in launch.program.kernels:
        for walk in re.findall(r"load<\w+, (\w+),", launch.program.generated):
            yield Kernel(launch.entry, (walk,))
    elif "windows" not in launch.program.sources:
        yield Kernel(launch.entry, launch.program.sources[-1:])
    else:
        indices, dimensions = len(plan.outputs) > 1, len(plan.inputs["InputTensor"].sizes) - 2
        yield Kernel(launch.entry, (plan.inputs["InputTensor"].data_type.name, indices, dimensions))


@cache
def programs_of(plan: Plan) -> frozenset[Program]:
    return frozenset(program for job, _ in jobs(plan) for program in job.programs)


def sources() -> Iterator[str]:
    """Yields the names of all sources, as programs refer to them."""
    return (path.relative_to(SOURCES).with_suffix("").as_posix() for path in SOURCES.rglob("*.cu"))


def entries() -> set[tuple[str, str]]:
    """Returns every kernel that the sources define, as (source, entry point)."""
    pattern = re.compile(r"__global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(")
    return {
        (name, entry) for name in sources() for entry in pattern.findall((SOURCES / f"{name}.cu").read_text("utf-8"))
    }


def reached(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yields the kernels that a plan launches, as (source, entry point)."""
    for launch in launches(plan):
        yield from ((source, launch.entry) for source in (*launch.program.sources, *launch.program.kernels))


def required() -> Iterator[Kernel]:
    """Yields the variants that must be launched.

    These are the passes of every reduction along rows and columns, with and without splits; poolings with and without
    indices; every walk through an input of a formula; and the kernels of products of both types.
    """
    reductions = [entry for source, entry in sorted(entries()) if source == "reduction"]
    for function, data_type, size in itertools.product(FUNCTIONS, DATA_TYPES, (2, 2**16)):
        for plan in reduction(function, data_type, ([1, size], [1], None)):
            for program in kernels.JOBS[plan.operator.name](plan, CARD).programs:
                for entry, splits in itertools.product(reductions, (False, True)):
                    yield Kernel(entry, computes(program), splits)
    for data_type, indices in itertools.product(DATA_TYPES, (False, True)):
        yield Kernel("pool_strips", (data_type, indices, 2))
        yield Kernel("pool_windows", (data_type, indices, 2))
        yield Kernel("pool_windows", (data_type, indices, 3))
    for walk in WALKS:
        yield Kernel("compute", (walk,))
    for source, entry in sorted(entries()):
        if source == "products/requantize":
            yield from (Kernel(entry, ("u8", is_quantized)) for is_quantized in (0, 1))
        elif source == "products/gaps":
            yield from (Kernel(entry, (kind, None)) for kind in ("u32", "u16"))
        elif source.startswith("products/"):
            yield from (Kernel(entry, (kind, None)) for kind in ("f32", "f16"))


def missing(plans: Iterable[Plan]) -> list[object]:
    """Returns the sources, kernels, operators and required variants that the plans do not cover."""
    plans = list(plans)
    found = {kernel for plan in plans for kernel in launched(plan)}
    programs = {program for plan in plans for program in programs_of(plan)}
    used = {name for each in programs for name in (*each.sources, *each.kernels)}
    return [
        *sorted(set(sources()) - used),
        *sorted(entries() - {kernel for plan in plans for kernel in reached(plan)}),
        *sorted(kernels.JOBS.keys() - {plan.operator.name for plan in plans}),
        *dict.fromkeys(kernel for kernel in required() if kernel not in found),
    ]
