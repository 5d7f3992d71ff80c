"""The linter for benchmarks: most false alarms of contamination start in the benchmark itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.content import label_rules, released_rules, text_rules
from heldout.benchmark.check.options import choice_rules, key_rules
from heldout.benchmark.check.pictures import identifying_rules, picture_rules
from heldout.benchmark.check.problem import (
    CheckReport,
    CheckSettings,
    OrderFact,
    Problem,
    SplitOverlap,
    benchmark_facts,
    order_facts,
    order_rules,
    problem,
)
from heldout.benchmark.check.splits import split_overlap, split_rules, twin_rules
from heldout.benchmark.read import read_benchmark
from heldout.errors import counted

__all__ = ["CheckReport", "CheckSettings", "OrderFact", "Problem", "SplitOverlap", "check"]

_RANK = {"error": 0, "warning": 1, "note": 2}


def check(
    benchmark: Benchmark | str | Path,
    split_of: Benchmark | str | Path | None = None,
    *,
    settings: CheckSettings | None = None,
    **values: Any,
) -> CheckReport:
    """Lint a benchmark: most false alarms of contamination start there.

    Args:
        benchmark: A benchmark, or where one is read from.
        split_of: Another split of it: also report what the two share.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.benchmark.CheckSettings``.

    Returns:
        Facts, and problems with examples and advice; ``frame`` has the problems as a data frame.
    """
    settings = CheckSettings.choose(settings, values)
    if not isinstance(benchmark, Benchmark):
        benchmark = read_benchmark(benchmark)
    if split_of is not None and not isinstance(split_of, Benchmark):
        split_of = read_benchmark(split_of)
    order = order_facts(benchmark)
    overlap = split_overlap(benchmark, split_of) if split_of is not None else None
    problems = [
        *_dropped_rows(benchmark),
        *text_rules(benchmark),
        *picture_rules(benchmark),
        *label_rules(benchmark),
        *twin_rules(benchmark),
        *key_rules(benchmark),
        *choice_rules(benchmark),
        *released_rules(benchmark),
        *order_rules(benchmark, order),
    ]
    if settings.ocr:
        problems += identifying_rules(benchmark)
    if split_of is not None and overlap is not None:
        problems += split_rules(benchmark, split_of, overlap)
    problems = [
        entry.model_copy(update={"examples": entry.examples[: settings.examples]})
        for entry in sorted(problems, key=lambda entry: _RANK[entry.severity])
    ]
    return CheckReport(
        benchmark=benchmark.name,
        source=benchmark.source,
        reader=benchmark.reader,
        fingerprint=benchmark.fingerprint,
        facts=benchmark_facts(benchmark),
        problems=problems,
        order=order,
        splits=overlap,
        dropped=[
            {"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail}
            for d in benchmark.dropped
        ],
        strict=settings.strict,
    )


def _dropped_rows(benchmark: Benchmark) -> Iterator[Problem]:
    if not benchmark.dropped:
        return
    # A hidden folder beside the images is mostly a cache: worth a word, not a failure.
    harmless = all(d.scope == "words" or d.reason == "hidden folder" for d in benchmark.dropped)
    yield problem(
        "dropped-rows",
        "warning" if harmless else "error",
        counted(
            len(benchmark.dropped),
            "row or file could not be read and is not part of what was checked",
            "rows or files could not be read and are not part of what was checked",
        ),
        "see the reasons; the benchmark may be shorter than its files",
        [f"{d.id}: {d.reason} ({d.detail})" for d in benchmark.dropped],
        len(benchmark) + len(benchmark.dropped),
        "rows",
    )
