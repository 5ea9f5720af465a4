"""The CUDA device: the kernels of ``kernels/cuda`` on one NVIDIA GPU, fed through pinned buffers on streams."""

from __future__ import annotations

import ctypes
import itertools
import queue
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from opwire.check import Plan
from opwire.errors import ProblemCode, UnavailableError
from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import EncodedTensor

from ...execution import Arrays, Stop, Stopped
from ...kernels.cuda import JOBS
from ...kernels.cuda.compiler import Compiler
from ...kernels.cuda.job import CudaJob, CudaMemory, MatrixProduct, device_desc
from ..base import Device, Inputs, Usage
from .blas import Blas
from .library import cupy_for
from .memory import DeviceMemory, Staging, aligned

STREAMS = 4
"""Plans whose copies and kernels overlap."""

STAGING_BYTES = 4 * 2**20
BUFFERS_PER_STREAM = 2
"""One is filled while the card reads the other."""

MEMORY_SHARE = 0.8
"""Of the card's free memory, taken as the budget where none is given."""

PREPARED = 1024
"""Plans whose jobs are kept."""

COMPILERS = 4
"""Programs that are compiled at a time ahead of any request."""

_LAUNCHES_AHEAD = 4
_SHORT_LAUNCH = 0.1
_SPINS = 20
_PAUSE = 20e-6
"""Waiting looks so often at once, and then after so many seconds each time: sleeping leaves Python to other threads."""


@dataclass(frozen=True, slots=True)
class Lane:
    """What one running plan has to itself: a stream, pinned buffers, and for each an event that says it is free."""

    stream: Any
    buffers: list[Array]
    events: list[Any]

    def turns(self) -> Iterator[tuple[Array, Any]]:
        """The buffers and their events, over and over."""
        return itertools.cycle(zip(self.buffers, self.events, strict=True))


@dataclass(frozen=True, slots=True)
class Room:
    """Where everything that a job needs lies in one block: offsets in bytes."""

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    scratch: int
    state: int
    uncertain: int
    size: int

    @classmethod
    def of(cls, plan: Plan, job: CudaJob) -> Room:
        end = 0
        offsets = []
        outputs = [device_desc(desc) for desc in plan.outputs.values()]
        sizes = [desc.data_size_in_bytes for desc in (*plan.inputs.values(), *outputs)]
        for size in (*sizes, job.scratch_bytes, job.state_bytes, job.uncertain_bytes):
            offsets.append(end)
            end += aligned(size)
        inputs = dict(zip(plan.inputs, offsets, strict=False))
        rest = offsets[len(inputs) :]
        scratch, state, uncertain = offsets[-3:]
        return cls(inputs, dict(zip(plan.outputs, rest, strict=False)), scratch, state, uncertain, end)

    def at(self, base: int) -> CudaMemory:
        return CudaMemory(
            {name: base + offset for name, offset in self.inputs.items()},
            {name: base + offset for name, offset in self.outputs.items()},
            base + self.scratch,
            base + self.state,
            base + self.uncertain,
        )


