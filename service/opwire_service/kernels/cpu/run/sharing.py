"""How threads share out the units of a kernel in machine code, so that none of them waits for Python in between.

The thread that calls leads: it offers its work to those helpers that still listen, takes units, and waits for the
helpers in the end. A helper takes units of what it was given, then listens for a while before it goes to sleep: to wake
it takes longer than many a reduction does.
"""

from __future__ import annotations

from ..jit.atomics import call, exchange, fetch_add, pause, peek, replace
from ..jit.compiler import Kernel, inner, kernel
from ..jit.element import INT64, float32, int64, store
from .geometry import at

# Places in the record of some work, in int64. What threads write has cache lines of its own.
FUNCTION, IS_FLOAT, SOURCE, TARGET, STATES, GEOMETRY, UNITS, GRAIN, PARTIES, PART = range(10)
FAILED, TAKEN, OFFERED = 16, 17, 18  # whether a kernel failed, whether all is taken, how many helpers listened
HELPERS = 32  # who take part, but for the leader
NEXT, APART = 48, 16  # of each part the units that are taken

# Places in the memory of a pool: whether helpers shall rather sleep, and of each helper what it listens to.
TICKETS, EARS = 0, 16
EAR = 16
LISTENING = 1


@inner
def _take(record: int, own: int, pieces: int) -> bool:
    """Does so many pieces, or fewer if there are no more, which it returns.

    Each party begins with a part of its own, so that it reads on where it was, and then takes what others leave.
    """
    units, grain, parties, part = at(record, UNITS), at(record, GRAIN), at(record, PARTIES), at(record, PART)
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
    """Does some units."""
    function, geometry = at(record, FUNCTION), at(record, GEOMETRY)
    source, target, states = at(record, SOURCE), at(record, TARGET), at(record, STATES)
    if at(record, IS_FLOAT):
        return call(function, float32(0), source, target, states, geometry, begin, end)
    return call(function, int64(0), source, target, states, geometry, begin, end)


@inner
def _offer(record: int, memory: int, helpers: int) -> bool:
    """Gives work to helpers that listen; whether it needs no more of them than that."""
    wanted, offered = at(record, PARTIES) - 1, 0
    for i in range(helpers):
        if offered < wanted:
            fetch_add(record, HELPERS, 1)
            if replace(memory, EARS + EAR * i, LISTENING, record):
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
    """Gives work to the helpers that listen, and leads it if those are enough."""
    for party in range(at(record, PARTIES)):
        store(record, NEXT + APART * party, 0)
    store(record, TAKEN, 0)
    store(record, FAILED, 0)
    if _offer(record, memory, helpers):
        _lead(record, pieces, pauses)


@kernel
def lead(zero: int, record: int, pieces: int, pauses: int, _s: int, _b: int, _e: int) -> None:
    """Takes part, and when all is taken waits for the helpers, but not for long."""
    _lead(record, pieces, pauses)


@kernel
def serve(zero: int, record: int, memory: int, helper: int, pauses: int, _b: int, _e: int) -> None:
    """Takes part in work, if there is any yet, and in all that is offered soon after."""
    if record:
        fetch_add(record, HELPERS, 1)
    else:
        record = _listen(memory, EARS + EAR * helper, pauses)
    while record:
        _take(record, helper + 1, 1 << 62)
        fetch_add(record, HELPERS, -1)
        record = _listen(memory, EARS + EAR * helper, pauses)


@inner
def _listen(memory: int, ear: int, pauses: int) -> int:
    """The work that is offered soon, or 0."""
    exchange(memory, ear, LISTENING)
    for _ in range(pauses):
        if peek(memory, ear) != LISTENING or peek(memory, TICKETS):
            break
        pause()
    given = exchange(memory, ear, 0)
    return 0 if given == LISTENING else given


START, LEAD, SERVE = (Kernel(function, INT64) for function in (start, lead, serve))

KERNELS = (START, LEAD, SERVE)
"""They must be ready before any other."""
