"""What a plan needs on a card: memory, launches of kernels, and what the host must compute again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

from opwire.tensor import Array, BufferTensorDesc, DataType

from ...execution import Arrays, Stop

TYPES = {
    DataType.FLOAT32: "f32",
    DataType.FLOAT16: "f16",
    DataType.FLOAT64: "f64",
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


_SHORT_PRODUCT = 1 << 30
"""Multiplications that take a small part of a millisecond."""


@dataclass(frozen=True, slots=True)
class Program:
    """Sources, read as one, and the macros that specialise them.

    Attributes:
        sources: names of files, in folders beside this module where they say so.
        macros: names and what stands for them.
        generated: more of the program, behind the sources.
        kernels: names of files that come behind that.
    """

    sources: tuple[str, ...]
    macros: tuple[tuple[str, str | int], ...]
    generated: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        defined = "".join(f"#define {name} {value}\n" for name, value in self.macros)
        return "\n".join((defined, *map(_source, self.sources), self.generated, *map(_source, self.kernels)))


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / f"{name}.cu").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of a kernel, whose only parameter is a structure: an array of one element.

    Attributes:
        shared_bytes: that each block may have of its multiprocessor's own memory; where a card has fewer it gives none.
        is_short: it takes a small part of a millisecond, so that many may wait on the card.
    """

    program: Program
    entry: str
    grid: tuple[int, int]
    block: tuple[int, int]
    parameter: Array
    shared_bytes: int = 0
    is_short: bool = False


class Matrices(NamedTuple):
    """Float64 matrices of one size.

    Attributes:
        address: of the first.
        step: elements from one matrix to the next.
        pitch: elements from one line to the next; those of a line are neighbours.
        is_transposed: whether lines are columns.
    """

    address: int
    step: int
    pitch: int
    is_transposed: bool = False


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A call of the library that multiplies float64 matrices: ``target = left @ right``, for each of some.

    Attributes:
        count: of matrices.
        rows, columns: of the target, whose lines are rows.
        depth: columns of the left and rows of the right matrix.
        left, right, target: where they lie.
        adds: to what the target holds.
    """

    count: int
    rows: int
    columns: int
    depth: int
    left: Matrices
    right: Matrices
    target: Matrices
    adds: bool

    @property
    def is_short(self) -> bool:
        """See ``KernelLaunch``."""
        return self.count * self.rows * self.columns * self.depth <= _SHORT_PRODUCT


Launch = KernelLaunch | MatrixProduct


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

    def launches(self, memory: CudaMemory) -> Iterator[Launch]:
        """The launches in their order, each at most some 10 ms of work."""
        ...

    def recompute(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """Computes results on the host.

        Args:
            places: the two numbers that the card listed for each of them; None means all results.
            inputs: the elements of each input's extent, 1-dimensional.
            outputs: those of each output as ``device_desc`` lays it out; the results go there.
            stop: asked between pieces of work.
        """


def device_desc(desc: BufferTensorDesc) -> BufferTensorDesc:
    """How an output lies on the card: as declared, or packed where it has gaps, whose bytes nobody may write.

    Half a byte behind an odd number of elements is a gap.
    """
    has_gaps = desc.strides is not None and desc.extent != desc.element_count
    if not has_gaps and not (desc.data_type.is_packed and desc.extent % 2):
        return desc
    return BufferTensorDesc(desc.data_type, desc.sizes)
