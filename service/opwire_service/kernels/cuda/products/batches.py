"""The launches of a tile, recorded once and relocated to the memory of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from opwire.tensor import Array

from ..job import KernelLaunch, Launch, MatrixProduct, Program
from .tiles import COPIES, OPTIONAL, PARAMETERS, TASK, TENSORS

KEPT = 512
"""Maximum number of cached launches per job; larger jobs are recorded anew for each run."""

TOGETHER = 64
"""Approximate number of launches per batch, which take a few ms to record."""


class TaskLaunch(NamedTuple):
    """A kernel launch with the task of the given number."""

    entry: str
    grid: tuple[int, int]
    block: tuple[int, int]
    is_short: bool
    task: int
    shared_bytes: int = 0


class Batch(NamedTuple):
    """Launches with addresses relative to the start of each tensor and of the scratch memory.

    Attributes:
        tasks: the bytes of all tasks.
        steps: the launches.
    """

    tasks: bytes
    steps: tuple[TaskLaunch | MatrixProduct, ...]

    def placed(self, program: Program, tensors: Mapping[str, int], scratch: int) -> Iterator[Launch]:
        """Yields the launches of a run, relocated to its tensors and its scratch memory."""
        tasks = np.frombuffer(bytearray(self.tasks), TASK)
        for name in TENSORS:
            tasks[name] += np.uint64(tensors.get(name, 0))
        for name in PARAMETERS:
            if name in tensors:
                tasks[name]["at"] += np.uint64(tensors[name])
        for name in COPIES:
            tasks[name] += np.uint64(scratch)
        for name in OPTIONAL:
            tasks[name] += np.uint64(scratch) * (tasks[name] != 0)
        for name in ("left", "right"):  # or a copy in place of the tensor
            instead = np.uint64((scratch - tensors.get(name, 0)) % 2**64)
            tasks[name] += instead * (tasks[f"{name}_is_copied"] != 0)
        for step in self.steps:
            if isinstance(step, MatrixProduct):
                left, right, target = (
                    each._replace(address=each.address + scratch) for each in (step.left, step.right, step.target)
                )
                yield replace(step, left=left, right=right, target=target)
            else:
                task = tasks[step.task : step.task + 1]
                yield KernelLaunch(
                    program, step.entry, step.grid, step.block, task, step.shared_bytes, is_short=step.is_short
                )


class Recording:
    """Records the launches of a tile.

    Args:
        task: the tile's task record, which is updated from launch to launch.
    """

    def __init__(self, task: Array) -> None:
        self.task = task
        self._tasks: list[bytes] = []
        self._steps: list[TaskLaunch | MatrixProduct] = []

    def launch(
        self, entry: str, grid: tuple[int, int], block: tuple[int, int], *, is_short: bool = True, shared_bytes: int = 0
    ) -> None:
        """Adds a kernel launch with the current task."""
        self._steps.append(TaskLaunch(entry, grid, block, is_short, len(self._tasks), shared_bytes))
        self._tasks.append(self.task.tobytes())

    def multiply(self, product: MatrixProduct) -> None:
        self._steps.append(product)

    def batches(self, *, last: bool = False) -> Iterator[Batch]:
        """Yields the launches recorded since the last batch, if there are enough or no more will follow."""
        if self._steps and (last or len(self._steps) >= TOGETHER):
            yield Batch(b"".join(self._tasks), tuple(self._steps))
            self._tasks, self._steps = [], []


class Batches:
    """Batches that can be iterated repeatedly.

    Args:
        record: generates them.
    """

    def __init__(self, record: Callable[[], Iterator[Batch]]) -> None:
        self._record = record
        self._kept: tuple[Batch, ...] | None = None
        self._is_long = False

    def __iter__(self) -> Iterator[Batch]:
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Batch] = []
        launches = 0
        for batch in self._record():
            yield batch
            launches += len(batch.steps)
            if launches <= KEPT and not self._is_long:
                kept.append(batch)
            else:
                self._is_long = True
                kept.clear()
        if not self._is_long:
            self._kept = tuple(kept)
