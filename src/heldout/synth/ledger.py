"""The results of every stage of a synthesis: one Parquet table per stage, with everything it dropped.

A stage reads the rows that the one before it let through, in batches, and writes its own table in
one rename. The table carries a digest of the stage's settings and of its input: where both are the
same, the stage is not run again. Replies of models are kept in journals of their own and never paid
for twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from heldout.errors import InputError
from heldout.store import Dropped, Run, make_table, opened_table, remove, replacing, sha256
from heldout.synth.draft import clean, cleaned
from heldout.synth.rubric import BY_KEY, Category
from heldout.synth.settings import MODEL_ROLES, SynthStage

BATCH = 256
_KEY, _AGAIN = b"heldout.synth", b"heldout.synth.again"
_DROPPED = [(name, pa.string()) for name in ("stage", "id", "reason", "detail")]
_IMAGE = pa.struct(
    [
        ("location", pa.string()),
        ("sha256", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("path", pa.string()),
    ]
)
_FIGURE = [
    ("id", pa.string()),
    ("article", pa.string()),
    ("label", pa.string()),
    ("caption", pa.string()),
    ("references", pa.list_(pa.string())),
    ("images", pa.list_(_IMAGE)),
    ("licence", pa.string()),
    ("licence_url", pa.string()),
    ("redistributable", pa.bool_()),
    ("attribution", pa.string()),
    ("source", pa.string()),
    ("primary", pa.string()),
    ("secondary", pa.string()),
    ("licence_text", pa.string()),
]
_DRAFT = [
    ("id", pa.string()),
    ("figure", pa.string()),
    ("question", pa.string()),
    ("options", pa.list_(pa.string())),
    ("answer", pa.string()),
    ("archetype", pa.string()),
    ("generator", pa.string()),
    ("raw", pa.string()),
    ("extra", pa.map_(pa.string(), pa.string())),
]
# One line per criterion: the opinions of code and verifier (null: none), and the result.
_LINE = pa.struct(
    [
        ("criterion", pa.string()),
        ("code", pa.bool_()),
        ("verifier", pa.bool_()),
        ("met", pa.bool_()),
        ("note", pa.string()),
    ]
)
# By whether code and verifier see a fault.
_AGREEMENT = {
    (False, False): "neither",
    (True, False): "code_alone",
    (False, True): "verifier_alone",
    (True, True): "both",
}
_ANSWERING = {
    **dict.fromkeys(("stage", "role", "model", "fingerprint", "digest"), pl.String),
    "replies": pl.Int64,
    **dict.fromkeys(("first", "last"), pl.String),
}
SCHEMAS: dict[SynthStage, pa.Schema] = {
    SynthStage.INGEST: pa.schema(_FIGURE),
    SynthStage.SELECT: pa.schema(_FIGURE),
    SynthStage.GENERATE: pa.schema(_DRAFT),
    SynthStage.VERIFY: pa.schema(
        [
            ("id", pa.string()),
            ("accepted", pa.bool_()),
            ("reason", pa.string()),  # why it was rejected: ungradable, an essential, the score
            ("score_bonus_only", pa.float64()),
            ("score_with_essentials", pa.float64()),
            ("rubric", pa.list_(_LINE)),
            ("verifier", pa.string()),
        ]
    ),
    SynthStage.SHORTCUT: pa.schema(
        [
            ("id", pa.string()),
            ("probes", pa.map_(pa.string(), pa.bool_())),  # by probe: was the answer guessed?
            ("flagged", pa.bool_()),
            ("reason", pa.string()),
            ("right", pa.map_(pa.string(), pa.float64())),  # by probe: share of right replies
            ("dropped", pa.bool_()),
        ]
    ),
    SynthStage.BALANCE: pa.schema(
        [
            ("id", pa.string()),
            ("rank", pa.int32()),  # a subset of n items is the first n ranks
            ("options", pa.list_(pa.string())),
            ("answer", pa.string()),
            ("archetype", pa.string()),
            ("modality", pa.string()),
            ("anatomy", pa.string()),
        ]
    ),
    SynthStage.DECONTAMINATE: pa.schema(
        [
            ("id", pa.string()),
            ("removed", pa.bool_()),
            ("benchmark", pa.string()),
            ("relation", pa.string()),
            ("detail", pa.string()),
        ]
    ),
    SynthStage.PUBLISH: pa.schema([("id", pa.string()), ("rank", pa.int32())]),
}


def folder(run: Run) -> Path:
    """The folder of everything that people may want to look at."""
    return run.path / "synth"


def table_path(run: Run, stage: SynthStage) -> Path:
    return folder(run) / f"{stage}.parquet"


def dropped_path(run: Run, stage: SynthStage) -> Path:
    return folder(run) / f"{stage}.dropped.parquet"


def journal_path(run: Run, role: str) -> Path:
    """Where the replies of a model are."""
    return folder(run) / "replies" / f"{role}.jsonl"


def sweep(run: Run) -> None:
    """Remove incomplete files of a killed process; only the writer of the run may call this."""
    images = (folder(run) / "images").glob("*")
    for place in (run.path, run.path / "tables", folder(run), *images):
        for path in place.glob(".*.tmp"):
            remove(path)


class StageWriter:
    """Rows and drops of one stage; flat in memory. ``again``: how many of them a failing endpoint left
    undecided, so that the same command requests them again."""

    def __init__(
        self, rows: pq.ParquetWriter, dropped: pq.ParquetWriter, schema: pa.Schema
    ) -> None:
        self._rows, self._dropped, self._schema = rows, dropped, schema
        self._waiting: list[Mapping[str, Any]] = []
        self._refused: list[Dropped] = []
        self.again = 0

    def keep(self, row: Mapping[str, Any], *, again: bool = False) -> None:
        self.again += again
        self._waiting.append(row)
        if len(self._waiting) >= BATCH:
            self.flush()

    def drop(self, dropped: Dropped, *, again: bool = False) -> None:
        self.again += again
        self._refused.append(dropped)
        if len(self._refused) >= BATCH:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._rows.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []
        if self._refused:
            rows = [
                {name: clean(getattr(dropped, name)) for name, _ in _DROPPED}
                for dropped in self._refused
            ]
            self._dropped.write_table(pa.Table.from_pylist(rows, schema=pa.schema(_DROPPED)))
            self._refused = []


@contextlib.contextmanager
def writing(run: Run, stage: SynthStage, key: str) -> Iterator[StageWriter]:
    """Write a stage's tables; an error leaves the old ones in place. ``key`` comes from ``stage_key``."""
    schema = SCHEMAS[stage].with_metadata({_KEY: key.encode()})
    refused = pa.schema(_DROPPED)
    with (
        replacing(dropped_path(run, stage)) as drops,
        replacing(table_path(run, stage)) as rows,
        pq.ParquetWriter(drops, refused, compression="zstd") as second,
        pq.ParquetWriter(rows, schema, compression="zstd") as first,
    ):
        writer = StageWriter(first, second, schema)
        yield writer
        writer.flush()
        if writer.again:
            first.add_key_value_metadata({_AGAIN: str(writer.again)})


