"""Programs compile for every architecture, and agree with the host on their parameters. This needs no card.

``scripts/test-all`` compiles all programs for each, otherwise one of each kind is compiled for one architecture, with
few optimizations.
"""

from __future__ import annotations

import re
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.cells import CELLS
from opwire.check import check
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, Program
from opwire_service.kernels.cuda.structures import Structure, constant, structure
from tests.support.examples import ROWS, check_all
from tests.support.gpu.nvrtc import ARCHITECTURES, library, machine_code

needs_nvrtc = pytest.mark.skipif(library() is None, reason="NVRTC is not installed")

CARDS = Card(40, 32), Card(132, 2)
"""One with few float64 units, and one with many."""

REQUESTS = {
    **{str(row): row.request for row in ROWS if row.operator.name in JOBS},
    **{f"{cell}": cell.request for cells in CELLS.values() for cell in cells["cuda"]()},
}
"""The worked examples, and the cells of benchmarks, whose tensors are large."""


def programs() -> dict[Program, str]:
    """Returns all programs, each with the first request that needs it."""
    found: dict[Program, str] = {}
    for name, request in REQUESTS.items():
        for card in CARDS:
            for program in JOBS[request["type"]](check(request), card).programs:
                found.setdefault(program, name)
    return found


def of_every_kind() -> dict[Program, str]:
    """Returns a program of each kind, which is its sources."""
    kinds = {(program.sources, program.kernels): (program, name) for program, name in programs().items()}
    return dict(kinds.values())


def layouts(name: str) -> dict[tuple[Program, str], Structure]:
    """Returns the structures that the host passes to the kernels of a request, by program and entry."""
    plan = check(REQUESTS[name])
    found = {}
    for card in CARDS:
        addresses = (1 << 32 + i for i in range(100))
        inputs, outputs = (dict(zip(descs, addresses, strict=False)) for descs in (plan.inputs, plan.outputs))
        memory = CudaMemory(inputs, outputs, next(addresses), next(addresses), next(addresses))
        for launch in islice(JOBS[plan.operator.name](plan, card).launches(memory), 100):
            if isinstance(launch, KernelLaunch):
                found[launch.program, launch.entry] = launch.parameter.dtype
    return found


def asserted(structure: str, layout: Structure) -> str:
    """Returns C that only compiles if a structure has a layout; of some, only the size is known."""
    places = {name: layout.fields[name][1] for name in layout.names or ()} if layout.fields else {}
    facts = (f"__builtin_offsetof({structure}, {name}) == {offset}" for name, offset in places.items())
    sizes = f"sizeof({structure}) == {layout.itemsize}"
    return "".join(f'static_assert({fact}, "layout");\n' for fact in (sizes, *facts))


class Case(NamedTuple):
    name: str
    program: Program
    architecture: str

    def __str__(self) -> str:
        return f"{self.name} for {self.architecture}"

    def compile(self, *options: str) -> None:
        code = self.program.code
        for (program, entry), layout in layouts(self.name).items():
            if program == self.program:
                parameter = re.search(rf"\b{entry}\(const __grid_constant__ (\w+) ", code)
                assert parameter is not None
                code += asserted(parameter[1], layout)
        machine_code(code, self.architecture, *options)

    def compile_quickly(self) -> None:
        self.compile("--Ofast-compile=max")


@needs_nvrtc
def test_programs_of_every_kind_compile_and_their_parameters_are_laid_out_as_the_host_writes_them():
    """Neighbours take turns, so that each architecture gets its part."""
    turns = zip(of_every_kind().items(), cycle(ARCHITECTURES), strict=False)
    check_all([Case(name, program, architecture) for (program, name), architecture in turns], Case.compile_quickly)


@needs_nvrtc
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_programs_compile_for_every_architecture(architecture):
    check_all([Case(name, program, architecture) for program, name in programs().items()], Case.compile)


def test_structures_are_read_from_sources():
    found = structure("Sequence", "movement/walk", "movement/sequence", STEPS=2)
    assert found.names == ("target", "start", "delta", "start_bits", "delta_bits", "first", "count", "walk")
    assert found.fields is not None
    assert [found.fields[name][1] for name in found.names] == [0, 8, 16, 24, 32, 40, 44, 48]
    assert found["delta"] == np.float64
    loop = found["walk"]["loop"]
    assert loop.shape == (16,)
    assert loop.base == np.dtype(
        [*((name, "<u4") for name in ("size", "factor", "shift1", "shift2")), ("step", "<u4", 2)]
    )
    assert constant("BATCH", "movement/sequence") == 4


@needs_nvrtc
def test_errors_of_programs_are_reported():
    with pytest.raises(RuntimeError, match=r"sm_75: opwire\.cu.*error"):
        machine_code("no code", "sm_75")
