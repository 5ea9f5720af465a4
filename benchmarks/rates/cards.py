"""Cards and what their multiprocessors complete per cycle, from their makers' documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PIPES = ("float64", "float32", "integer", "special", "conversions", "memory", "issue")


class Architecture(NamedTuple):
    """Results per cycle and multiprocessor of each pipe, in the order of ``PIPES``.

    From "Throughput of Native Arithmetic Instructions" of the CUDA C++ Programming Guide. ``conversions`` are those of
    64-bit types; where they are as slow as float64, they are taken to use its units. ``memory`` counts lanes of loads,
    stores and shuffles; ``issue`` is four instructions of a warp.
    """

    name: str
    float64: int
    float32: int
    integer: int
    special: int
    conversions: int
    memory: int = 32
    issue: int = 128


TURING = Architecture("sm_75", 2, 64, 64, 16, 2)
AMPERE = Architecture("sm_86", 2, 128, 64, 16, 2)
ADA = Architecture("sm_89", 2, 128, 64, 16, 2)
HOPPER = Architecture("sm_90", 64, 128, 64, 16, 16)
BLACKWELL = Architecture("sm_120", 2, 128, 128, 16, 2)


class Board(NamedTuple):
    """A card.

    Attributes:
        processors: number of multiprocessors.
        clock: boost clock in GHz.
        bandwidth: of the memory, in GB/s.
        bytes: dense INT8 operations of the tensor cores, in 10**12 per second.
        source: where the numbers are from.
    """

    name: str
    architecture: Architecture
    processors: int
    clock: float
    bandwidth: float
    bytes: float
    source: str

    @property
    def float64_ratio(self) -> int:
        """See ``Card.float64_ratio`` of the kernels."""
        return self.architecture.float32 // self.architecture.float64

    @property
    def told(self) -> dict[str, str | float]:
        """The card as results name it."""
        return {
            "name": self.name,
            "architecture": self.architecture.name,
            "processors": self.processors,
            "clock": self.clock,
            "float64_ratio": self.float64_ratio,
            "bandwidth": self.bandwidth,
            "bytes": self.bytes,
            "source": self.source,
        }

    def seconds(self, counts: Mapping[str, float]) -> dict[str, float]:
        """Returns how long each pipe takes for a number of instructions of all lanes."""
        shared = self.architecture.conversions == self.architecture.float64
        merged = {**counts, "float64": counts["float64"] + shared * counts["conversions"]}
        return {pipe: merged.get(pipe, 0) / self.per_second(pipe) for pipe in PIPES}

    def per_second(self, pipe: str) -> float:
        return float(getattr(self.architecture, pipe)) * self.processors * self.clock * 1e9


CARDS = (
    Board("RTX 4090", ADA, 128, 2.52, 1008, 660.6, "NVIDIA Ada GPU Architecture whitepaper, appendix A"),
    Board("L4", ADA, 58, 2.04, 300, 242.5, "NVIDIA L4 datasheet; Ada whitepaper for the clock"),
    Board("T4", TURING, 40, 1.59, 320, 130, "NVIDIA T4 datasheet; Turing whitepaper for the clock"),
    Board("A10", AMPERE, 72, 1.695, 600, 250, "NVIDIA A10 datasheet"),
    Board("L40S", ADA, 142, 2.52, 864, 733, "NVIDIA L40S datasheet"),
    Board("RTX 5090", BLACKWELL, 170, 2.407, 1792, 838, "NVIDIA RTX Blackwell GPU Architecture whitepaper, appendix A"),
    Board("H100", HOPPER, 132, 1.98, 3350, 1979, "NVIDIA H100 datasheet, SXM"),
    Board("H200", HOPPER, 132, 1.98, 4800, 1979, "NVIDIA H200 datasheet, SXM"),
)