def stage_key(settings: Mapping[str, Any], *inputs: Path) -> str:
    """A digest of what a stage depends on: its settings, and the tables it reads."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for path in inputs:
        if path.exists():
            digest.update(bytes.fromhex(sha256(path)))
        else:
            digest.update(b"missing")
    return digest.hexdigest()


def finished(run: Run, stage: SynthStage, key: str | None = None) -> bool:
    """Whether the stage has a table; with ``key``: one of these settings and this input, of which no
    endpoint failed to answer for an item."""
    path = table_path(run, stage)
    if not path.exists():
        return False
    known = _facts(path)
    return key is None or (known.get(_KEY, b"").decode() == key and _AGAIN not in known)


def _facts(path: Path) -> dict[bytes, bytes]:
    with opened_table(path) as file:
        return file.metadata.metadata or {}


def forget_after(run: Run, stage: SynthStage) -> None:
    """Remove what later stages made of a table that is written again: it is of other items. Replies that were
    paid for are kept apart, and stay."""
    stages = list(SynthStage)
    gone = stages[stages.index(stage) + 1 :]
    for later in gone:
        remove(table_path(run, later))
        remove(dropped_path(run, later))
    if SynthStage.PUBLISH in gone:
        remove(folder(run) / "dataset")
    if SynthStage.DECONTAMINATE in gone:
        remove(folder(run) / "contamination.json")


def asked_again(run: Run, stage: SynthStage) -> int:
    """How many items of a stage wait for an endpoint that failed."""
    path = table_path(run, stage)
    known = _facts(path) if path.exists() else {}
    return int(known.get(_AGAIN, b"0"))


def read_rows(run: Run, stage: SynthStage) -> Iterator[dict[str, Any]]:
    """The rows of a stage, batch by batch. Tables of older versions may hold NUL, which becomes U+FFFD."""
    path = table_path(run, stage)
    if not path.exists():
        raise InputError(
            f"{run.path} has not been through the stage '{stage}': run the same command without stages, or "
            f"with stages from {SynthStage.INGEST} on"
        )
    with opened_table(path) as file:
        for batch in file.iter_batches(batch_size=BATCH):
            yield from map(cleaned, batch.to_pylist())


def read_dropped(run: Run, stage: SynthStage) -> list[Dropped]:
    path = dropped_path(run, stage)
    if not path.exists():
        return []
    with opened_table(path) as file:
        return [Dropped(**cleaned(row)) for row in file.read().to_pylist()]


def answering_models(run: Run) -> pl.DataFrame:
    """Which models answered, by what their servers say: one row per stage, role, name and fingerprint,
    with the number of replies and when the first and the last came. ``digest`` is what the tables of
    drafts and verdicts name a model by."""
    known = run.manifest().get("synth", {})
    rows = [
        {"stage": known[role]["spent"]["stage"], "role": role, **cleaned(answered)}
        for role in MODEL_ROLES
        for answered in known.get(role, {}).get("answered_by", ())
    ]
    return pl.DataFrame(rows, schema=_ANSWERING, orient="row")


def code_and_verifier(run: Run) -> pl.DataFrame:
    """By criterion that code can check: in how many graded items code sees a fault, and the verifier.

    Columns: ``neither`` sees one, ``code_alone``, ``verifier_alone``, ``both``; ``code_decides``: items in
    code proves that there is no fault, where otherwise it only found none.
    """
    counts: dict[str, Counter[str]] = {}
    if finished(run, SynthStage.VERIFY):
        for row in read_rows(run, SynthStage.VERIFY):
            for line in row["rubric"]:
                criterion = BY_KEY[line["criterion"]]
                if not criterion.by_code:
                    continue
                faulty = criterion.category is Category.PENALTY
                seen = line["code"] is faulty, line["verifier"] is faulty
                count = counts.setdefault(criterion.key, Counter())
                count[_AGREEMENT[seen]] += 1
                count["code_decides"] += line["code"] is (not faulty)
    columns = (*_AGREEMENT.values(), "code_decides")
    rows = [
        {"criterion": key, **{name: counts[key][name] for name in columns}}
        for key in BY_KEY
        if key in counts
    ]
    schema = {"criterion": pl.String, **dict.fromkeys(columns, pl.Int64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def write_all_dropped(run: Run) -> None:
    """tables/dropped.parquet: what all stages dropped, in their order."""
    rows = [
        {"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail}
        for stage in SynthStage
        for d in read_dropped(run, stage)
    ]
    run.write_table("dropped", make_table("dropped", rows))


# The funnel: how many figures and items every stage let through, and why it dropped the others.


# Stages whose table holds every item, with the decision in a column: the value with which an item passes.
_DECIDED = {
    SynthStage.VERIFY: ("accepted", True),
    SynthStage.SHORTCUT: ("dropped", False),
    SynthStage.DECONTAMINATE: ("removed", False),
}
# Reasons of `ingest` for which a whole file is left out: how many figures it has is not known.
FILE_REASONS = frozenset(
    {
        "XML too large",
        "member too large",
        "package too large",
        "package without XML",
        "unknown file",
        "unreadable XML",
        "unreadable package",
        "unreadable shard",
    }
)


@dataclass(frozen=True)
class FunnelStep:
    """``reasons``: how often each reason dropped something, most frequent first, in the words of the table
    of what was dropped; ``entered`` is ``left`` and these. ``files``: by reason the files that could not be
    read, which are in that table, too, but are no figures."""

    name: str
    entered: int
    left: int
    reasons: dict[str, int]
    files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Funnel:
    steps: tuple[FunnelStep, ...]

    def as_json(self) -> dict[str, Any]:
        return {"schema_version": 1, "steps": [asdict(step) for step in self.steps]}


def read_funnel(run: Run) -> Funnel:
    """The funnel of the stages that have been run. Verification is two steps, as in the paper:
    items that could be graded and passed the essentials, and items whose score reaches the
    threshold."""
    steps: list[FunnelStep] = []
    for stage in SynthStage:
        if not finished(run, stage):
            continue
        if stage is SynthStage.VERIFY:
            steps += _verify_steps(run)
            continue
        dropped = Counter(drop.reason for drop in read_dropped(run, stage)).most_common()
        by_file = FILE_REASONS if stage is SynthStage.INGEST else frozenset()
        files = {why: count for why, count in dropped if why in by_file}
        reasons = {why: count for why, count in dropped if why not in by_file}
        with opened_table(table_path(run, stage)) as file:
            rows = file.metadata.num_rows
        if stage in _DECIDED:
            column, value = _DECIDED[stage]
            left = sum(bool(row.get(column)) is value for row in read_rows(run, stage))
        else:
            left = rows
        steps.append(FunnelStep(str(stage), left + sum(reasons.values()), left, reasons, files))
    return Funnel(tuple(steps))


def _verify_steps(run: Run) -> list[FunnelStep]:
    """gradable, essentials, score."""
    entered, graded, passed, accepted = 0, 0, 0, 0
    ungradable: Counter[str] = Counter()
    essentials: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for row in read_rows(run, SynthStage.VERIFY):
        entered += 1
        if not row["rubric"]:
            ungradable[row["reason"]] += 1
            continue
        graded += 1
        if row["accepted"]:
            accepted += 1
        if row["reason"].startswith("essential: "):
            essentials[row["reason"]] += 1
        else:
            passed += 1
            below[row["reason"]] += not row["accepted"]
    return [
        FunnelStep("verify: gradable", entered, graded, dict(ungradable.most_common())),
        FunnelStep("verify: essentials", graded, passed, dict(essentials.most_common())),
        FunnelStep("verify: score", passed, accepted, dict((+below).most_common())),
    ]
