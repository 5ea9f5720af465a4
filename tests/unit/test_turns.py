"""Turns of threads: bounded, and in the order of arrival."""

from __future__ import annotations

import threading
import time

from opwire.transport.turns import Turns


def waits(turns: Turns, order: list[int], number: int) -> threading.Thread:
    """A thread that waits for a turn, once it is in the line behind so many."""

    def work() -> None:
        assert turns.take(10)
        order.append(number)
        turns.give()

    thread = threading.Thread(target=work)
    thread.start()
    while len(turns._waiting) <= number:
        assert thread.is_alive()
        time.sleep(0.001)
    return thread


def test_who_comes_first_is_served_first():
    turns = Turns(1)
    order: list[int] = []
    assert turns.take(None)
    threads = [waits(turns, order, number) for number in range(5)]
    turns.give()
    assert turns.take(10)  # nobody overtakes who waits
    assert order == [0, 1, 2, 3, 4]
    turns.give()
    for thread in threads:
        thread.join()


def test_who_waits_too_long_leaves_the_line():
    turns = Turns(2)
    assert turns.take(0.01)
    assert turns.take(0.01)
    started = time.monotonic()
    assert not turns.take(0.1)
    assert time.monotonic() - started >= 0.1
    turns.give()
    assert turns.take(0.01)
    assert not turns.take(0.01)
