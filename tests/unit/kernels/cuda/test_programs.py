"""Programs compile for every architecture. This needs no card, and ``scripts/test-all`` compiles all of them."""

from __future__ import annotations

from itertools import cycle
from typing import NamedTuple

import pytest

from benchmarks.cells import CELLS
from opwire.check import check
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, Program
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


class Case(NamedTuple):
    name: str
    program: Program
    architecture: str

    def __str__(self) -> str:
        return f"{self.name} for {self.architecture}"

    def compile(self) -> None:
        machine_code(self.program, self.architecture)


@needs_nvrtc
def test_programs_of_every_kind_compile_for_some_architecture():
    """Neighbours take turns, so that each architecture gets its part."""
    turns = zip(of_every_kind().items(), cycle(ARCHITECTURES), strict=False)
    check_all([Case(name, program, architecture) for (program, name), architecture in turns], Case.compile)


@needs_nvrtc
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_programs_compile_for_every_architecture(architecture):
    check_all([Case(name, program, architecture) for program, name in programs().items()], Case.compile)


@needs_nvrtc
def test_errors_of_programs_are_reported():
    with pytest.raises(RuntimeError, match=r"sm_75: opwire\.cu.*error"):
        machine_code(Program((), (), "no code"), "sm_75")
