"""Open a desk: what RUN or BENCH holds to be judged, and where judgements go."""

from __future__ import annotations

from pathlib import Path

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.review.card import Card, Kind
from heldout.review.desk import Desk
from heldout.review.items import benchmark_cards, run_cards
from heldout.review.matches import match_cards
from heldout.review.twins import twin_cards
from heldout.store import Run


def open_desk(
    source: str,
    *,
    kind: Kind | None = None,
    rater: str,
    blind: bool = False,
    rubric: bool = True,
    unrelated: bool = False,
    out: Path | None = None,
) -> Desk:
    """Without ``kind``: matches where the run has any, then twins, then its items."""
    path = Path(source)
    if not (path / "manifest.json").exists():
        return _benchmark_desk(source, kind, rater, blind, rubric, out)
    run = Run.open(path)
    kind = kind or _kind(run)
    cards: list[Card]
    if kind == "matches":
        cards = match_cards(run, unrelated=unrelated)
    elif kind == "twins":
        cards = twin_cards(run)
    else:
        if not run.table_path("items").exists():
            raise InputError(f"{run.path} has no items to rate: it has no tables/items.parquet")
        cards = run_cards(run)
    if not cards:
        why = "nothing was found" if kind == "matches" else "the table is empty"
        raise InputError(f"{run.path} has no {kind} to judge: {why}")
    known = run.manifest()["inputs"].get("benchmark", {})
    title = str(known.get("name") or run.path.resolve().name)
    return Desk(out or run.path, title, kind, rater, cards, blind, rubric)


def _benchmark_desk(
    source: str, kind: Kind | None, rater: str, blind: bool, rubric: bool, out: Path | None
) -> Desk:
    if kind not in (None, "items"):
        raise InputError(f"{source} is no run folder, and only a run folder has {kind} to judge")
    benchmark = read_benchmark(source)
    # Never inside the benchmark: a reader would take the log for data.
    folder = out or Path(f"{benchmark.name}-review")
    return Desk(folder, benchmark.name, "items", rater, benchmark_cards(benchmark), blind, rubric)


def _kind(run: Run) -> Kind:
    if run.table_path("matches").exists():
        return "matches"
    return "twins" if run.table_path("twins").exists() else "items"
