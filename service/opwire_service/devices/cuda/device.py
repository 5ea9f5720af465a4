"""The CUDA device: runs the kernels of ``kernels/cuda`` on one NVIDIA GPU, with transfers through pinned buffers."""

from __future__ import annotations

import queue
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np

from opwire.check import Plan
from opwire.errors import ProblemCode, UnavailableError
from opwire.graph import GRAPH
from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import EncodedTensor

from ...execution import Arrays, Stop
from ...kernels.cuda import JOBS, MULTIPLYING
from ...kernels.cuda.compiler import Compiler
from ...kernels.cuda.elementwise import CudaElementsJob, exactly
from ...kernels.cuda.graph import graph_of
from ...kernels.cuda.job import Card, CudaJob, CudaMemory, MatrixProduct, device_desc
from ..base import Device, Inputs, Usage
from ..kept import Kept
from .blas import Blas
from .library import cupy_for
from .memory import MemoryPool, Staging, aligned
from .room import PreparedPlan, Stage
from .transfers import BUFFERS_PER_STREAM, Lane, Pace, bytes_of, landing

STREAMS = 4
"""Number of plans whose transfers and kernels overlap."""

STAGING_BYTES = 4 * 2**20

MEMORY_SHARE = 0.8
"""Share of the card's free memory used as the default budget."""

MAX_SINGLE_RESULTS = 64
"""Maximum number of element-wise results that the host settles from single elements instead of whole tensors."""

COMPILERS = 4
"""Number of programs compiled concurrently."""

_FLOAT64_RATIO = "SingleToDoublePrecisionPerfRatio"

_SHORT_LAUNCH = 0.1
"""Weight of a launch that takes a small fraction of a millisecond, relative to others."""


class Undecided(NamedTuple):
    """Positions of results that the card left undecided, in the form of ``CudaJob.settle``; None means all."""

    places: Array | None


