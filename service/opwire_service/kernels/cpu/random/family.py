"""RANDOM_GENERATOR: tiles of the output, each from the counter of its first element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwire.check import Plan
from opwire.tensor import packed_strides

from ....execution import Arrays, Stop
from ...reference.random import COUNTER, WORD, state_words
from ..jit.compiler import Kernel
from ..jit.element import INT64
from ..run.job import Job, ScratchBytes
from ..run.pool import Find, Pool
from ..run.tiles import TILE, Tiles
from .philox import blocks

_BLOCKS = Kernel(blocks, INT64)

KERNELS: tuple[Kernel, ...] = (_BLOCKS,)

_HALF = (1 << 64) - 1
"""Mask of the low 64 bits of the counter."""


class RandomJob(Job):
    """Generates tiles, which are runs of elements in row-major order."""

    _kernels = KERNELS

    def __init__(self, plan: Plan) -> None:
        desc = plan.outputs["OutputTensor"]
        self._sizes = desc.sizes
        self._count = desc.element_count
        self._tiles = Tiles(desc.sizes, packed_strides(desc.sizes))
        self._scratch = ScratchBytes(thread=8 * TILE, units=self._tiles.count)

    def run(self, inputs: Arrays, outputs: Arrays, find: Find, pool: Pool, stop: Stop) -> None:
        *words, k0, k1 = inputs["InputStateTensor"].reshape(-1).tolist()
        counter = sum(word << WORD * i for i, word in enumerate(words))
        states = np.array([counter & _HALF, counter >> 64, k0, k1], np.uint64)
        call, target, steps = find(_BLOCKS).call, outputs["OutputTensor"], packed_strides(self._sizes)

        def piece(number: int) -> None:
            at = self._tiles.at(number)
            part = target[at]
            first = sum((each.start or 0) * step for each, step in zip(at, steps, strict=True))
            blocks_from, skipped = divmod(first, COUNTER)
            blocks_to = -(-(first + part.size) // COUNTER)
            buffer = np.empty(COUNTER * (blocks_to - blocks_from), np.uint32)
            call(0, 0, buffer.ctypes.data, states.ctypes.data, 0, blocks_from, blocks_to)
            part[...] = buffer[skipped : skipped + part.size].reshape(part.shape)

        pool.each(piece, self._tiles.count, stop)
        after = outputs.get("OutputStateTensor")
        if after is not None:
            after[...] = [*state_words(counter + -(-self._count // COUNTER)), k0, k1]


PREPARE: dict[str, Callable[[Plan], Job]] = {"RANDOM_GENERATOR": RandomJob}
