"""The requirements of a plan on a GPU: memory, kernel launches, and results that the host must settle."""

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
"""Maximum number of bytes a thread loads at once."""

MOST_UNDECIDED = 2**20
"""Maximum number of undecided results that a GPU lists; if there are more, the host settles all results."""

_SHORT_PRODUCT = 1 << 30
"""Number of multiplications that take a small fraction of a millisecond."""


_PAIRS_WORTH = 8
"""About how many FLOAT32 operations replace one in float64."""


class Card(NamedTuple):
    """What kernels and their launches depend on.

    Attributes:
        processors: number of multiprocessors.
        float64_ratio: how many times as many FLOAT32 operations as float64 ones a multiprocessor completes.
        capability: the compute capability, times ten.
    """

    processors: int
    float64_ratio: int = 2
    capability: int = 90

    @property
    def prefers_pairs(self) -> bool:
        """Whether quick functions are faster in pairs of FLOAT32 than in float64."""
        return self.float64_ratio > _PAIRS_WORTH


@dataclass(frozen=True, slots=True)
class Program:
    """Sources, concatenated, and the macros that specialize them.

    Attributes:
        sources: names of source files, relative to this package.
        macros: names and their replacements.
        generated: generated source, placed after the sources.
        kernels: names of source files placed after the generated source.
    """

    sources: tuple[str, ...]
    macros: tuple[tuple[str, str | int], ...]
    generated: str = ""
    kernels: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        defined = "".join(f"#define {name} {value}\n" for name, value in self.macros)
        return "\n".join((defined, *map(source_text, self.sources), self.generated, *map(source_text, self.kernels)))


@cache
def source_text(name: str) -> str:
    """Returns the text of a source file of this package."""
    return (Path(__file__).parent / f"{name}.cu").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A kernel launch, whose only parameter is a structure: an array of one element.

    Attributes:
        shared_bytes: dynamic shared memory per block; 0 is used instead if the GPU has less.
        is_short: whether it takes a small fraction of a millisecond, so that many may be queued on the GPU.
    """

    program: Program
    entry: str
    grid: tuple[int, int]
    block: tuple[int, int]
    parameter: Array
    shared_bytes: int = 0
    is_short: bool = False


class Matrices(NamedTuple):
    """Float64 matrices of equal size.

    Attributes:
        address: address of the first matrix.
        step: elements between consecutive matrices.
        pitch: elements between consecutive lines; the elements of a line are contiguous.
        is_transposed: whether lines are columns.
    """

    address: int
    step: int
    pitch: int
    is_transposed: bool = False


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A batched GEMM of the library, in float64 unless it is of bytes: ``target = left @ right``.

    Attributes:
        count: number of matrices.
        rows, columns: sizes of the target, whose lines are rows.
        depth: columns of the left and rows of the right matrix.
        left, right, target: the matrices.
        adds: whether to add to the target instead of overwriting it.
        is_of_bytes: whether the operands are bytes, and the target 32-bit integers.
    """

    count: int
    rows: int
    columns: int
    depth: int
    left: Matrices
    right: Matrices
    target: Matrices
    adds: bool
    is_of_bytes: bool = False

    @property
    def is_short(self) -> bool:
        """See ``KernelLaunch``."""
        return self.count * self.rows * self.columns * self.depth <= _SHORT_PRODUCT


Launch = KernelLaunch | MatrixProduct


@dataclass(frozen=True, slots=True)
class CudaMemory:
    """Addresses in GPU memory.

    Attributes:
        inputs, outputs: by tensor name; outputs are laid out as ``device_desc`` says.
        scratch: ``CudaJob.scratch_bytes`` of memory.
        state: ``CudaJob.state_bytes`` of memory, initialized to 0.
        undecided: ``CudaJob.undecided_bytes`` of memory, the first 8 bytes initialized to 0; see ``CudaJob.settle``.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    scratch: int
    state: int
    undecided: int


class CudaJob(Protocol):
    """A plan as kernel launches.

    Attributes:
        programs: all programs that will be launched.
        scratch_bytes: memory for intermediate results.
        state_bytes: memory for communication between blocks: which have finished, and which results must be settled.
        undecided_bytes: memory for the list of undecided results; 0 if there never are any.
    """

    @property
    def programs(self) -> tuple[Program, ...]: ...

    @property
    def scratch_bytes(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def undecided_bytes(self) -> int: ...

    def launches(self, memory: CudaMemory) -> Iterator[Launch]:
        """Yields the launches in order, each at most about 10 ms of work."""
        ...

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """Settles results: computes them exactly on the host.

        Args:
            places: the two numbers that the GPU listed for each undecided result; None means all results.
            inputs: the elements of each input's extent, 1-dimensional.
            outputs: the elements of each output, laid out as ``device_desc`` says; receives the results.
            stop: polled between pieces of work.
        """


class BaseJob:
    """What most jobs have in common: they need no memory besides their tensors, and leave no results undecided."""

    scratch_bytes = 0
    state_bytes = 0

    _room = 0
    """Maximum number of undecided results that the GPU lists."""

    @property
    def undecided_bytes(self) -> int:
        return 8 + 8 * self._room if self._room else 0

    def settle(self, places: Array | None, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
        """See ``CudaJob.settle``."""


class SingleProgramJob(BaseJob):
    """A job with one program."""

    _program: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        return (self._program,)


def device_desc(desc: BufferTensorDesc) -> BufferTensorDesc:
    """Returns the layout of an output on the GPU: as declared, or dense if it has gaps, which must not be written.

    The unused half byte after an odd number of 4-bit elements counts as a gap.
    """
    has_gaps = desc.strides is not None and desc.extent != desc.element_count
    if not has_gaps and not (desc.data_type.is_packed and desc.extent % 2):
        return desc
    return BufferTensorDesc(desc.data_type, desc.sizes)
