"""Runs jobs for GPUs on the host, whose compiler compiles their kernels; their threads must not wait for each other."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, Program, source_text

from .on_host import compiled

_OF_GPU = ("scalars", "inverses")
"""Sources whose functions are those of the host."""

_CALL = """
extern "C" void NAME_launch(const TASK *task, u32 grid, u32 block) {
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) NAME(*task);
}
"""


class Launched:
    """The program of a job, compiled.

    Args:
        folder: where it is compiled.
        name: the name of its files.
        plan, card: what it is for.
        entry, task: its kernel, and the type of the kernel's parameter.
    """

    def __init__(self, folder: Path, name: str, plan: Plan, card: Card, entry: str, task: str) -> None:
        self.job = JOBS[plan.operator.name](plan, card)
        (program,) = self.job.programs
        self._library = compiled(folder, name, _text(program) + _CALL.replace("NAME", entry).replace("TASK", task))
        self._entry = entry

    def run(self, inputs: dict[str, Array], outputs: dict[str, Array]) -> Array:
        """Writes the outputs, and returns the places of what is undecided."""
        state = np.zeros(self.job.undecided_bytes // 4, np.uint32)
        at = {name: each.ctypes.data for name, each in (inputs | outputs).items()}
        memory = CudaMemory(
            {name: at[name] for name in inputs}, {name: at[name] for name in outputs}, 0, 0, state.ctypes.data
        )
        for launch in self.job.launches(memory):
            assert isinstance(launch, KernelLaunch)
            assert launch.entry == self._entry
            parameter = ctypes.c_void_p(launch.parameter.ctypes.data)
            self._library[f"{self._entry}_launch"](parameter, launch.grid[0], launch.block[0])
        return state[2 : 2 + 2 * int(state[0])].reshape(-1, 2)


def _text(program: Program) -> str:
    defined = "".join(f"#define {name} {value}\n" for name, value in program.macros)
    return defined + "\n".join(source_text(each) for each in program.sources if each not in _OF_GPU)
