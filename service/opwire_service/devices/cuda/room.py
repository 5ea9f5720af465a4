"""Layout of everything a plan needs on a card, within one block of its memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opwire.check import Plan
from opwire.graph import Bytes, Place
from opwire.tensor import BufferTensorDesc

from ...kernels.cuda.graph import CudaGraph, CudaGraphPart, PlacedTensor
from ...kernels.cuda.job import CudaJob, CudaMemory, Program, device_desc
from .memory import aligned


@dataclass(frozen=True, slots=True)
class Room:
    """Layout of everything a job needs within one block, as offsets in bytes.

    Attributes:
        inputs, outputs: offsets of its tensors.
        scratch: offset of its scratch memory.
        state: offset of its state, which is zeroed before a run.
        undecided: offset of the list of results that the card left undecided.
        size: end of all this.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    scratch: int
    state: int
    undecided: int
    size: int

    @classmethod
    def of(cls, plan: Plan, job: CudaJob) -> Room:
        inputs, outputs, end = _tensors(plan)
        return cls.behind(end, inputs, outputs, job)

    @classmethod
    def behind(cls, end: int, inputs: Mapping[str, int], outputs: Mapping[str, int], job: CudaJob) -> Room:
        """Lays out a job with its tensors somewhere before offset ``end``, and everything else after it."""
        state = end + aligned(job.scratch_bytes)
        undecided = state + aligned(job.state_bytes)
        return cls(inputs, outputs, end, state, undecided, undecided + aligned(job.undecided_bytes))

    def at(self, base: int) -> CudaMemory:
        return CudaMemory(
            {name: base + offset for name, offset in self.inputs.items()},
            {name: base + offset for name, offset in self.outputs.items()},
            base + self.scratch,
            base + self.state,
            base + self.undecided,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """A job of a plan, with its layout and the descs of its tensors on the card."""

    job: CudaJob
    room: Room
    inputs: Mapping[str, BufferTensorDesc]
    outputs: Mapping[str, BufferTensorDesc]

    @property
    def host_bytes(self) -> int:
        """Host memory for recomputing results, in bytes: a copy of its tensors."""
        descs = (*self.inputs.values(), *self.outputs.values())
        return sum(desc.data_size_in_bytes for desc in descs) if self.job.undecided_bytes else 0


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan ready to run.

    Attributes:
        inputs, outputs: offsets of its tensors; outputs have the layout of ``device_desc``.
        stages: its jobs, in order.
        zeroed: offset and size of the bytes to zero before a run.
        size: total size in bytes.
        is_graph: whether stages read the results of others.
    """

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    stages: tuple[Stage, ...]
    zeroed: tuple[int, int]
    size: int
    is_graph: bool

    @classmethod
    def single(cls, plan: Plan, job: CudaJob) -> PreparedPlan:
        """Prepares a plan of one operator."""
        room = Room.of(plan, job)
        stage = Stage(job, room, plan.inputs, plan.outputs)
        return cls(room.inputs, room.outputs, (stage,), (0, 0), room.size, is_graph=False)

    @classmethod
    def graph(cls, plan: Plan, graph: CudaGraph) -> PreparedPlan:
        """Prepares a graph. Its intermediate tensors are contiguous, followed by memory that the parts use in turn."""
        inputs, outputs, begin = _tensors(plan)
        memory = graph.memory
        end = begin + aligned(memory.size)

        def offset(at: Bytes) -> int:
            if at.place is Place.BETWEEN:
                return begin + memory.offsets[int(at.name)]
            return (inputs if at.place is Place.INPUT else outputs)[str(at.name)]

        def stage(part: CudaGraphPart) -> Stage:
            into, out = (
                {name: offset(tensor.at) for name, tensor in tensors.items()} for tensors in (part.inputs, part.outputs)
            )
            return Stage(part.job, Room.behind(end, into, out, part.job), _descs(part.inputs), _descs(part.outputs))

        stages = tuple(map(stage, graph.parts))
        zeroed = (begin, memory.size if memory.has_gaps else 0)
        size = max(each.room.size for each in stages)
        return cls(inputs, outputs, stages, zeroed, size, is_graph=True)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs that it launches."""
        return tuple(dict.fromkeys(program for stage in self.stages for program in stage.job.programs))


def _tensors(plan: Plan) -> tuple[dict[str, int], dict[str, int], int]:
    """Returns the offsets of a plan's inputs and outputs, and the end of the tensors."""
    end = 0
    offsets = []
    outputs = [device_desc(desc) for desc in plan.outputs.values()]
    for desc in (*plan.inputs.values(), *outputs):
        offsets.append(end)
        end += aligned(desc.data_size_in_bytes)
    count = len(plan.inputs)
    return (
        dict(zip(plan.inputs, offsets[:count], strict=True)),
        dict(zip(plan.outputs, offsets[count:], strict=True)),
        end,
    )


def _descs(tensors: Mapping[str, PlacedTensor]) -> dict[str, BufferTensorDesc]:
    return {name: tensor.desc for name, tensor in tensors.items()}
