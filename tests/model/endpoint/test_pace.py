"""How long is waited before a server is asked again."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest

from heldout.model.endpoint.connection import (
    LONGEST_WAIT_SECONDS,
    Backoff,
    TokenPace,
    retry_after_seconds,
)


def test_waits_double_with_jitter_up_to_a_limit() -> None:
    backoff = Backoff(first_seconds=1.0, most_seconds=8.0)
    for attempt, most in enumerate([1, 2, 4, 8, 8, 8]):
        waits = [backoff.seconds(attempt) for _ in range(50)]
        assert most / 2 <= min(waits)
        assert max(waits) <= most
        assert len(set(waits)) > 1


@pytest.mark.parametrize("text", [None, "", "soon", "-5", "1e400", "nan", "Thu, 99 Foo 2020"])
def test_nonsense_is_no_wish(text: str | None) -> None:
    assert retry_after_seconds(text) is None


def test_a_servers_wish_comes_first_within_reason() -> None:
    assert Backoff().seconds(0, "7") == 7.0
    assert Backoff().seconds(0, "99999999") == LONGEST_WAIT_SECONDS
    in_a_minute = retry_after_seconds(formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 50 < in_a_minute <= 61


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_no_minute_costs_more_tokens_than_the_budget() -> None:
    clock, spent = Clock(), []
    pace = TokenPace(1_000, clock, clock.sleep)
    for number in range(40):
        with pace.request(150) as cost:
            clock.now += 0.5  # the reply takes a moment
            cost.tokens = 100 + 10 * (number % 7)  # and costs something else than was expected
        spent.append((clock.now, cost.tokens))
    for end, _ in spent:
        assert sum(tokens for when, tokens in spent if end - 60 < when <= end) <= 1_000 + 10
    total = sum(tokens for _, tokens in spent)
    assert clock.now - 1000.0 < 60 * (total / 1_000 + 1)  # and hardly any of it is wasted


def test_a_request_above_the_budget_goes_alone() -> None:
    clock = Clock()
    pace = TokenPace(100, clock, clock.sleep)
    for _ in range(3):
        with pace.request(500):
            pass
    assert clock.now - 1000.0 == pytest.approx(120, abs=1.1)


def test_a_failed_request_gives_its_place_back_after_a_minute() -> None:
    clock = Clock()
    pace = TokenPace(100, clock, clock.sleep)
    with pytest.raises(OSError), pace.request(90):
        raise OSError
    with pace.request(90):
        pass
    assert clock.now - 1000.0 == pytest.approx(60, abs=1.1)


def test_eight_threads_never_hold_more_than_the_budget() -> None:
    """Time stands still, so nothing ever leaves the window: three of eight fit, the others wait."""
    gate, admitted = threading.Event(), []

    def sleep(_: float) -> None:
        gate.wait(0.01)
        if gate.is_set():
            raise TimeoutError

    pace = TokenPace(1_000, lambda: 0.0, sleep)

    def one(number: int) -> None:
        with contextlib.suppress(TimeoutError), pace.request(300):
            admitted.append(number)
            gate.wait(5)

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(one, number) for number in range(8)]
        while len(admitted) < 3:
            time.sleep(0.005)
        time.sleep(0.1)
        gate.set()
        for future in waiting:
            future.result()
    assert len(admitted) == 3
