"""The semaphore of the connection pool: bounded, and in the order of arrival."""

from __future__ import annotations

import threading
import time

from opwire.transport.semaphore import FairSemaphore


def waits(semaphore: FairSemaphore, order: list[int], number: int) -> threading.Thread:
    """A thread that waits for the semaphore, once it is in the line behind so many."""

    def work() -> None:
        assert semaphore.acquire(10)
        order.append(number)
        semaphore.release()

    thread = threading.Thread(target=work)
    thread.start()
    while len(semaphore._waiting) <= number:
        assert thread.is_alive()
        time.sleep(0.001)
    return thread


def test_who_comes_first_is_served_first():
    semaphore = FairSemaphore(1)
    order: list[int] = []
    assert semaphore.acquire(None)
    threads = [waits(semaphore, order, number) for number in range(5)]
    semaphore.release()
    assert semaphore.acquire(10)  # nobody overtakes who waits
    assert order == [0, 1, 2, 3, 4]
    semaphore.release()
    for thread in threads:
        thread.join()


def test_who_waits_too_long_leaves_the_line():
    semaphore = FairSemaphore(2)
    assert semaphore.acquire(0.01)
    assert semaphore.acquire(0.01)
    started = time.monotonic()
    assert not semaphore.acquire(0.1)
    assert time.monotonic() - started >= 0.1
    semaphore.release()
    assert semaphore.acquire(0.01)
    assert not semaphore.acquire(0.01)
