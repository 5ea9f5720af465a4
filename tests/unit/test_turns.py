"""Turns of threads: bounded, and in order of arrival."""

from __future__ import annotations

import threading
import time

from opwire.transport.turns import Turns


def waits(turns: Turns, order: list[int], number: int) -> threading.Thread:
    """Starts a thread that waits for a turn, and returns once it is queued at position ``number``."""

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


def test_turns_are_taken_in_order_of_arrival():
    turns = Turns(1)
    order: list[int] = []
    assert turns.take(None)
    threads = [waits(turns, order, number) for number in range(5)]
    turns.give()
    assert turns.take(10)  # nobody overtakes a waiting thread
    assert order == [0, 1, 2, 3, 4]
    turns.give()
    for thread in threads:
        thread.join()


def test_a_wait_that_times_out_leaves_the_queue():
    turns = Turns(2)
    assert turns.take(0.01)
    assert turns.take(0.01)
    started = time.monotonic()
    assert not turns.take(0.1)
    assert time.monotonic() - started >= 0.1
    turns.give()
    assert turns.take(0.01)
    assert not turns.take(0.01)
