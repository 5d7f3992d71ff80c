"""The resumable part of scoring: requests in, results out, and no request is made twice.

Requests are cut into shards that keep those with one picture together. A finished shard is final. Answers of
unfinished shards (the server failed, or Ctrl-C) are kept beside them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.request import Request, Score, Scorer
from heldout.store import SCHEMAS, Dropped, Run, ShardResult, Stage, dropped_table, make_table

TABLE = "request_scores"
SHARD = 16  # requests per shard: how many a kill may cost, and how many folders a run has
_LISTS = ("tokens", "logprobs", "mu", "sigma")
TRANSIENT = ("the endpoint failed",)  # reasons that may be gone in the next run


@dataclass
class Answers:
    """The result of every request, by its id. ``totals`` are there even where tokens were not kept."""

    scores: dict[str, Score] = field(default_factory=dict)
    totals: dict[str, tuple[float, int]] = field(default_factory=dict)
    dropped: dict[str, Dropped] = field(default_factory=dict)

    def add(self, rows: Iterable[Mapping[str, Any]], dropped: Iterable[Dropped]) -> None:
        for row in rows:
            name = row["request"]
            tokens, logprobs, mu, sigma = (tuple(row[key] or ()) for key in _LISTS)
            flags = bool(row["span_ok"]), bool(row["truncated"])
            self.scores[name] = Score(name, tokens, logprobs, mu, sigma, *flags)
            self.totals[name] = (row["sum_logprob"], row["n_tokens"])
        self.dropped |= {entry.id: entry for entry in dropped}


def score_requests(
    scorer: Scorer,
    groups: Iterable[Sequence[Request]],
    run: Run,
    name: str,
    *,
    fingerprint: str,
    title: str,
    sums_only: bool = False,
    quiet: bool = False,
) -> Answers:
    """Score every request once. Call inside run.writing().

    ``groups`` are requests that share a picture. ``name`` is the stage's folder, ``fingerprint`` the
    benchmark's; another backend, model or revision makes all shards new.
    """
    params = {"identity": dict(scorer.identity), "benchmark": fingerprint, "sums": sums_only}
    stage = run.stage(name, params)
    kept = run.stage(f"{name}-unfinished", params)
    answers = Answers()
    shards = list(_shards(groups))
    waiting = {index: _key(shard) for index, shard in enumerate(shards)}
    waiting = {index: key for index, key in waiting.items() if stage.plan(index, key)}
    if not kept.plan(0, "unfinished") and waiting:
        answers.add(*_read(kept))
    ask = _Asking(stage, shards, waiting, sums_only, answers)
    total = sum(len(shard) for shard in shards)
    with progress(title, total, "requests", done=total - len(ask.open), disabled=quiet) as step:
        try:
            for result in scorer.score(ask.requests()):
                ask.take(result)
                step()
        finally:  # an endpoint that died, an interrupt, a bug: what was answered stays
            ask.keep(kept)
    final = Answers()
    final.add(*_read(stage))
    final.add(*ask.unfinished())
    stage.sweep()
    return final


class _Asking:
    """Which requests are still open, and shards saved as soon as their last one is answered."""

    def __init__(
        self,
        stage: Stage,
        shards: Sequence[Sequence[Request]],
        waiting: Mapping[int, str],
        sums_only: bool,
        known: Answers,
    ) -> None:
        self._stage, self._shards, self._waiting = stage, shards, list(waiting)
        self._sums_only = sums_only
        self._rows: dict[str, dict[str, Any]] = {}
        self._dropped: dict[str, Dropped] = {}
        self._passing: list[Dropped] = []
        self.open: dict[str, int] = {}
        self._left: dict[int, int] = {}
        for index in self._waiting:
            for request in shards[index]:
                if request.id in known.scores:
                    total, count = known.totals[request.id]
                    self._rows[request.id] = _row(known.scores[request.id], total, count, False)
                else:
                    self.open[request.id] = index
            self._left[index] = sum(request.id in self.open for request in shards[index])
            if not self._left[index]:
                self._save(index)

    def requests(self) -> Iterator[Request]:
        for index in self._waiting:
            for request in self._shards[index]:
                if request.id in self.open:
                    yield request

    def take(self, result: Score | Dropped) -> None:
        index = self.open.pop(result.id)
        if isinstance(result, Score):
            self._rows[result.id] = _row(
                result, result.total, len(result.logprobs), self._sums_only
            )
        elif result.reason in TRANSIENT:  # its shard stays unfinished: the next run repeats it
            self._passing.append(result)
            return
        else:
            self._dropped[result.id] = result
        self._left[index] -= 1
        if not self._left[index]:
            self._save(index)

    def keep(self, kept: Stage) -> None:
        """What is answered in unfinished shards, in one piece that the next run reads."""
        kept.save(0, ShardResult({TABLE: make_table(TABLE, self._rows.values())}, {}))

    def unfinished(self) -> tuple[Iterable[Mapping[str, Any]], list[Dropped]]:
        silent = [Dropped("score", name, "no answer from the backend", "") for name in self.open]
        return self._rows.values(), [*self._dropped.values(), *self._passing, *silent]

    def _save(self, index: int) -> None:
        ids = [request.id for request in self._shards[index]]
        rows = [self._rows.pop(name) for name in ids if name in self._rows]
        dropped = [self._dropped.pop(name) for name in ids if name in self._dropped]
        tables = {TABLE: make_table(TABLE, rows), "dropped": dropped_table(dropped)}
        self._stage.save(index, ShardResult(tables, {"scored": len(rows)}))


def _shards(groups: Iterable[Sequence[Request]]) -> Iterator[list[Request]]:
    shard: list[Request] = []
    for group in groups:
        shard += group
        if len(shard) >= SHARD:
            yield shard
            shard = []
    if shard:
        yield shard


def _key(shard: Sequence[Request]) -> str:
    """What is asked; the pictures' content is in the benchmark's fingerprint."""
    content = [
        [
            request.id,
            request.turn,
            [
                ["picture", part.name] if isinstance(part, ImageRef) else [part.text, part.scored]
                for part in request.content
            ],
        ]
        for request in shard
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _row(score: Score, total: float, count: int, sums_only: bool) -> dict[str, Any]:
    lists = {key: [] if sums_only else list(getattr(score, key)) for key in _LISTS}
    return {
        "request": score.id,
        **lists,
        "sum_logprob": total,
        "n_tokens": count,
        "span_ok": score.span_ok,
        "truncated": score.truncated,
    }


def _read(stage: Stage) -> tuple[list[dict[str, Any]], list[Dropped]]:
    rows: list[dict[str, Any]] = []
    for part in stage.parts(TABLE):
        rows += part.cast(SCHEMAS[TABLE]).to_pylist()
    dropped = []
    for part in stage.parts("dropped"):
        dropped += [Dropped(**row) for row in part.cast(SCHEMAS["dropped"]).to_pylist()]
    return rows, dropped


# A model's rows in the tables of a run, in the place of its earlier ones; other models' rows stay.


#: what makes two scores incomparable; a run holds one of each per model
IDENTITY = ("backend", "revision", "dtype", "template", "provider", "remote_code")


def replace_rows(run: Run, table: str, model: str, rows: Iterable[Mapping[str, Any]]) -> int:
    rows_of_model = make_table(table, rows)
    count: int = rows_of_model.num_rows
    if run.table_path(table).exists():
        known = run.read_table(table)
        others = known.filter(pc.not_equal(known.column("model"), model))
        rows_of_model = pa.concat_tables([others, rows_of_model])
    run.write_table(table, rows_of_model)
    forget_detections(run)
    return count


def forget_detections(run: Run) -> None:
    """Remove the results of `heldout detect` for scores that the run no longer holds."""
    if not (run.path / "detections.json").exists():
        return
    detections = run.read_json("detections.json")
    for name in ("findings", "claims"):
        if (run.path / f"{name}.json").exists():
            gone = {entry["id"] for entry in detections.get(name, ())}
            known = run.read_json(f"{name}.json")
            kept = [entry for entry in known[name] if entry["id"] not in gone]
            run.write_json(f"{name}.json", {**known, name: kept})
    for name in ("tables/triple_hits.parquet", "detections.json"):
        run.remove(name)


def replace_dropped(run: Run, stage: str, model: str, dropped: Sequence[Dropped]) -> None:
    """Ids are written ``model/id``; what other stages and models left out is kept."""
    own = [Dropped(stage, f"{model}/{entry.id}", entry.reason, entry.detail) for entry in dropped]
    new = dropped_table(own)
    if run.table_path("dropped").exists():
        known = run.read_table("dropped").to_pylist()
        models = {model, *run.manifest().get("models", {})}
        others = [
            row for row in known if row["stage"] != stage or owner(row["id"], models) != model
        ]
        new = pa.concat_tables([make_table("dropped", others), new])
    run.write_table("dropped", new)


def owner(identifier: str, models: Iterable[str]) -> str:
    """Whose row ``model/id`` is: "org/model/7" belongs to "org/model", not to "org"."""
    return max(
        (model for model in models if identifier.startswith(f"{model}/")), key=len, default=""
    )


def claim_model(run: Run, model: str, identity: Mapping[str, Any]) -> None:
    """Record how this model is scored: it must not change within a run."""
    known = run.manifest().get("models", {}).get(model, {})
    for name in IDENTITY:
        if known.get(name) and identity.get(name) and known[name] != identity[name]:
            raise InputError(
                f"{run.path} holds scores of '{model}' with {name} '{known[name]}', not "
                f"'{identity[name]}': scores of the two are never compared. Give this one another name (the "
                f"setting name), or use another run folder"
            )
    run.update("models", {model: {**known, **identity}})


MOST_NAMES = 100  # that a manifest keeps; the journal of replies keeps every one
OTHERS = "(others)"


def note_named(
    run: Run, model: str, table: str, named: Mapping[str, int], *, more: bool = False
) -> list[str]:
    """Record which models a server named, and in how many replies; what to say about it, if anything.

    Args:
        run: Where the model is recorded.
        model: What the run calls it.
        table: What the replies were for: answers or scores.
        named: The names, "" where a reply has none.
        more: These replies come beside those of earlier commands.
    """
    known = run.manifest()["models"][model]
    earlier = known.get("named", {})
    counts = Counter({name: count for name, count in named.items() if name})
    if more:
        counts.update(earlier.get(table, {}))
    kept = dict(counts.most_common(MOST_NAMES))
    if left := counts.total() - sum(kept.values()):
        kept[OTHERS] = kept.get(OTHERS, 0) + left
    if kept or earlier.get(table):
        earlier = {**earlier, table: kept}
        run.update("models", {model: {**known, "named": earlier}})
    sentence = named_sentence({"named": earlier})
    return [sentence] if sentence else []


def named_sentence(known: Mapping[str, Any]) -> str:
    """What to say where a server named several models; ``known``: what a manifest, which anybody may have written,
    says about the model that was asked for."""
    tables = known.get("named")
    counts: Counter[str] = Counter()
    for table in tables.values() if isinstance(tables, Mapping) else ():
        for name, count in table.items() if isinstance(table, Mapping) else ():
            counts[str(name)] += count if isinstance(count, int) else 1
    if len(counts) < 2:
        return ""
    shown = [f"{name} ({count:,})" for name, count in counts.most_common(_SHOWN_NAMES)]
    more = ", …" if len(counts) > _SHOWN_NAMES else ""
    return (
        f"the server named {len(counts):,} models in its replies: {', '.join(shown)}{more}; what answered is "
        f"not known to be one model"
    )


_SHOWN_NAMES = 3


def stage_folder(model: str) -> str:
    """A folder name for a model: safe as a path, and different for every model."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-")[-60:]
    return f"{plain or 'model'}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
