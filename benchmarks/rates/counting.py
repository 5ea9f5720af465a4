"""How many instructions of each pipe a launch runs, from the common path of its kernel and the bytes it moves."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .paths import FLOAT64, Path

LOADS, STORES, SHARED = ("LDG", "LD"), ("STG", "ST"), ("LDS", "STS")

_FLOAT32 = ("FADD", "FMUL", "FFMA", "FADD2", "FMUL2", "FFMA2", "HADD2", "HMUL2", "HFMA2", "IMAD", "F2FP")
_CONVERSIONS = ("F2F", "F2I", "I2F", "FRND")
_SPECIAL = ("MUFU", "POPC", "FLO", "BREV", "REDUX", *_CONVERSIONS)
_MEMORY = (*LOADS, *STORES, *SHARED, "LDL", "STL", "LDC", "LDSM", "SHFL", "ATOM", "ATOMG", "ATOMS", "RED")
_TENSOR = ("HMMA", "IMMA", "DMMA", "QGMMA", "IGMMA", "HGMMA")
_CONTROL = (
    *("BRA", "BSSY", "BSYNC", "BREAK", "EXIT", "RET", "CALL", "NOP", "BAR", "YIELD", "WARPSYNC", "DEPBAR", "S2R"),
    *("CS2R", "MEMBAR", "ERRBAR", "CCTL", "S2UR", "R2UR", "B2R", "SYNCS", "ACQBULK", "PREEXIT", "KILL"),
)


def pipe(name: str) -> str:
    """Returns the pipe of an instruction, or an empty name if it only takes a slot of the issue."""
    base, *modifiers = name.split(".")
    if base in FLOAT64:
        return "float64"
    if base in _CONVERSIONS and any("64" in each for each in modifiers):
        return "conversions"
    for names, found in ((_FLOAT32, "float32"), (_SPECIAL, "special"), (_MEMORY, "memory"), (_TENSOR, "tensor")):
        if base in names:
            return found
    return "" if base in _CONTROL or base.startswith("U") else "integer"


class Work(NamedTuple):
    """What a kernel moves in all: bytes read, and bytes written; 0 if the loops of a kernel do not depend on them."""

    read: float
    written: float


def executed(path: Path, threads: int, work: Work) -> Counter[str]:
    """Returns the instructions of all lanes by pipe; ``issue`` counts all of them.

    A loop runs as often as it takes to store what the kernel writes, or to load what it reads if the loop stores
    nothing. Of several loops, those that move less per iteration than others serve the ends of rows, or list undecided
    results, and do not count.
    """
    total: Counter[str] = Counter()

    def add(part: Path, times: float) -> None:
        for each, count in part.counts.items():
            for found in filter(None, ("issue", pipe(each.name))):
                total[found] += count * times  # type: ignore[assignment] # a Counter of floats
        for loop in part.loops:
            add(loop, times * _iterations(loop, part, threads, work))

    add(path, threads)
    return total


def _iterations(loop: Path, around: Path, threads: int, work: Work) -> float:
    alike = [each for each in (around, *around.loops) if bool(each.own(*STORES)) == bool(loop.own(*STORES))]
    if loop.own(*LOADS, *STORES) < max(each.own(*LOADS, *STORES) for each in alike):
        return 0
    for names, size in ((STORES, work.written), (LOADS, work.read)):
        moved = loop.own(*names)
        if moved and size:
            return max(1, (size / threads - around.own(*names)) / moved)
    return 1
