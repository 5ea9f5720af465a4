"""When a call is sent again, and when: with a clock and chances that the tests set."""

from __future__ import annotations

from typing import Any

import pytest

from opwire.errors import (
    PROBLEMS,
    ConnectError,
    DeadlineExceededError,
    InvalidResponseError,
    OpwireError,
    OverloadedError,
    ProblemCode,
    TransportTimeout,
)
from opwire.transport.retry import (
    FIRST_BACKOFF,
    MAX_BACKOFF,
    MAX_HINT,
    MIN_ATTEMPT,
    Tries,
    is_retryable,
    pause,
)


def busy(**members: Any) -> OpwireError:
    return OverloadedError(ProblemCode.QUEUE_FULL, "full", **members)


def late(stage: str) -> OpwireError:
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, "late", stage=stage)


def foreign(status: int, retry_after: float | None = None) -> OpwireError:
    return InvalidResponseError("not opwire's", status=status, body=b"", retry_after=retry_after)


REPEATED = [ConnectError("refused"), busy(), foreign(429), foreign(503), late("queue")]
GIVEN_UP = [TransportTimeout("silence"), foreign(200), foreign(500), foreign(502), foreign(504)]
GIVEN_UP += [late(stage) for stage in ("receive", "run", "send", "")]


@pytest.mark.parametrize("error", REPEATED, ids=repr)
def test_what_another_try_may_mend_is_tried_again(error):
    assert is_retryable(error)


@pytest.mark.parametrize("error", GIVEN_UP, ids=repr)
def test_what_another_try_would_only_repeat_is_given_up(error):
    assert not is_retryable(error)


@pytest.mark.parametrize("code", list(ProblemCode))
def test_of_all_problems_those_of_a_busy_server_are_tried_again(code):
    row = PROBLEMS[code]
    error = busy() if row.status == 429 else OpwireError(code, "d") if row.status != 503 else row.exception(code, "d")
    assert is_retryable(error) is (row.status in (429, 503))


def test_the_bound_of_the_wait_doubles_up_to_its_end():
    bounds = [pause(ConnectError("refused"), retries, 1.0, None) for retries in range(10)]
    assert bounds == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert (FIRST_BACKOFF, MAX_BACKOFF) == (0.05, 5.0)
    assert pause(ConnectError("refused"), 2, 0.25, None) == 0.05
    assert pause(ConnectError("refused"), 2000, 0.0, None) == 0.0


@pytest.mark.parametrize(
    ("given", "asked"),
    [(0.3, 0.3), (2, 2.0), (0, 0.0), (1e9, MAX_HINT), (10**400, MAX_HINT), (float("inf"), MAX_HINT)],
)
def test_the_server_is_given_the_time_that_it_asks_for_and_at_most_as_much_again(given, asked):
    for retries in (0, 50):
        assert pause(busy(retry_after=given), retries, 0.0, None) == asked
        assert pause(busy(retry_after=given), retries, 1.0, None) == asked + max(asked, FIRST_BACKOFF)


@pytest.mark.parametrize("given", [-1, float("nan"), "1.5", None, [1], True])
def test_nonsense_is_no_time_to_come_back(given):
    assert [pause(busy(retry_after=given), retries, 1.0, None) for retries in (0, 1)] == [0.05, 0.1]


def test_a_gateway_is_given_its_time_too():
    assert pause(foreign(503, 4.0), 0, 0.0, None) == 4.0


def test_chance_leaves_half_of_the_time_to_the_next_try():
    assert pause(busy(retry_after=4), 0, 1.0, 6.0) == 5.0
    assert pause(ConnectError("refused"), 9, 1.0, 2.0) == 1.0
    assert pause(busy(retry_after=4), 0, 0.0, 4.0 + MIN_ATTEMPT) is None
    assert pause(ConnectError("refused"), 0, 0.0, MIN_ATTEMPT) is None


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def tries(most: int, timeout: float | None, clock: Clock, *draws: float) -> Tries:
    return Tries(most, timeout, clock, iter(draws).__next__)


def test_a_call_is_tried_so_many_times_and_then_fails_with_its_last_error():
    attempts = tries(2, None, Clock(), 0.5, 1.0)
    assert (attempts.again(ConnectError("1")), attempts.retries) == (0.025, 1)
    assert (attempts.again(ConnectError("2")), attempts.retries) == (0.1, 2)
    last = ConnectError("3")
    with pytest.raises(ConnectError) as raised:
        attempts.again(last)
    assert raised.value is last
    assert last.retries == 2


def test_an_error_that_is_final_says_how_often_the_call_was_repeated():
    attempts = tries(5, None, Clock(), 0.0)
    attempts.again(busy())
    with pytest.raises(TransportTimeout) as raised:
        attempts.again(TransportTimeout("silence"))
    assert raised.value.retries == 1


def test_without_retries_the_first_error_is_final():
    with pytest.raises(ConnectError) as raised:
        tries(0, None, Clock()).again(ConnectError("1"))
    assert raised.value.retries == 0


def test_a_busy_server_is_asked_again_however_often_it_says_so():
    clock = Clock()
    attempts = tries(0, 1000.0, clock, *[0.5] * 50)
    for _ in range(50):
        clock.now += attempts.again(busy(retry_after=2))
    assert (attempts.retries, clock.now) == (50, 1150.0)
    with pytest.raises(ConnectError) as raised:
        attempts.again(ConnectError("refused"))
    assert raised.value.retries == 50


def test_busy_answers_do_not_use_up_the_retries():
    attempts = tries(1, None, Clock(), *[0.0] * 4)
    for error in (busy(retry_after=1), foreign(503, 1.0), ConnectError("1"), busy()):
        attempts.again(error)
    with pytest.raises(ConnectError):
        attempts.again(ConnectError("2"))


def test_a_gateway_that_does_not_say_when_is_a_failure_like_others():
    with pytest.raises(InvalidResponseError):
        tries(0, None, Clock(), 0.0).again(foreign(503))


def test_each_try_has_the_time_that_is_left():
    clock = Clock()
    attempts = tries(9, 10.0, clock, 1.0, 0.0, 1.0)
    assert attempts.timeout == 10.0
    clock.now += 4
    attempts.again(ConnectError("1"))
    clock.now += 0.05
    assert attempts.timeout == pytest.approx(5.95)
    attempts.again(busy(retry_after=1))
    clock.now += 5.94
    assert attempts.timeout == pytest.approx(0.01)
    with pytest.raises(ConnectError):
        attempts.again(ConnectError("3"))


def test_no_wait_goes_beyond_the_time_of_the_call():
    attempts = tries(9, 10.0, Clock(), 0.0)
    with pytest.raises(OverloadedError) as raised:
        attempts.again(busy(retry_after=10))
    assert raised.value.retries == 0


def test_without_a_timeout_there_is_always_time():
    clock = Clock()
    attempts = tries(1, None, clock, 0.0)
    clock.now += 1e9
    assert attempts.again(busy(retry_after=5)) == 5
    assert attempts.timeout is None
