"""Transfers to and from a card, in pieces through pinned buffers, with waits that poll ``stop``."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from opwire.tensor import Array, BufferTensorDesc
from opwire.wire import EncodedTensor

from ...execution import Stop, Stopped
from ...kernels.cuda.job import device_desc

BUFFERS_PER_STREAM = 2
"""Number of pinned buffers per stream: one is filled while the card reads the other."""

LAUNCHES_AHEAD = 8
"""Minimum number of kernels queued on a stream before the host waits; at most twice as many are queued."""

_SPINS = 20
_PAUSE = 20e-6
"""A wait polls ``_SPINS`` times without a pause, then sleeps ``_PAUSE`` seconds in between to release the GIL."""


@dataclass(frozen=True, slots=True)
class Lane:
    """The exclusive resources of one running plan: a stream, and pinned buffers, each with an event for its release."""

    runtime: Any
    stream: Any
    buffers: list[Array]
    events: list[Any]

    def upload(self, source: Array | EncodedTensor, desc: BufferTensorDesc, address: int, stop: Stop) -> None:
        """Copies the whole extent of a tensor to the card, asynchronously."""
        size, whole = desc.data_size_in_bytes, self.buffers[0].size
        step = whole // 3 * 3 if isinstance(source, EncodedTensor) else whole
        fill = source.decode if isinstance(source, EncodedTensor) else _filler(bytes_of(source, desc))
        for (buffer, event), start in zip(self._turns(), range(0, size, step), strict=False):
            piece = buffer[: min(step, size - start)]
            wait(event, stop)
            fill(start, piece)
            kind = self.runtime.memcpyHostToDevice
            self.runtime.memcpyAsync(address + start, piece.ctypes.data, piece.size, kind, self.stream.ptr)
            event.record(self.stream)

    def download(self, address: int, target: Array, stop: Stop) -> None:
        """Copies bytes from the card to fill ``target``."""
        coming: deque[tuple[Array, Array, Any]] = deque()
        whole = self.buffers[0].size
        for (buffer, event), start in zip(self._turns(), range(0, target.size, whole), strict=False):
            if len(coming) == BUFFERS_PER_STREAM:
                _receive(*coming.popleft(), stop)
            piece = target[start : start + whole]
            wait(event, stop)
            kind = self.runtime.memcpyDeviceToHost
            self.runtime.memcpyAsync(buffer.ctypes.data, address + start, piece.size, kind, self.stream.ptr)
            event.record(self.stream)
            coming.append((buffer, piece, event))
        while coming:
            _receive(*coming.popleft(), stop)

    def gather(self, address: int, offsets: Array, size: int, stop: Stop) -> Array:
        """Returns a few pieces of ``size`` bytes each from the card, concatenated."""
        buffer, event = self.buffers[0], self.events[0]
        wait(event, stop)
        self._copy_each(address, offsets, size, self.runtime.memcpyDeviceToHost)
        event.record(self.stream)
        wait(event, stop)
        return buffer[: size * len(offsets)].copy()

    def scatter(self, pieces: Array, address: int, offsets: Array, size: int, stop: Stop) -> None:
        """Copies a few concatenated pieces of ``size`` bytes each to their offsets on the card."""
        wait(self.events[0], stop)
        self.buffers[0][: pieces.size] = pieces
        self._copy_each(address, offsets, size, self.runtime.memcpyHostToDevice)
        self.events[0].record(self.stream)

    def _copy_each(self, address: int, offsets: Array, size: int, kind: int) -> None:
        here = self.buffers[0].ctypes.data
        for number, offset in enumerate(offsets.tolist()):
            ends = (here + number * size, address + offset)
            target, source = ends if kind == self.runtime.memcpyDeviceToHost else reversed(ends)
            self.runtime.memcpyAsync(target, source, size, kind, self.stream.ptr)

    def _turns(self) -> Iterator[tuple[Array, Any]]:
        """Yields the buffers and their events in endless rotation."""
        return itertools.cycle(zip(self.buffers, self.events, strict=True))


class Pace:
    """Keeps the host from queueing kernels too far ahead of a stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._ahead = 0.0
        self._last: Any = None

    def launched(self, stop: Stop, count: float = 1.0) -> None:
        """Records a launch with the weight ``count``, waiting if the host is too far ahead.

        Raises:
            Stopped: ``stop()`` returned True.
        """
        self._ahead += count
        if self._ahead < LAUNCHES_AHEAD:
            return
        self._ahead = 0.0
        if stop():
            raise Stopped
        if self._last is not None:
            wait(self._last, stop)
        self._last = self._stream.record()


def bytes_of(array: Array, desc: BufferTensorDesc) -> Array:
    """Returns the bytes of an array in the layout of its desc, gaps included."""
    memory = (ctypes.c_uint8 * desc.data_size_in_bytes).from_address(array.ctypes.data)
    found: Array = np.ctypeslib.as_array(memory)
    return found


def landing(array: Array, desc: BufferTensorDesc) -> Array:
    """Returns the buffer to download an output to: the array itself, or a contiguous copy if it has gaps."""
    packed = device_desc(desc)
    return bytes_of(array, desc) if packed is desc else np.empty(packed.data_size_in_bytes, np.uint8)


def _filler(source: Array) -> Callable[[int, Array], None]:
    """Returns a function that copies bytes of ``source`` from an offset."""

    def fill(start: int, into: Array) -> None:
        into[...] = source[start : start + into.size]

    return fill


def _receive(buffer: Array, target: Array, event: Any, stop: Stop) -> None:
    wait(event, stop)
    target[...] = buffer[: target.size]


def wait(event: Any, stop: Stop) -> None:
    """Waits for an event.

    Raises:
        Stopped: ``stop()`` returned True.
    """
    looks = 0
    while not event.done:
        if stop():
            raise Stopped
        looks += 1
        if looks > _SPINS:
            time.sleep(_PAUSE)
