"""Philox 4x32-10 in machine code: blocks of four words from a 128-bit counter and a key."""

from __future__ import annotations

from ..jit.compiler import inner, kernel
from ..jit.element import int32, int64, load, store

COUNTER_LOW, COUNTER_HIGH, KEY0, KEY1 = range(4)
"""Slots of the state: two halves of the counter, and the words of the key."""

_MULTIPLIER0, _MULTIPLIER1 = 0xD2511F53, 0xCD9E8D57
"""Philox's multipliers."""

_STEP0, _STEP1 = 0x9E3779B9, 0xBB67AE85
"""Philox's key increments per round (Weyl constants)."""

_MASK = 0xFFFFFFFF


@inner
def _put_block(target: int, low: int, high: int, k0: int, k1: int) -> None:
    c0, c1, c2, c3 = low & _MASK, (low >> 32) & _MASK, high & _MASK, (high >> 32) & _MASK
    for _ in range(10):
        # Products of words take 64 bits; the masks drop the sign bits shifted in.
        first, second = c0 * _MULTIPLIER0, c2 * _MULTIPLIER1
        c0, c1, c2, c3 = (
            ((second >> 32) & _MASK) ^ c1 ^ k0,
            second & _MASK,
            ((first >> 32) & _MASK) ^ c3 ^ k1,
            first & _MASK,
        )
        k0, k1 = (k0 + _STEP0) & _MASK, (k1 + _STEP1) & _MASK
    store(target, 0, int32(c0))
    store(target, 1, int32(c1))
    store(target, 2, int32(c2))
    store(target, 3, int32(c3))


@kernel
def blocks(zero: int, source: int, target: int, states: int, geometry: int, begin: int, end: int) -> None:
    """Generates the blocks of counters plus ``begin`` to plus ``end``, contiguous from the target on."""
    low, high = load(states, COUNTER_LOW, 0), load(states, COUNTER_HIGH, 0)
    k0, k1 = load(states, KEY0, 0), load(states, KEY1, 0)
    for block in range(begin, end):
        now = int64(low + block)
        # Compared as unsigned numbers, a sum that wraps is less than its summands.
        carry = 1 if (now ^ (-0x7FFFFFFFFFFFFFFF - 1)) < (low ^ (-0x7FFFFFFFFFFFFFFF - 1)) else 0
        _put_block(target + 16 * (block - begin), now, high + carry, k0, k1)
