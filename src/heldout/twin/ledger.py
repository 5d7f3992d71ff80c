"""The results and dropped items of every stage of a twin run: one line of JSON per item, written atomically.

When a stage's result changes, the results of later stages are removed. What was paid for
(replies, drawn pictures) is kept elsewhere and never withdrawn.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.store import (
    TWIN,
    Dropped,
    Judgement,
    Run,
    append,
    current,
    make_table,
    opened,
    read_document,
    remove,
    write_atomic,
    write_json,
)

STAGES = ("resample", "describe", "edges", "render", "filter", "publish")
RESAMPLE, DESCRIBE, EDGES, RENDER, FILTER, PUBLISH = STAGES
TABLE = "twins"
# What there is besides a stage's own lines, by the stage that writes it.
_OUTPUTS: dict[str, tuple[str, ...]] = {
    RENDER: ("tables/twins.parquet",),
    FILTER: ("twin/kept.txt", "twin/agreement.json"),
    PUBLISH: ("twin/publish.json", "twin/benchmark", "twin/vlmevalkit", "twin/provenance.jsonl"),
}


def folder(run: Run) -> Path:
    """The folder of everything that people may want to look at."""
    return run.path / "twin"


def lines_path(run: Run, stage: str) -> Path:
    return folder(run) / f"{stage}.jsonl"


def write_stage(
    run: Run, stage: str, rows: Sequence[Mapping[str, Any]], dropped: Sequence[Dropped]
) -> None:
    """Write the whole result of a stage; ``rows`` have an ``id``. A result equal to the last one changes
    nothing."""
    left_out = [{"id": d.id, "dropped": d.reason, "detail": d.detail} for d in dropped]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [*rows, *left_out])
    path = lines_path(run, stage)
    if _text(path) != text:
        _withdraw_after(run, stage)
        write_atomic(path, text)
    write_dropped(run)


def read_stage(run: Run, stage: str) -> list[dict[str, Any]]:
    """The items a stage let through, in the benchmark's order."""
    return [row for row in _lines(run, stage) if "dropped" not in row]


def dropped_of(run: Run, stage: str) -> list[Dropped]:
    return [
        Dropped(f"twin {stage}", row["id"], row["dropped"], row["detail"])
        for row in _lines(run, stage)
        if "dropped" in row
    ]


def finished(run: Run, stage: str) -> bool:
    return lines_path(run, stage).exists()


def write_dropped(run: Run) -> None:
    """What all stages left out, in the place of what the table knew of them."""
    known = run.read_table("dropped").to_pylist() if run.table_path("dropped").exists() else []
    mine = {f"twin {stage}" for stage in STAGES}
    rows = [row for row in known if row["stage"] not in mine]
    for stage in STAGES:
        if finished(run, stage):
            rows += [
                {"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail}
                for d in dropped_of(run, stage)
            ]
    if rows != known:
        run.write_table("dropped", make_table("dropped", rows))


def _lines(run: Run, stage: str) -> list[dict[str, Any]]:
    path = lines_path(run, stage)
    if not path.exists():
        raise InputError(
            f"{run.path} has not been through the stage '{stage}': go through it first, with "
            f"{stage} in the setting last, or begin earlier (the setting first)"
        )
    # Only "\n" ends a line: captions may hold other line separators.
    lines = (_text(path) or "").split("\n")
    return [json.loads(line) for line in lines if line]


def _text(path: Path) -> str | None:
    try:
        with opened(path) as file:
            return str(file.read().decode())
    except FileNotFoundError:
        return None


def _withdraw_after(run: Run, stage: str) -> None:
    later = STAGES[STAGES.index(stage) + 1 :]
    for name in later:
        remove(lines_path(run, name))
    for name in (stage, *later):
        for output in _OUTPUTS.get(name, ()):
            run.remove(output)


# The table of twins, joined from what the stages wrote; the review page reads it, and so do people.


_DRAWN = (
    "image_name",
    "question",
    "options",
    "old_answer",
    "new_answer",
    "caption",
    "original",
    "edges",
    "picture",
    "renderer",
)
_JUDGED = ("verifier", "verifier_reason", "people", "kept")


def write_twins(run: Run) -> None:
    judged: dict[str, dict[str, Any]] = {}
    if finished(run, FILTER):
        judged = {row["id"]: row for row in read_stage(run, FILTER)}
    rows = []
    for row in read_stage(run, RENDER):
        known = judged.get(row["id"], {})
        rows.append(
            {
                "benchmark_id": row["id"],
                **{name: row[name] for name in _DRAWN},
                **{name: known.get(name) for name in _JUDGED},
            }
        )
    table = make_table(TABLE, rows)
    if run.table_path(TABLE).exists() and run.read_table(TABLE).equals(table):
        return
    run.write_table(TABLE, table)


# Names that twins go by: of files, and of random draws.


def file_name(identifier: str, *parts: str) -> str:
    """A readable file name for an id: safe as a path, and different for every id."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", identifier).strip("-")[:40]
    return "-".join([*([plain] if plain else []), digest(identifier)[:8], *parts])


def digest(value: Any) -> str:
    """Of anything that JSON can hold."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


# Judgements of twins, limited to the pictures that are there now.


KEEP, REJECT, TIE = "keep", "reject", "tie"


def said_by_people(run: Run) -> dict[str, str]:
    """By item: the majority of its raters; as many for as against is a tie, which keeps nothing."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for (subject, _), judgement in current(run.path, TWIN).items():
        if judgement.verdict in (KEEP, REJECT):
            votes[subject][judgement.verdict] += 1
    return {
        subject: KEEP
        if counts[KEEP] > counts[REJECT]
        else TIE
        if counts[KEEP] == counts[REJECT]
        else REJECT
        for subject, counts in votes.items()
    }


def withdraw_of_changed(run: Run, pictures: Mapping[str, str]) -> None:
    """Withdraw judgements of pictures that were replaced since."""
    path = folder(run) / "shown.json"
    shown: dict[str, str] = read_document(path) if path.exists() else {}
    changed = {name for name, picture in pictures.items() if shown.get(name, picture) != picture}
    for (subject, rater), judgement in current(run.path, TWIN).items():
        if subject in changed and judgement.verdict is not None:
            append(run.path, Judgement(rater, TWIN, subject, None, "its picture was drawn anew"))
    if any(shown.get(name) != picture for name, picture in pictures.items()):
        write_json(path, {**shown, **pictures})
