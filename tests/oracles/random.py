"""RANDOM_GENERATOR: Philox 4x32-10 as defined in the paper, on bit strings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from opwire.check import Plan
from opwire.tensor import Array
from tests.oracles import Answer

_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_WEYL = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: int, key: list[int]) -> list[int]:
    """Returns the four words of a block."""
    words = np.array([counter >> 32 * i & 0xFFFFFFFF for i in range(4)], np.uint64)
    keys = np.array(key, np.uint64)
    for number in range(10):
        even, odd = words[0::2], words[1::2]
        products = even * _MULTIPLIERS
        bumped = (keys + np.uint64(number) * _WEYL) & _LOW
        mixed = (products[::-1] >> _HALF) ^ odd ^ bumped
        words = np.array([mixed[0], products[1] & _LOW, mixed[1], products[0] & _LOW], np.uint64)
    return [int(word) for word in words]


def _expected(plan: Plan, inputs: Mapping[str, Array]) -> Mapping[str, Answer]:
    state = [int(word) for word in inputs["InputStateTensor"].reshape(-1)]
    counter = sum(word << 32 * i for i, word in enumerate(state[:4]))
    sizes = plan.outputs["OutputTensor"].sizes
    count = int(np.prod(sizes))
    results: list[int] = []
    while len(results) < count:
        results += philox((counter + len(results) // 4) % 2**128, state[4:])
    answers: dict[str, Answer] = {"OutputTensor": np.array(results[:count], np.uint32).reshape(sizes)}
    if "OutputStateTensor" in plan.outputs:
        counter += -(-count // 4)
        after = [counter >> 32 * i & 0xFFFFFFFF for i in range(4)] + state[4:]
        answers["OutputStateTensor"] = np.array(after, np.uint32).reshape(plan.outputs["OutputStateTensor"].sizes)
    return answers


EXPECTED = {"RANDOM_GENERATOR": _expected}
