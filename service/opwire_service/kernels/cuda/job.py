"""What a plan needs on a card: memory, launches of kernels, and what the host must compute again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from opwire.tensor import Array, BufferTensorDesc, DataType

from ...execution import Stop

TYPES = {
    DataType.FLOAT32: "f32",
    DataType.FLOAT16: "f16",
    DataType.INT8: "i8",
    DataType.UINT8: "u8",
    DataType.INT16: "i16",
    DataType.UINT16: "u16",
    DataType.INT32: "i32",
    DataType.UINT32: "u32",
    DataType.INT64: "i64",
    DataType.UINT64: "u64",
}
"""The names of the element types in the sources."""

LOAD_BYTES = 16
"""The most that a thread loads at once."""


@dataclass(frozen=True, slots=True)
class Program:
    """Sources, read as one, and the macros that specialise them."""

    sources: tuple[str, ...]
    macros: tuple[tuple[str, str | int], ...]

    @property
    def code(self) -> str:
        defined = "".join(f"#define {name} {value}\n" for name, value in self.macros)
        return defined + "\n".join(_source(name) for name in self.sources)


@cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.cu").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of a kernel, whose only parameter is a structure: an array of one element."""

    program: Program
    entry: str
    grid: tuple[int, int]
    block: tuple[int, int]
    parameter: Array


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """Addresses on the card.

    Attributes:
        inputs, outputs: by tensor; outputs lie as ``device_desc`` says.
        scratch: of ``CudaJob.scratch_bytes``.
        state: of ``CudaJob.state_bytes``, 0 at first.
        uncertain: of ``CudaJob.uncertain_bytes``, the first 8 of them 0; see ``CudaJob.recompute``.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    scratch: int
    state: int
    uncertain: int


class CudaJob(Protocol):
    """A plan as launches.

    Attributes:
        programs: all that will be launched.
        scratch_bytes: for intermediate results.
        state_bytes: for what blocks tell others: who has finished, and whose results must be computed again.
        uncertain_bytes: for the list of results that the card could not certify; 0 if it always can.
    """

    @property
    def programs(self) -> tuple[Program, ...]: ...

    @property
    def scratch_bytes(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def uncertain_bytes(self) -> int: ...

    def launches(self, memory: CudaMemory) -> Iterator[KernelLaunch]:
        """The launches in their order, each at most some 10 ms of work."""
        ...

    def recompute(self, places: Array | None, source: Array, target: Array, stop: Stop) -> None:
        """Computes results on the host.

        Args:
            places: the offsets of the first input element and of the output element of each; None means all outputs.
            source: the elements of the input buffer, 1-dimensional.
            target: those of the output buffer.
            stop: asked between pieces of work.
        """


def device_desc(desc: BufferTensorDesc) -> BufferTensorDesc:
    """How an output lies on the card: as declared, or packed where it has gaps, whose bytes nobody may write."""
    if desc.strides is None or desc.extent == desc.element_count:
        return desc
    return BufferTensorDesc(desc.data_type, desc.sizes)
