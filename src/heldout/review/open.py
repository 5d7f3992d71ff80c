"""Open desks: what RUN or BENCH holds to be judged, and where judgements go."""

from __future__ import annotations

import json
from pathlib import Path

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.review.card import Card, Kind
from heldout.review.desk import Desk
from heldout.review.items import benchmark_cards, run_cards
from heldout.review.matches import match_cards
from heldout.review.synthesized import is_synthesized, synthesis_cards
from heldout.review.tables import Table, agreement_tables
from heldout.review.texts import text_cards
from heldout.review.twins import twin_cards
from heldout.store import ITEM, Run, current, log_path

SHOWN = 12  # runs of an audit's output that are named


def open_desks(
    source: str,
    *,
    kind: Kind | None = None,
    rater: str,
    blind: bool = False,
    rubric: bool = True,
    unrelated: bool = False,
    out: Path | None = None,
) -> list[Desk]:
    """One desk of that ``kind``; without it one each of matches, texts and twins, else of items."""
    path = Path(source)
    if not (path / "manifest.json").exists():
        inside = runs_inside(path)
        if not inside:
            if log_path(path).exists():
                raise InputError(
                    f"{path} holds what people judged, and not what they judged: name that, too "
                    f"(heldout review BENCH --kind items --out {path})"
                )
            return [_benchmark_desk(source, kind, rater, blind, rubric, out)]
        if len(inside) > 1:
            raise InputError(_choose(path, inside))
        path = inside[0]
    run = Run.open(path)
    kinds = [kind] if kind else _kinds(run)
    known = run.manifest()["inputs"].get("benchmark", {})
    title = str(known.get("name") or run.path.resolve().name)
    made = {kind: _cards(run, kind, unrelated) for kind in kinds}
    if not any(made.values()):
        found = "matches" in made or "texts" in made
        why = "nothing was found" if found else "the table is empty"
        if found and not unrelated and any(_cards(run, one, True) for one in made):
            why = "nothing that was found counts by itself; --all shows it"
        raise InputError(f"{run.path} has no {' and no '.join(made)} to judge: {why}")
    return [
        Desk(out or run.path, title, one, rater, cards, blind, rubric)
        for one, cards in made.items()
        if cards
    ]


def item_tables(run: Run) -> list[Table]:
    """How far people agree about the items of a synthesis; empty before anybody judged."""
    if not is_synthesized(run) or not (said := current(run.path, ITEM)):
        return []
    return agreement_tables("items", synthesis_cards(run), said)


def runs_inside(folder: Path) -> list[Path]:
    """Run folders that lie in ``folder``, as in the output of an audit."""
    paths = []
    for manifest in sorted(folder.glob("*/manifest.json")) if folder.is_dir() else ():
        try:
            record = json.loads(manifest.read_text())
        except (OSError, ValueError):
            continue  # somebody else's manifest
        if isinstance(record, dict) and "manifest_version" in record:
            paths.append(manifest.parent)
    return paths


def _choose(folder: Path, inside: list[Path]) -> str:
    named = "; ".join(f"heldout review {path}" for path in inside[:SHOWN])
    more = f"; and {len(inside) - SHOWN} more" if len(inside) > SHOWN else ""
    return (
        f"{folder} holds {len(inside)} runs, and people judge one at a time. Choose: {named}{more}"
    )


def _cards(run: Run, kind: Kind, unrelated: bool) -> list[Card]:
    if kind == "matches":
        return match_cards(run, unrelated=unrelated)
    if kind == "texts":
        return text_cards(run, unrelated=unrelated)
    if kind == "twins":
        return twin_cards(run)
    if is_synthesized(run):
        return synthesis_cards(run)
    if not run.table_path("items").exists():
        raise InputError(f"{run.path} has no items to rate: it has no tables/items.parquet")
    return run_cards(run)


def _benchmark_desk(
    source: str, kind: Kind | None, rater: str, blind: bool, rubric: bool, out: Path | None
) -> Desk:
    if kind not in (None, "items"):
        raise InputError(f"{source} is no run folder, and only a run folder has {kind} to judge")
    benchmark = read_benchmark(source)
    # Never inside the benchmark: a reader would take the log for data.
    folder = out or Path(f"{benchmark.name}-review")
    return Desk(folder, benchmark.name, "items", rater, benchmark_cards(benchmark), blind, rubric)


def _kinds(run: Run) -> list[Kind]:
    tables: dict[Kind, str] = {"matches": "matches", "texts": "text_matches", "twins": "twins"}
    items = [kind for kind, table in tables.items() if run.table_path(table).exists()]
    return items or ["items"]
