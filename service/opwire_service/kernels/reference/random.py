"""RANDOM_GENERATOR: Philox 4x32-10 (Salmon et al.), in blocks of four results."""

from __future__ import annotations

from itertools import islice

from opwire.check import Plan

from ...execution import Arrays, Stop
from .places import places

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
KEY_STEPS = 0x9E3779B9, 0xBB67AE85
WORD = 32
MASK = (1 << WORD) - 1
COUNTER = 4
"""Words of the counter, lowest first; the words of the key follow it in the state."""

POLL_EVERY = 128


def block(counter: int, key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns the four results of a 128-bit counter."""
    c0, c1, c2, c3 = (counter >> WORD * i & MASK for i in range(COUNTER))
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = divmod(MULTIPLIERS[0] * c0, 1 << WORD)
        high1, low1 = divmod(MULTIPLIERS[1] * c2, 1 << WORD)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return c0, c1, c2, c3


def run(plan: Plan, inputs: Arrays, outputs: Arrays, stop: Stop) -> None:
    *words, k0, k1 = inputs["InputStateTensor"].reshape(-1).tolist()
    counter = sum(word << WORD * i for i, word in enumerate(words))
    target = outputs["OutputTensor"]
    free = places(target.shape, stop, POLL_EVERY)
    blocks = 0
    while four := list(islice(free, COUNTER)):
        for place, result in zip(four, block(counter + blocks, (k0, k1)), strict=False):
            target[place] = result
        blocks += 1
    state = outputs.get("OutputStateTensor")
    if state is not None:
        counter += blocks
        state[...] = [*state_words(counter), k0, k1]


def state_words(counter: int) -> list[int]:
    """Returns the words of a counter, which wraps around."""
    return [counter >> WORD * i & MASK for i in range(COUNTER)]


KERNELS = {"RANDOM_GENERATOR": run}
