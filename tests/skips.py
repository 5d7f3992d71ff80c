"""Which tests may be skipped, and the line that says which were.

`make test` prints how many tests were skipped and why. In CI (HELDOUT_SKIPS=strict) a skip that
``allowed_skips.txt`` does not list fails the run: no test disappears silently on one machine.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.txt")
SUITE = Path(__file__).parents[1] / "bench/out/suite.json"  # read by bench/quality_size.py
STRICT = "HELDOUT_SKIPS"


def read_allowed(path: Path = ALLOWED) -> list[tuple[str, str]]:
    """(start of the test's id, part of the reason) of each line ``ID | REASON``; # starts a comment."""
    allowed = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        test, bar, reason = (part.strip() for part in text.partition(" | "))
        if not bar or not test or not reason:
            raise ValueError(f"{path.name}, line {number}: expected 'TEST | REASON', got {line!r}")
        allowed.append((test, reason))
    return allowed


def skipped(reports: list[Any]) -> list[tuple[str, str]]:
    """(test, reason) of each skipped test or module, once each, in order."""
    pairs = {}
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        pairs[report.nodeid, reason.removeprefix("Skipped: ")] = None
    return sorted(pairs)


def not_allowed(
    skips: list[tuple[str, str]], allowed: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    return [
        (test, reason)
        for test, reason in skips
        if not any(test.startswith(start) and part in reason for start, part in allowed)
    ]


def summary(skips: list[tuple[str, str]]) -> str:
    """One line: how many were skipped, and each reason with its count."""
    if not skips:
        return "skipped: 0 tests"
    reasons = Counter(" ".join(reason.split()) for _, reason in skips)
    told = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
    return f"skipped: {len(skips)} tests ({told})"


class SkipSummary:
    """The plugin: a line at the end of the run, and exit status 1 for skips that are not allowed. Of a whole suite that
    passed, it keeps the seconds for the quality table."""

    def __init__(self, whole: bool = False) -> None:
        self._reports: list[Any] = []
        self._whole = whole
        self._begun = time.monotonic()
        self._tests = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests += report.when == "call"
        if report.skipped and not hasattr(report, "wasxfail"):
            self._reports.append(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        strict = os.environ.get(STRICT) == "strict"
        if strict and session.exitstatus == 0 and self._refused():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._whole and session.exitstatus == 0:
            SUITE.parent.mkdir(parents=True, exist_ok=True)
            seconds = round(time.monotonic() - self._begun)
            SUITE.write_text(json.dumps({"tests": self._tests, "seconds": seconds}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(summary(skipped(self._reports)))
        for test, reason in self._refused():
            terminalreporter.write_line(
                f"skip not listed in tests/{ALLOWED.name}: {test} | {reason}", red=True
            )

    def _refused(self) -> list[tuple[str, str]]:
        return not_allowed(skipped(self._reports), read_allowed())
