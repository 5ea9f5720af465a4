"""The task of every server: ARGMAX along axis 1 of three tensors, with known answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

AXIS = 1
SEED = 20_000


@dataclass(frozen=True)
class Case:
    """A tensor, and the numbers of connections that send it.

    Attributes:
        name: name on the command line.
        sizes: sizes of the float32 tensor.
        connections: numbers of connections, one row of the table each.
        smaller: sizes of a warm-up tensor of the same rank that leaves little behind in memory.
    """

    name: str
    sizes: tuple[int, ...]
    connections: tuple[int, ...]
    smaller: tuple[int, ...]

    @property
    def tensor_bytes(self) -> int:
        return int(np.prod(self.sizes)) * 4

    @cached_property
    def winners(self) -> NDArray[np.uint32]:
        """The answer, chosen before the tensor is made; it has the tensor's shape without the axis."""
        rest = self.sizes[:AXIS] + self.sizes[AXIS + 1 :]
        return np.random.default_rng(SEED).integers(0, self.sizes[AXIS], rest, np.uint32)

    @cached_property
    def tensor(self) -> NDArray[np.float32]:
        """Noise below 1, with a 2 at each winner."""
        tensor = np.random.default_rng(SEED + 1).random(self.sizes, np.float32)
        np.put_along_axis(tensor, np.expand_dims(self.winners, AXIS).astype(np.intp), np.float32(2), AXIS)
        return tensor

    def shrunk(self) -> Case:
        """Returns the case with its smaller tensor."""
        return replace(self, sizes=self.smaller)

    def check(self, answer: NDArray[Any]) -> None:
        """Raises ValueError unless the answer has the winners, in any shape."""
        if answer.size != self.winners.size or not np.array_equal(answer.reshape(self.winners.shape), self.winners):
            raise ValueError(f"wrong answer for {list(self.sizes)}: {answer.size} elements, {answer.ravel()[:4]}...")


CASES = {
    case.name: case
    for case in (
        Case("small", (3, 3), (1, 8, 32), smaller=(3, 3)),
        Case("medium", (1, 64, 112, 112), (4,), smaller=(1, 64, 28, 28)),
        Case("large", (16, 64, 128, 128), (1,), smaller=(2, 64, 32, 32)),
    )
}