class CudaDevice(Device):
    """Runs plans on one GPU.

    Attributes:
        broken: why the card is of no use any more, once it failed; the process must be replaced then.
        failures: the exceptions that CUDA raises.
        memory: of the card.
        processors: multiprocessors of the card.

    Args:
        index: of the GPU among those that CUDA shows.
        memory_bytes: of the card that plans may use together; by default most of what is free.
        processes: that share the card, and what is free of it.

    Raises:
        DeviceUnavailable: no CuPy, no driver, or no such GPU.
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
        self.processors = int(self._properties["multiProcessorCount"])
        self.memory = DeviceMemory(self._runtime, memory_bytes or int(free * MEMORY_SHARE / processes))
        self._staging = Staging(self._cuda, STAGING_BYTES, STREAMS * BUFFERS_PER_STREAM)
        self._compiler = Compiler(self._cupy, index)
        self._blas = Blas(self._cupy)
        self._prepared = lru_cache(PREPARED)(self._prepare)

    @property
    def inline_work(self) -> int:
        """Nothing: a card is always further away."""
        return 0

    def executes(self, operator: str) -> bool:
        """See ``Device.executes``."""
        return operator in JOBS

    @staticmethod
    def count() -> int:
        """GPUs of this machine.

        Raises:
            DeviceUnavailable: no CuPy, or no driver.
        """
        return int(cupy_for().cuda.runtime.getDeviceCount())

    def job(self, plan: Plan) -> CudaJob:
        """What a plan launches on this card."""
        return self._prepared(plan)[0]

    def _prepare(self, plan: Plan) -> tuple[CudaJob, Room]:
        job = JOBS[plan.operator.name](plan, self.processors)
        return job, Room.of(plan, job)

    def memory_needed(self, plan: Plan) -> int:
        """Bytes of the card's memory that a plan takes while it runs."""
        return self._prepared(plan)[1].size

    def admit(self, plan: Plan) -> AbstractContextManager[None]:
        """See ``Device.admit``."""
        return self.memory.promise(self.memory_needed(plan))

    def warm_up(self, plans: Iterable[Plan]) -> Iterator[None]:
        """Compiles what plans launch, or finds it on disk; yields for each program, once it is ready."""
        programs = dict.fromkeys(program for plan in plans for program in self.job(plan).programs)
        with ThreadPoolExecutor(COMPILERS) as threads:
            for _ in threads.map(lambda program: self._compiler.get(program, lambda: False), programs):
                yield

    def run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        """See ``Device.run``.

        Raises:
            RequestError: an input is not base64.
            LimitExceededError: the plan needs more memory than the budget.
            OverloadedError: other programs have taken the card's memory.
            UnavailableError: the card failed; the device is of no use any more.
        """
        if self.broken is not None:
            raise self._unavailable(self.broken)
        try:
            with self._cuda.Device(self._index):
                self._run(plan, inputs, outputs, stop)
        except self.failures as error:
            raise self._failed(error) from error

    def _run(self, plan: Plan, inputs: Inputs, outputs: Arrays, stop: Stop) -> None:
        job, room = self._prepared(plan)
        self.memory.admit(room.size)
        for program in job.programs:
            self._compiler.get(program, stop)
        # The memory goes back before the lane, so no more blocks are in use than there are lanes.
        with self.lane(stop) as lane, self.memory.block(room.size, stop) as base, _ended(lane.stream):
            memory = room.at(base)
            for name, desc in plan.inputs.items():
                self._upload(inputs[name], desc, memory.inputs[name], lane, stop)
            self.enqueue(job, memory, lane.stream, stop)
            landings = {name: _landing(outputs[name], desc) for name, desc in plan.outputs.items()}
            for name, landing in landings.items():
                self._download(memory.outputs[name], landing, lane, stop)
            if job.uncertain_bytes:
                self._recompute(job, memory, plan, inputs, landings, lane, stop)
        for name, desc in plan.outputs.items():
            packed = device_desc(desc)
            if packed is not desc:
                desc.put(packed.elements(packed.view(landings[name])), outputs[name])

    def enqueue(self, job: CudaJob, memory: CudaMemory, stream: Any, stop: Stop) -> None:
        """Puts the launches of a job on a stream; returns before they have run, but not long before."""
        if job.state_bytes or job.uncertain_bytes:  # what is uncertain comes right behind the state
            counter = 8 if job.uncertain_bytes else 0
            self._runtime.memsetAsync(memory.state, 0, aligned(job.state_bytes) + counter, stream.ptr)
        last: Any = None
        ahead = 0.0
        for launch in job.launches(memory):
            if isinstance(launch, MatrixProduct):
                self._blas.multiply(launch, stream)
            else:
                self._compiler.kernel(launch, stop)(stream)
            ahead += _SHORT_LAUNCH if launch.is_short else 1
            if ahead >= _LAUNCHES_AHEAD:
                ahead = 0
                if stop():
                    raise Stopped
                if last is not None:
                    _wait(last, stop)
                last = stream.record()

    @contextmanager
    def lane(self, stop: Stop) -> Generator[Lane]:
        """A lane to run on for as long as the context lasts; waits until one is free."""
        with self._staging.buffers(BUFFERS_PER_STREAM, stop) as buffers:
            stream = self._streams.get()
            try:
                events = [self._cuda.Event(disable_timing=True) for _ in buffers]
                for event in events:
                    event.record(stream)
                with _ended(stream):
                    yield Lane(stream, buffers, events)
            finally:
                self._streams.put(stream)

    def _upload(
        self, source: Array | EncodedTensor, desc: BufferTensorDesc, address: int, lane: Lane, stop: Stop
    ) -> None:
        size = desc.data_size_in_bytes
        step = self._staging.size // 3 * 3 if isinstance(source, EncodedTensor) else self._staging.size
        fill = source.decode if isinstance(source, EncodedTensor) else _filler(_bytes_of(source, desc))
        for (buffer, event), start in zip(lane.turns(), range(0, size, step), strict=False):
            piece = buffer[: min(step, size - start)]
            _wait(event, stop)
            fill(start, piece)
            self._runtime.memcpyAsync(
                address + start,
                piece.ctypes.data,
                piece.size,
                self._runtime.memcpyHostToDevice,
                lane.stream.ptr,
            )
            event.record(lane.stream)

    def _download(self, address: int, target: Array, lane: Lane, stop: Stop) -> None:
        coming: deque[tuple[Array, Array, Any]] = deque()
        for (buffer, event), start in zip(lane.turns(), range(0, target.size, self._staging.size), strict=False):
            if len(coming) == BUFFERS_PER_STREAM:
                _receive(*coming.popleft(), stop)
            piece = target[start : start + self._staging.size]
            _wait(event, stop)
            self._runtime.memcpyAsync(
                buffer.ctypes.data,
                address + start,
                piece.size,
                self._runtime.memcpyDeviceToHost,
                lane.stream.ptr,
            )
            event.record(lane.stream)
            coming.append((buffer, piece, event))
        while coming:
            _receive(*coming.popleft(), stop)

    def _recompute(
        self,
        job: CudaJob,
        memory: CudaMemory,
        plan: Plan,
        inputs: Inputs,
        landings: Mapping[str, Array],
        lane: Lane,
        stop: Stop,
    ) -> None:
        counted = np.zeros(8, np.uint8)
        self._download(memory.uncertain, counted, lane, stop)
        count = int(counted.view("<u4")[0])
        if not count:
            return
        places: Array | None = None
        if 8 + 8 * count <= job.uncertain_bytes:
            listed = np.empty(8 * count, np.uint8)
            self._download(memory.uncertain + 8, listed, lane, stop)
            places = listed.view("<u4").reshape(count, 2)
        sources = {}
        for name, desc in plan.inputs.items():
            array = given.array() if isinstance(given := inputs[name], EncodedTensor) else given
            sources[name] = _bytes_of(array, desc).view(desc.data_type.dtype)
        results = {name: landings[name].view(desc.data_type.dtype) for name, desc in plan.outputs.items()}
        job.recompute(places, sources, results, stop)

    def _failed(self, error: Exception) -> UnavailableError:
        """The error of a request that a failure of CUDA ended; asks the card whether it still works."""
        try:
            with self._cuda.Device(self._index):
                self._runtime.deviceSynchronize()
        except self.failures:
            self.broken = str(error)
        return self._unavailable(str(error))

    def _unavailable(self, reason: str) -> UnavailableError:
        return UnavailableError(ProblemCode.NOT_READY, f"the device {self.name} failed: {reason}", retry_after=1)

    def usage(self) -> Usage:
        """See ``Device.usage``."""
        return Usage(self.memory.promised, self.memory.budget, len(self._compiler))

    def describe(self) -> dict[str, object]:
        """See ``Device.describe``."""
        return {
            "name": self.name,
            "kind": "cuda",
            "card": self._properties["name"].decode(),
            "multiprocessors": self.processors,
            "card_memory": {
                "total": int(self._properties["totalGlobalMem"]),
                "in_use": self.memory.in_use,
                "reserved": self.memory.reserved,
            },
            "cuda": self._runtime.runtimeGetVersion(),
            "cupy": self._cupy.__version__,
            "operators": list(JOBS),
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
def _ended(stream: Any) -> Generator[None]:
    """At the end waits until nothing on a stream uses any more what is about to be given back."""
    try:
        yield
    finally:
        stream.synchronize()


def _bytes_of(array: Array, desc: BufferTensorDesc) -> Array:
    """The bytes of a tensor's extent, gaps included, behind an array that is laid out as its desc says."""
    memory = (ctypes.c_uint8 * desc.data_size_in_bytes).from_address(array.ctypes.data)
    found: Array = np.ctypeslib.as_array(memory)
    return found


def _filler(source: Array) -> Callable[[int, Array], None]:
    """Copies the bytes from a place on."""

    def fill(start: int, into: Array) -> None:
        into[...] = source[start : start + into.size]

    return fill


def _landing(array: Array, desc: BufferTensorDesc) -> Array:
    """Where the bytes of an output come in: its own memory, or packed where that has gaps."""
    packed = device_desc(desc)
    return _bytes_of(array, desc) if packed is desc else np.empty(packed.data_size_in_bytes, np.uint8)


def _receive(buffer: Array, target: Array, event: Any, stop: Stop) -> None:
    _wait(event, stop)
    target[...] = buffer[: target.size]


def _wait(event: Any, stop: Stop) -> None:
    looks = 0
    while not event.done:
        if stop():
            raise Stopped
        looks += 1
        if looks > _SPINS:
            time.sleep(_PAUSE)
