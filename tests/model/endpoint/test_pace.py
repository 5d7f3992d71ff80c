"""How long is waited before a server is asked again."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from heldout.model.endpoint.pace import LONGEST_WAIT_SECONDS, Backoff, retry_after_seconds


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