class CudaDevice(Device):
    """Runs plans on one GPU.

    Args:
        index: index of the GPU in CUDA's order.
        memory_bytes: budget of card memory for all plans together; by default most of the free memory.
        processes: number of processes that share the card and its free memory.

    Attributes:
        broken: why the card has failed for good, so that the process must be replaced; None while it works.
        failures: exception types that CUDA raises.
        memory: pool of the card's memory.
        card: what kernels depend on.

    Raises:
        DeviceUnavailable: CuPy or the driver is missing, or there is no such GPU.
    """

    places = STREAMS
    decodes = True

    def __init__(self, index: int = 0, memory_bytes: int | None = None, processes: int = 1) -> None:
        self.name = f"cuda:{index}" if index else "cuda"
        self.broken: str | None = None
        self._index = index
        self._cupy = cupy_for(index)
        self._cuda = self._cupy.cuda
        self._runtime = self._cuda.runtime
        self.failures = (self._runtime.CUDARuntimeError, self._cuda.driver.CUDADriverError)
        with self._cuda.Device(index):
            free, _ = self._runtime.memGetInfo()
            self._properties = self._runtime.getDeviceProperties(index)
            self._streams: queue.SimpleQueue[Any] = queue.SimpleQueue()
            for _ in range(STREAMS):
                self._streams.put(self._cuda.Stream(non_blocking=True))
        device = self._cuda.Device(index)
        processors, ratio = self._properties["multiProcessorCount"], device.attributes[_FLOAT64_RATIO]
        self.card = Card(int(processors), int(ratio), int(device.compute_capability))
        self.memory = MemoryPool(self._runtime, memory_bytes or int(free * MEMORY_SHARE / processes))
        self._staging = Staging(self._cuda, STAGING_BYTES, STREAMS * BUFFERS_PER_STREAM)
        self._compiler = Compiler(self._cupy, index)
        self._blas = Blas(self._cupy)
        self._prepared = Kept(self._prepare)

    @property
    def inline_work(self) -> int:
        """Zero, as work on a card is never faster than a thread switch."""
        return 0

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``. Operators with matrix products need cuBLAS."""
        if operator in MULTIPLYING and not self._blas.is_available:
            return False
        return operator in JOBS or operator == GRAPH.name

    @staticmethod
    def count() -> int:
        """Returns the number of GPUs of this machine.

        Raises:
            DeviceUnavailable: CuPy or the driver is missing, or there is no GPU.
        """
        return int(cupy_for().cuda.runtime.getDeviceCount())

    def job(self, plan: Plan) -> CudaJob:
        """Returns the job of a plan of one operator."""
        return JOBS[plan.operator.name](plan, self.card)

    def _prepare(self, plan: Plan) -> PreparedPlan:
        if plan.operator is GRAPH:
            return PreparedPlan.graph(plan, graph_of(plan, self.job))
        return PreparedPlan.single(plan, self.job(plan))

    def memory_needed(self, plan: Plan) -> int:
        """Returns the card memory that a plan needs while it runs, in bytes."""
        return self._prepared.of(plan).size

    def scratch_bytes(self, plan: Plan) -> int:
        """See ``Device.scratch_bytes``. Between steps of a graph, the host settles what the card left undecided."""
        if plan.operator is not GRAPH:
            return 0
        return max(stage.host_bytes for stage in self._prepared.of(plan).stages)

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        return self.memory.promise(self.memory_needed(plan))

    def warm_up(self, plans: Iterable[Plan]) -> Iterator[None]:
        """Compiles the programs of plans or loads them from disk, and yields once for each that is ready."""
        programs = dict.fromkeys(program for plan in plans for program in self._prepared.of(plan).programs)
        with ThreadPoolExecutor(COMPILERS) as threads:
            for _ in threads.map(lambda program: self._compiler.get(program, lambda: False), programs):
                yield

    def run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``.

        Raises:
            RequestError: an input is not base64.
            LimitExceededError: the plan needs more memory than the budget.
            OverloadedError: other programs are using the card's memory.
            UnavailableError: CUDA failed; see ``broken`` for whether the device can still be used.
        """
        if self.broken is not None:
            raise self._unavailable(self.broken)
        try:
            with self._cuda.Device(self._index):
                self._run(plan, inputs, outputs, stop)
        except self.failures as error:
            raise self._failed(error) from error

    def _run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        prepared = self._prepared.of(plan)
        self.memory.admit(prepared.size)
        programs = prepared.programs
        for number, program in enumerate(programs):
            self._compiler.ask(programs[number : number + COMPILERS])
            self._compiler.get(program, stop)
        landings = {name: landing(outputs[name], desc) for name, desc in plan.outputs.items()}
        # The memory is released before the lane, so at most as many blocks are in use as there are lanes.
        with self.lane(stop) as lane, self.memory.block(prepared.size, stop) as base, _synchronized(lane.stream):
            for name, desc in plan.inputs.items():
                lane.upload(inputs[name], desc, base + prepared.inputs[name], stop)
            self._launch(prepared, base, lane, stop)
            for name, target in landings.items():
                lane.download(base + prepared.outputs[name], target, stop)
            if not prepared.is_graph:
                self._settle(prepared.stages[0], base, plan, inputs, landings, lane, stop)
        for name, desc in plan.outputs.items():
            packed = device_desc(desc)
            if packed is not desc:
                desc.put(packed.elements(packed.view(landings[name])), outputs[name])

    def _launch(self, prepared: PreparedPlan, base: int, lane: Lane, stop: Stop) -> None:
        """Enqueues all stages of a plan; in a graph, each stage's undecided results are settled before the next one."""
        begin, size = prepared.zeroed
        if size:
            self._runtime.memsetAsync(base + begin, 0, size, lane.stream.ptr)
        pace = Pace(lane.stream)
        for stage in prepared.stages:
            self.enqueue(stage.job, stage.room.at(base), lane.stream, stop, pace)
            if prepared.is_graph:
                self._settle_step(stage, base, lane, stop)

    def enqueue(self, job: CudaJob, memory: CudaMemory, stream: Any, stop: Stop, pace: Pace | None = None) -> None:
        """Enqueues the launches of a job on a stream, staying only a few launches ahead of it."""
        pace = pace or Pace(stream)
        if job.state_bytes or job.undecided_bytes:  # the counter of undecided results directly follows the state
            counter = 8 if job.undecided_bytes else 0
            self._runtime.memsetAsync(memory.state, 0, aligned(job.state_bytes) + counter, stream.ptr)
        for launch in job.launches(memory):
            if isinstance(launch, MatrixProduct):
                self._blas.multiply(launch, stream)
            else:
                self._compiler.kernel(launch, stop)(stream)
            pace.launched(stop, _SHORT_LAUNCH if launch.is_short else 1)

    @contextmanager
    def lane(self, stop: Stop) -> Generator[Lane]:
        """Provides a lane for the duration of the context, waiting until one is free."""
        with self._staging.buffers(BUFFERS_PER_STREAM, stop) as buffers:
            stream = self._streams.get()
            try:
                events = [self._cuda.Event(disable_timing=True) for _ in buffers]
                for event in events:
                    event.record(stream)
                with _synchronized(stream):
                    yield Lane(self._runtime, stream, buffers, events)
            finally:
                self._streams.put(stream)

    def _settle(
        self, stage: Stage, base: int, plan: Plan, inputs: Inputs, landings: Mapping[str, Array], lane: Lane, stop: Stop
    ) -> None:
        """Settles the results that the card left undecided, in the downloaded outputs."""
        left = self._undecided(stage, base, lane, stop)
        if left is None:
            return
        arrays = {name: given.array() if isinstance(given, EncodedTensor) else given for name, given in inputs.items()}
        sources = {name: bytes_of(arrays[name], desc) for name, desc in plan.inputs.items()}
        stage.job.settle(left.places, _typed(sources, stage.inputs), _typed(landings, stage.outputs), stop)

    def _settle_step(self, stage: Stage, base: int, lane: Lane, stop: Stop) -> None:
        """Settles the results that the card left undecided in a step of a graph and uploads them, for later steps."""
        left = self._undecided(stage, base, lane, stop)
        if left is None:
            return
        if (
            isinstance(stage.job, CudaElementsJob)
            and left.places is not None
            and len(left.places) <= MAX_SINGLE_RESULTS
        ):
            _settle_elements(stage, stage.job, base, left.places[:, 0].astype(np.int64), lane, stop)
            return
        inputs, outputs = (
            {name: np.empty(desc.data_size_in_bytes, np.uint8) for name, desc in descs.items()}
            for descs in (stage.inputs, stage.outputs)
        )
        for arrays, offsets in ((inputs, stage.room.inputs), (outputs, stage.room.outputs)):
            for name, array in arrays.items():
                lane.download(base + offsets[name], array, stop)
        stage.job.settle(left.places, _typed(inputs, stage.inputs), _typed(outputs, stage.outputs), stop)
        for name, array in outputs.items():
            lane.upload(array, stage.outputs[name], base + stage.room.outputs[name], stop)

    def _undecided(self, stage: Stage, base: int, lane: Lane, stop: Stop) -> Undecided | None:
        """Returns the undecided results of a stage, or None if there are none."""
        job, undecided = stage.job, base + stage.room.undecided
        if not job.undecided_bytes:
            return None
        counted = np.zeros(8, np.uint8)
        lane.download(undecided, counted, stop)
        count = int(counted.view("<u4")[0])
        if 8 + 8 * count > job.undecided_bytes:
            return Undecided(None)
        listed = np.empty(8 * count, np.uint8)
        lane.download(undecided + 8, listed, stop)
        return Undecided(listed.view("<u4").reshape(count, 2)) if count else None

    def _failed(self, error: Exception) -> UnavailableError:
        """Returns the error for a request after a CUDA failure, and checks whether the card still works."""
        try:
            with self._cuda.Device(self._index):
                self._runtime.deviceSynchronize()
        except self.failures:
            self.broken = str(error)
        return self._unavailable(str(error))

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(ProblemCode.NOT_READY, f"device {self.name} failed: {reason}", retry_after=1)

    def usage(self) -> Usage:
        """See ``Device.usage``."""
        return Usage(self.memory.promised, self.memory.budget, len(self._compiler))

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {
            "name": self.name,
            "kind": "cuda",
            "card": self._properties["name"].decode(),
            "multiprocessors": self.card.processors,
            "card_memory": {
                "total": int(self._properties["totalGlobalMem"]),
                "in_use": self.memory.in_use,
                "reserved": self.memory.reserved,
            },
            "cuda": self._runtime.runtimeGetVersion(),
            "cupy": self._cupy.__version__,
        }

    def close(self) -> None:
        """See ``Device.close``."""
        self._compiler.close()
        self._staging.close()
        if self.broken is None:
            with self._cuda.Device(self._index):
                self._blas.close()
                self.memory.close()


@contextmanager
def _synchronized(stream: Any) -> Generator[None]:
    """Synchronizes with a stream on exit, before the resources it uses are released."""
    try:
        yield
    finally:
        stream.synchronize()


def _settle_elements(stage: Stage, job: CudaElementsJob, base: int, places: Array, lane: Lane, stop: Stop) -> None:
    """Settles a few element-wise results on the host, from the elements they depend on."""
    taken = {}
    for name, offsets in job.offsets(places).items():
        dtype = stage.inputs[name].data_type.dtype
        address = base + stage.room.inputs[name]
        taken[name] = lane.gather(address, offsets * dtype.itemsize, dtype.itemsize, stop).view(dtype)
    for name, results in job.results(taken, exactly, stop, places).items():
        size = results.itemsize
        lane.scatter(results.view(np.uint8), base + stage.room.outputs[name], places * size, size, stop)


def _typed(arrays: Mapping[str, Array], descs: Mapping[str, BufferTensorDesc]) -> dict[str, Array]:
    """Views byte arrays as arrays of their data types."""
    return {name: array.view(descs[name].data_type.dtype) for name, array in arrays.items()}
