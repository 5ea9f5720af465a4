"""Sharing of a kernel's units between threads in machine code, so that no thread waits for Python in between.

The calling thread leads: it offers its work to the helpers that are polling, takes units itself, and finally waits for
the helpers. A helper takes units, then polls for a while before it sleeps, because waking up takes longer than many
reductions.
"""

from __future__ import annotations

from ..jit.atomics import call, exchange, fetch_add, pause, peek, replace
from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import INT64, float32, int64, load, store

# Slots of a work record, in int64. Slots that threads write have cache lines of their own.
FUNCTION, IS_FLOAT, SOURCE, TARGET, STATES, GEOMETRY, UNITS, GRAIN, PARTIES, PART = range(10)
FAILED, TAKEN, OFFERED = 16, 17, 18  # whether a kernel failed, all units are taken; number of helpers that accepted
HELPERS = 32  # number of threads taking part, except the leader
NEXT, APART = 48, 16  # units taken from each party's part

# Slots of a pool's memory: whether helpers should stop polling and fetch a ticket, and each helper's mailbox.
TICKETS, MAILBOXES = 0, 16
MAILBOX = 16
LISTENING = 1


@inner
def _take(record: int, own: int, pieces: int) -> bool:
    """Runs up to ``pieces`` pieces of work; returns whether none are left.

    Each party starts with its own contiguous part, for sequential reads, then takes what the others have left.
    """
    units, grain = load(record, UNITS, 0), load(record, GRAIN, 0)
    parties, part = load(record, PARTIES, 0), load(record, PART, 0)
    done = 0
    for i in range(parties):
        party = (own + i) % parties
        end = min((party + 1) * part, units)
        while done < pieces:
            begin = party * part + fetch_add(record, NEXT + APART * party, grain)
            if begin >= end:
                break
            if _fails(record, begin, min(begin + grain, end)):
                store(record, FAILED, 1)
                for j in range(parties):
                    exchange(record, NEXT + APART * j, units)
            done += 1
    return done < pieces


@inner
def _fails(record: int, begin: int, end: int) -> bool:
    """Runs a range of units; returns whether the kernel failed."""
    function, geometry = load(record, FUNCTION, 0), load(record, GEOMETRY, 0)
    source, target, states = load(record, SOURCE, 0), load(record, TARGET, 0), load(record, STATES, 0)
    if load(record, IS_FLOAT, 0):
        return call(function, float32(0), source, target, states, geometry, begin, end)
    return call(function, int64(0), source, target, states, geometry, begin, end)


@inner
def _offer(record: int, memory: int, helpers: int) -> bool:
    """Offers work to the helpers that are polling; returns whether they are enough."""
    wanted, offered = load(record, PARTIES, 0) - 1, 0
    for i in range(helpers):
        if offered < wanted:
            fetch_add(record, HELPERS, 1)
            if replace(memory, MAILBOXES + MAILBOX * i, LISTENING, record):
                offered += 1
            else:
                fetch_add(record, HELPERS, -1)
    store(record, OFFERED, offered)
    return offered == wanted


@inner
def _lead(record: int, pieces: int, pauses: int) -> None:
    if _take(record, 0, pieces):
        store(record, TAKEN, 1)
        for _ in range(pauses):
            if peek(record, HELPERS) == 0:
                break
            pause()


@kernel
def start(zero: int, record: int, memory: int, helpers: int, pieces: int, pauses: int, _e: int) -> None:
    """Resets a work record, offers it to polling helpers, and leads it if they are enough."""
    for party in range(load(record, PARTIES, 0)):
        store(record, NEXT + APART * party, 0)
    store(record, TAKEN, 0)
    store(record, FAILED, 0)
    if _offer(record, memory, helpers):
        _lead(record, pieces, pauses)


@kernel
def lead(zero: int, record: int, pieces: int, pauses: int, _s: int, _b: int, _e: int) -> None:
    """Takes part; once all units are taken, waits briefly for the helpers."""
    _lead(record, pieces, pauses)


@kernel
def serve(zero: int, record: int, memory: int, helper: int, pauses: int, _b: int, _e: int) -> None:
    """Takes part in the given work, if any, and in all work offered soon after."""
    if record:
        fetch_add(record, HELPERS, 1)
    else:
        record = _listen(memory, MAILBOXES + MAILBOX * helper, pauses)
    while record:
        _take(record, helper + 1, 1 << 62)
        fetch_add(record, HELPERS, -1)
        record = _listen(memory, MAILBOXES + MAILBOX * helper, pauses)


@inner
def _listen(memory: int, mailbox: int, pauses: int) -> int:
    """Polls for work; returns its record, or 0 if none is offered in time."""
    exchange(memory, mailbox, LISTENING)
    for _ in range(pauses):
        if peek(memory, mailbox) != LISTENING or peek(memory, TICKETS):
            break
        pause()
    given = exchange(memory, mailbox, 0)
    return 0 if given == LISTENING else given


START, LEAD, SERVE = (Kernel(function, INT64) for function in (start, lead, serve))

KERNELS = (START, LEAD, SERVE)
"""Kernels that must be ready before any other."""
