"""The predicted time of a cell on a card."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from opwire.check import Plan, check
from opwire_service.kernels.code_files import write_own
from opwire_service.kernels.cuda import JOBS
from opwire_service.kernels.cuda.compiler import OPTIONS, file_name
from opwire_service.kernels.cuda.job import Card, CudaMemory, KernelLaunch, Launch, MatrixProduct, Program
from opwire_service.kernels.folder import cache_folder
from tests.support.gpu.nvrtc import machine_code, version

from ..cell import Cell
from .cards import Board
from .counting import Work, executed
from .disassembly import disassembled, functions
from .paths import Path, common_path

_APART = 1 << 40
"""Distance between the made-up addresses of tensors."""

_RARE_KERNELS = ("sum_special", "sum_again", "settle")
"""Kernels of products that have nearly nothing to do: for infinities, NaN and undecided sums."""

_COMBINED = 4
"""Bytes of a sum of remainders."""


_SETTLING = ("PASS", "SETTLE")
"""The macro of reductions of what a quick pass leaves undecided."""


class Prediction(NamedTuple):
    """The prediction for a card.

    Attributes:
        seconds: the predicted time.
        ratio: relative to a copy of as many bytes; for products, the time relative to FLOAT32 arithmetic at its peak.
        limit: the pipe that takes longest, or ``copy``.
        per_element: instructions per element of the larger of inputs and outputs, by pipe.
    """

    seconds: float
    ratio: float
    limit: str
    per_element: dict[str, float]

    @property
    def told(self) -> dict[str, str | float]:
        """The prediction as results have it, with the float64 instructions of an element."""
        float64 = self.per_element.get("float64", 0.0)
        return {"ratio": round(self.ratio, 3), "limit": self.limit, "float64": round(float64, 2)}


def predicted(cell: Cell, card: Board) -> Prediction:
    """Returns the prediction for a cell."""
    plan = check(cell.request)
    job = JOBS[plan.operator.name](plan, Card(card.processors, card.float64_ratio))
    launches = list(job.launches(_memory(plan)))
    products = [launch for launch in launches if isinstance(launch, MatrixProduct)]
    counts: Counter[str] = Counter()
    for (program, entry), threads in _kernels(launches).items():
        if (products and entry in _RARE_KERNELS) or _SETTLING in program.macros:
            continue
        path = _path(program, entry, card.architecture.name)
        counts += executed(path, threads, _work(plan, entry, products))
    elements = max(desc.element_count for desc in (*plan.inputs.values(), *plan.outputs.values()))
    each = {pipe: count / elements for pipe, count in counts.items()}
    seconds = card.seconds(counts)
    if products:
        return _of_product(products, max(seconds.values()), card, each)
    copy = (cell.moved or sum(_bytes(plan, inputs) for inputs in (True, False))) / (card.bandwidth * 1e9)
    limit = max(seconds, key=lambda pipe: seconds[pipe])
    if seconds[limit] <= copy:
        return Prediction(copy, 1.0, "copy", each)
    return Prediction(seconds[limit], copy / seconds[limit], limit, each)


def _of_product(products: Iterable[MatrixProduct], kernels: float, card: Board, each: dict[str, float]) -> Prediction:
    """Returns the prediction for a matrix product: kernels and products of bytes run one after the other."""
    taken, own = 0.0, 0.0
    for one in products:
        operations = 2 * one.count * one.rows * one.columns * one.depth
        taken += operations / (card.bytes * 1e12 if one.is_of_bytes else 2 * card.per_second("float64"))
        own = max(own, 2 * one.rows * one.columns * one.depth / (2 * card.per_second("float32")))
        moved = one.count * one.rows * one.columns * _COMBINED * 2
        kernels = max(kernels, moved / (card.bandwidth * 1e9))
    return Prediction(taken + kernels, (taken + kernels) / own, "tensor" if taken > kernels else "kernels", each)


def _bytes(plan: Plan, inputs: bool) -> int:
    return sum(desc.data_size_in_bytes for desc in (plan.inputs if inputs else plan.outputs).values())


def _work(plan: Plan, entry: str, products: list[MatrixProduct]) -> Work:
    """Returns what a kernel moves in all: everything, but the kernels of a product have their parts."""
    if products and entry.startswith("split"):
        (one,) = products
        elements = (one.rows if entry == "split_left" else one.columns) * one.depth
        return Work(4.0 * elements, 0)
    return Work(_bytes(plan, True), _bytes(plan, False))


def _memory(plan: Plan) -> CudaMemory:
    addresses = (_APART * i for i in range(1, 1000))
    inputs, outputs = ({name: next(addresses) for name in descs} for descs in (plan.inputs, plan.outputs))
    return CudaMemory(inputs, outputs, next(addresses), next(addresses), next(addresses))


def _kernels(launches: Iterable[Launch]) -> dict[tuple[Program, str], int]:
    """Returns the threads of each kernel, of all its launches."""
    found: Counter[tuple[Program, str]] = Counter()
    for launch in launches:
        if isinstance(launch, KernelLaunch):
            (across, down), (wide, tall) = launch.grid, launch.block
            found[launch.program, launch.entry] += across * down * wide * tall
    return found


@cache
def _paths(program: Program, architecture: str) -> dict[str, Path]:
    found = functions(_disassembled(program.code, architecture))
    return {name: common_path(blocks) for name, blocks in found.items() if not name.startswith("$")}


def _disassembled(code: str, architecture: str) -> str:
    """Returns the machine code of a program as text, which is kept for later runs."""
    kept = cache_folder() / "rates" / f"{file_name(code, (*OPTIONS, architecture), version())}.text"
    try:
        return zlib.decompress(kept.read_bytes()).decode()
    except OSError:
        text = disassembled(machine_code(code, architecture))
        write_own(kept, zlib.compress(text.encode(), 1))
        return text


def _path(program: Program, entry: str, architecture: str) -> Path:
    return _paths(program, architecture)[entry]
