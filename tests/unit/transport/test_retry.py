"""When calls are retried, and after how long, with a clock and random numbers set by the test."""

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
from opwire.transport.retry import FIRST_BACKOFF, MAX_BACKOFF, MAX_HINT, MIN_ATTEMPT, Tries, is_retryable, pause


def busy(**members: Any) -> OpwireError:
    return OverloadedError(ProblemCode.QUEUE_FULL, "full", **members)


def deadline_exceeded(stage: str) -> OpwireError:
    return DeadlineExceededError(ProblemCode.DEADLINE_EXCEEDED, "late", stage=stage)


def gateway_error(status: int, retry_after: float | None = None) -> OpwireError:
    return InvalidResponseError("not opwire's", status=status, body=b"", retry_after=retry_after)


REPEATED = [ConnectError("refused"), busy(), gateway_error(429), gateway_error(503), deadline_exceeded("queue")]
GIVEN_UP = [TransportTimeout("silence"), gateway_error(200), gateway_error(500), gateway_error(502), gateway_error(504)]
GIVEN_UP += [deadline_exceeded(stage) for stage in ("receive", "run", "send", "")]


@pytest.mark.parametrize("error", REPEATED, ids=repr)
def test_transient_errors_are_retried(error):
    assert is_retryable(error)


@pytest.mark.parametrize("error", GIVEN_UP, ids=repr)
def test_permanent_errors_are_not_retried(error):
    assert not is_retryable(error)


@pytest.mark.parametrize("code", list(ProblemCode))
def test_only_problems_of_a_busy_server_are_retried(code):
    row = PROBLEMS[code]
    error = busy() if row.status == 429 else OpwireError(code, "d") if row.status != 503 else row.exception(code, "d")
    assert is_retryable(error) is (row.status in (429, 503))


def test_the_backoff_doubles_up_to_its_maximum():
    bounds = [pause(ConnectError("refused"), retries, 1.0, None) for retries in range(10)]
    assert bounds == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert (FIRST_BACKOFF, MAX_BACKOFF) == (0.05, 5.0)
    assert pause(ConnectError("refused"), 2, 0.25, None) == 0.05
    assert pause(ConnectError("refused"), 2000, 0.0, None) == 0.0


@pytest.mark.parametrize(
    ("given", "asked"), [(0.3, 0.3), (2, 2.0), (0, 0.0), (1e9, MAX_HINT), (10**400, MAX_HINT), (float("inf"), MAX_HINT)]
)
def test_the_wait_is_between_one_and_two_times_retry_after(given, asked):
    for retries in (0, 50):
        assert pause(busy(retry_after=given), retries, 0.0, None) == asked
        assert pause(busy(retry_after=given), retries, 1.0, None) == asked + max(asked, FIRST_BACKOFF)


@pytest.mark.parametrize("given", [-1, float("nan"), "1.5", None, [1], True])
def test_invalid_retry_after_is_ignored(given):
    assert [pause(busy(retry_after=given), retries, 1.0, None) for retries in (0, 1)] == [0.05, 0.1]


def test_retry_after_of_a_gateway_is_respected():
    assert pause(gateway_error(503, 4.0), 0, 0.0, None) == 4.0


def test_jitter_leaves_at_least_half_of_the_backoff():
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


def test_a_call_fails_with_its_last_error_after_all_retries():
    attempts = tries(2, None, Clock(), 0.5, 1.0)
    assert (attempts.again(ConnectError("1")), attempts.retries) == (0.025, 1)
    assert (attempts.again(ConnectError("2")), attempts.retries) == (0.1, 2)
    last = ConnectError("3")
    with pytest.raises(ConnectError) as raised:
        attempts.again(last)
    assert raised.value is last
    assert last.retries == 2


def test_a_final_error_has_the_number_of_retries():
    attempts = tries(5, None, Clock(), 0.0)
    attempts.again(busy())
    with pytest.raises(TransportTimeout) as raised:
        attempts.again(TransportTimeout("silence"))
    assert raised.value.retries == 1


def test_without_retries_the_first_error_is_final():
    with pytest.raises(ConnectError) as raised:
        tries(0, None, Clock()).again(ConnectError("1"))
    assert raised.value.retries == 0


def test_a_busy_server_is_retried_without_limit():
    clock = Clock()
    attempts = tries(0, 1000.0, clock, *[0.5] * 50)
    for _ in range(50):
        clock.now += attempts.again(busy(retry_after=2))
    assert (attempts.retries, clock.now) == (50, 1150.0)
    with pytest.raises(ConnectError) as raised:
        attempts.again(ConnectError("refused"))
    assert raised.value.retries == 50


def test_busy_responses_do_not_count_as_retries():
    attempts = tries(1, None, Clock(), *[0.0] * 4)
    for error in (busy(retry_after=1), gateway_error(503, 1.0), ConnectError("1"), busy()):
        attempts.again(error)
    with pytest.raises(ConnectError):
        attempts.again(ConnectError("2"))


def test_a_gateway_without_retry_after_counts_as_a_failure():
    with pytest.raises(InvalidResponseError):
        tries(0, None, Clock(), 0.0).again(gateway_error(503))


def test_each_try_gets_the_remaining_time():
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


def test_waits_do_not_exceed_the_timeout():
    attempts = tries(9, 10.0, Clock(), 0.0)
    with pytest.raises(OverloadedError) as raised:
        attempts.again(busy(retry_after=10))
    assert raised.value.retries == 0


def test_without_a_timeout_retries_never_expire():
    clock = Clock()
    attempts = tries(1, None, clock, 0.0)
    clock.now += 1e9
    assert attempts.again(busy(retry_after=5)) == 5
    assert attempts.timeout is None
