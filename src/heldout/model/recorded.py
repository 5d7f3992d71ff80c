"""Scores somebody else produced: a file that prediction_files reads → the run's ``scores`` table.

Only ``benchmark_id`` (or ``id``) and one of ``logprobs`` and ``sum_logprob`` are needed; the detectors
that need more say so. Nothing is repaired: a score that does not belong to this benchmark, or is not a
log-probability, stops the import with the row it stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heldout.errors import InputError
from heldout.model.prediction_files import ALIASES
from heldout.model.recorded_rows import check_row, read_rows
from heldout.model.tables import forget_detections, owner
from heldout.store import Dropped, Run, dropped_table, make_table

STAGE = "score"
_SHOWN = 3
BACKEND = "recorded"
INSTRUMENT = ("backend", "dtype", "template")


@dataclass(frozen=True)
class Recorded:
    """Checked scores in the benchmark's order, and the items that have none."""

    models: tuple[str, ...]
    rows: list[dict[str, Any]]
    source: str
    dropped: list[Dropped] = field(default_factory=list)
    #: by model what its scores were made with, as far as the file says: backend, dtype, revision, …
    instruments: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.models:
            self.instruments.setdefault(name, {"backend": BACKEND})

    @property
    def table(self) -> pa.Table:
        return make_table("scores", self.rows)


def read_recorded(
    path: str | Path,
    items: Sequence[str],
    *,
    fingerprint: str = "",
    model: str | None = None,
    allow_missing: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> Recorded:
    """``items`` are the benchmark's ids in released order, ``fingerprint`` its revision.

    ``model`` names the model of a file that has no such column; else it is called after the file. With
    ``allow_missing`` items without a score are listed as dropped, otherwise they are an error.
    ``mapping`` names columns, by field.
    """
    source = Path(path)
    order = {identifier: place for place, identifier in enumerate(items)}
    seen: dict[tuple[str, str], int] = {}
    rows: list[dict[str, Any]] = []
    unknown: list[str] = []
    instruments: dict[str, dict[str, str]] = {}
    for number, raw, present in read_rows(source, mapping):
        default = model or _after(source, present, mapping)
        if not model and instruments.keys() - {source.stem}:
            default = None  # other rows name one
        row = check_row(
            raw, f"{source}, row {number}", model=default, fingerprint=fingerprint, present=present
        )
        key = (row["model"], row["benchmark_id"])
        _same_instrument(raw, instruments.setdefault(row["model"], {}), f"{source}, row {number}")
        if key in seen:
            raise InputError(
                f"{source}, row {number}: the item '{key[1]}' was already scored for {key[0]} in row "
                f"{seen[key]}; one score per item and model is expected, remove the other"
            )
        seen[key] = number
        if row["benchmark_id"] in order:
            rows.append(row)
        else:
            unknown.append(row["benchmark_id"])
    if unknown:
        raise InputError(
            f"{source}: {len(unknown):,} scored ids are not in this benchmark, {_named(unknown)}. "
            f"Its ids look like {_named(list(items))}: is this another split or revision?"
        )
    if not rows:
        raise InputError(f"{source} holds no scores")
    models = tuple(dict.fromkeys(row["model"] for row in rows))
    dropped = _missing(source, items, models, seen, allow_missing)
    rows.sort(key=lambda row: (models.index(row["model"]), order[row["benchmark_id"]]))
    named = {name: {**one, "backend": _backend(one)} for name, one in instruments.items()}
    return Recorded(models, rows, str(source), dropped, named)


def save_scores(run: Run, recorded: Recorded, *, identity: Mapping[str, Any] | None = None) -> None:
    """Put the scores into the run, in place of earlier ones of the same models. Others are kept."""
    table = recorded.table
    path = run.table_path("scores")
    if path.exists():
        earlier = run.read_table("scores")
        ours = pc.is_in(earlier["model"], value_set=pa.array(recorded.models, pa.string()))
        kept = earlier.filter(pc.fill_null(pc.invert(ours), True))
        table = pa.concat_tables([make_table("scores", kept.to_pylist()), table])
    run.write_table("scores", table)
    path = run.table_path("dropped")
    if recorded.dropped or path.exists():
        new = dropped_table(recorded.dropped)
        if path.exists():
            models = {*recorded.models, *run.manifest().get("models", {})}
            others = [
                row
                for row in run.read_table("dropped").to_pylist()
                if row["stage"] != STAGE or owner(row["id"], models) not in recorded.models
            ]
            new = pa.concat_tables([make_table("dropped", others), new])
        run.write_table("dropped", new)
    told = {"source": recorded.source, **(identity or {})}
    run.update("models", {name: {**recorded.instruments[name], **told} for name in recorded.models})
    forget_detections(run)


def _after(source: Path, present: Sequence[str], mapping: Mapping[str, str] | None) -> str | None:
    """The model's name where no column holds one; an empty cell in such a column is a gap, not a name."""
    if "model" in (mapping or {}) or any(str(one).lower() in ALIASES["model"] for one in present):
        return None
    return source.stem


def _same_instrument(raw: Mapping[str, Any], known: dict[str, str], where: str) -> None:
    """One model, one instrument: columns that say how a score was made may not change half way."""
    for name in INSTRUMENT:
        value = raw.get(name)
        if value in (None, ""):
            continue
        if known.setdefault(name, str(value)) != str(value):
            raise InputError(
                f"{where}: {name} is '{value}', but '{known[name]}' above for the same model; scores of "
                f"two instruments are never mixed, give them two model names"
            )


def _backend(instrument: Mapping[str, str]) -> str:
    return f"{BACKEND}: {instrument['backend']}" if "backend" in instrument else BACKEND


def _missing(
    source: Path,
    items: Sequence[str],
    models: Sequence[str],
    seen: Mapping[tuple[str, str], int],
    allow: bool,
) -> list[Dropped]:
    dropped = []
    for model in models:
        absent = [identifier for identifier in items if (model, identifier) not in seen]
        if absent and not allow:
            raise InputError(
                f"{source}: {len(absent):,} of {len(items):,} items have no score for {model}, "
                f"{_named(absent)}. Score them too, or allow missing items: they are then listed as "
                f"dropped, and no finding speaks about them"
            )
        dropped += [
            Dropped(STAGE, f"{model}/{identifier}", "no recorded score", str(source))
            for identifier in absent
        ]
    return dropped


def _named(ids: Sequence[str]) -> str:
    shown = ", ".join(f"'{identifier}'" for identifier in ids[:_SHOWN])
    return shown + (" …" if len(ids) > _SHOWN else "")
