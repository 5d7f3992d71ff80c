"""The model stages of an audit, and its finished stages: each is made once."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.audit.cases import AuditCase, Recording
from heldout.audit.plan import wants
from heldout.audit.reader import Audit
from heldout.errors import InputError
from heldout.model import (
    TRANSIENT,
    Asker,
    AskSettings,
    OneModel,
    RunningModel,
    Scorer,
    ScoreSettings,
    ask_benchmark,
    import_answers,
    import_scores,
    onnx_folder,
    open_asker,
    open_model,
    open_server,
    score_benchmark,
)
from heldout.store import Run, read_document, write_json

# The finished stages of an audit: a stage stays finished while the fingerprint of its inputs is the same.


FILE = "stages.json"
_VERSION = 1


class AuditLedger:
    """``stages.json`` of an audit's output folder; written whole and by one rename, stage by stage."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._stages: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            known = read_document(self.path)
            if known.get("schema_version") == _VERSION:
                self._stages = known["stages"]

    def finished(self, key: str, fingerprint: str, outputs: Sequence[Path]) -> Any | None:
        """The result of a finished stage; None if it has to run: it never did, its inputs changed, or its
        output is gone."""
        known = self._stages.get(key)
        if known is None or known["fingerprint"] != fingerprint:
            return None
        return known["result"] if all(path.exists() for path in outputs) else None

    def finish(self, key: str, fingerprint: str, result: Any) -> None:
        self._stages[key] = {"fingerprint": fingerprint, "result": result}
        write_json(self.path, {"schema_version": _VERSION, "stages": self._stages})


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """Of everything a stage's result depends on, the version of heldout among it."""
    text = json.dumps({"heldout": __version__, **inputs}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Of a file's content; of a folder's listing (a checkpoint is too large to read twice)."""
    if path.is_dir():
        listing = [
            (str(entry.relative_to(path)), entry.stat().st_size, entry.stat().st_mtime_ns)
            for entry in sorted(path.rglob("*"))
            if entry.is_file()
        ]
        return fingerprint({"listing": listing})
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# An output folder that holds another revision of a benchmark, or another seed, is refused before any work.


def refuse_changed(audit: Audit, cases: Sequence[AuditCase]) -> None:
    """Refuse to mix results of two revisions; the message gives the setting to write instead, and what is kept."""
    reasons = [reason for case in cases if (reason := _changed(case, audit.file.seed))]
    if not reasons:
        return
    fresh = _free(audit.output)
    written = Path(audit.file.output).with_name(fresh.name)
    stale = " ".join(str(case.folder) for case in cases if _changed(case, audit.file.seed))
    raise InputError(
        f"{audit.output} holds results that do not fit {audit.path} any more: {'; '.join(reasons)}. To keep "
        f"both, write `output: {written}` in {audit.path} and run the audit again; then heldout "
        f"compare {audit.output} {fresh} says what changed. To start over, remove {stale}: all else "
        f"in {audit.output} is kept"
    )


def _changed(case: AuditCase, seed: int) -> str:
    if not (case.folder / "manifest.json").exists():
        return ""
    manifest = Run.open(case.folder).manifest()
    if manifest["seed"] != seed:
        return f"{case.name} was audited with seed {manifest['seed']}, not {seed}"
    known = manifest["inputs"].get("benchmark")
    if known is None or known["fingerprint"] == case.benchmark.fingerprint:
        return ""
    items = known.get("items"), len(case.benchmark)
    count = f"{items[0]:,} items → {items[1]:,}" if items[0] != items[1] else f"{items[1]:,} items"
    return (
        f"the benchmark {case.name} changed its content or order ({count}, revision "
        f"{known['fingerprint'][:12]} → {case.benchmark.fingerprint[:12]})"
    )


def _free(output: Path) -> Path:
    """A name beside ``output`` that is not taken."""
    number = 2
    while (name := output.with_name(f"{output.name}-{number}")).exists():
        number += 1
    return name


# A model of the audit file, opened to be scored or asked.


def scorer_of(settings: ScoreSettings) -> Scorer:
    return open_server(settings) if settings.endpoint is not None else _load(settings)


def asker_of(settings: AskSettings) -> Asker:
    if settings.endpoint is not None:
        return open_asker(settings)[0]
    return _load(settings).asker(settings.reply_tokens, logprobs=settings.choice_logprobs)


def _load(settings: OneModel) -> RunningModel:
    assert settings.model is not None
    return _loaded(settings.model, tuple(settings.local.items()))


@functools.lru_cache(maxsize=1)
def _loaded(model: str, how: tuple[tuple[str, object], ...]) -> RunningModel:
    """The last model stays in memory, because it is scored and then asked; two might not fit."""
    return open_model(model, **dict(how))  # type: ignore[arg-type]


def forget_loaded() -> None:
    """Free the memory of the last model."""
    _loaded.cache_clear()


def inputs_of(audit: Audit, case: AuditCase, recording: Recording, kind: str) -> dict[str, Any]:
    """Everything that recorded scores or answers depend on."""
    path = recording.scores if kind == "scores" else recording.answers
    entry = recording.entry
    inputs: dict[str, Any] = {"benchmark": case.benchmark.fingerprint, "seed": audit.file.seed}
    if path is not None:
        return {
            **inputs,
            "file": file_digest(path),
            "model": entry.name,
            "map": entry.map,
            "allow_missing": entry.allow_missing,
        }
    local = _location(audit, recording)
    inputs |= {"model": entry.model_dump(mode="json"), "items": audit.file.budget.items}
    inputs["checkpoint"] = file_digest(onnx_folder(local) or Path(local)) if local else ""
    twins = {name: twin.fingerprint for name, twin in case.twins.items()}
    if kind == "scores":
        plan = scoring_settings(audit, case, recording).model_dump(mode="json")
        if not plan["variants"]:  # what was scored before there was such a setting counts as it is
            return inputs | {"plan": {k: v for k, v in plan.items() if k != "variants"}}
        return inputs | {"plan": plan, "twins": twins}
    if audit.file.reads_choices:  # else what was asked before counts as it is
        inputs["choice_logprobs"] = True
    return inputs | {
        "variants": [str(variant) for variant in recording.variants],
        "twins": twins,
    }


def record(
    audit: Audit, case: AuditCase, recording: Recording, kind: str, run: Run, *, quiet: bool
) -> dict[str, Any]:
    """Make or import one model's scores or answers. ``again``: something may succeed next time."""
    path = recording.scores if kind == "scores" else recording.answers
    name, entry = recording.name, recording.entry
    with run.writing():
        if kind == "scores" and path is not None:
            scorings = import_scores(
                case.benchmark, path, run, model=name, allow_missing=entry.allow_missing
            )
            mine = next(scoring for scoring in scorings if scoring.model == name)
            return {"rows": mine.rows, "dropped": mine.dropped, "again": False}
        if path is not None:
            askings = import_answers(case.benchmark, path, run, model=name, mapping=dict(entry.map))
            answers = next(asking for asking in askings if asking.model == name)
            return {"rows": answers.reused, "dropped": dict(answers.dropped), "again": False}
        if kind == "scores":
            scoring = scoring_settings(audit, case, recording)
            twins = {twin: case.twins[twin] for twin in recording.twins}
            scored = score_benchmark(
                case.benchmark,
                scorer_of(scoring),
                run,
                name,
                scoring,
                twins,
                letters=recording.letters,
                quiet=quiet,
            )
            return {"rows": scored.rows, "dropped": scored.dropped, "again": _may_succeed(run)}
        settings = entry.ask_settings(audit.file, _location(audit, recording))
        asked = ask_benchmark(
            case.benchmark,
            asker_of(settings),
            run,
            name,
            settings,
            recording.variants,
            case.twins,
            quiet=quiet,
        )
        again = any(reason in TRANSIENT for reason in asked.dropped)
        return {"rows": asked.asked + asked.reused, "dropped": dict(asked.dropped), "again": again}


def scoring_settings(audit: Audit, case: AuditCase, recording: Recording) -> ScoreSettings:
    joint = audit.file.budget.order_tokens if wants(audit.file, "order-joint") else None
    location = _location(audit, recording)
    return recording.entry.score_settings(
        audit.file,
        location,
        variants=recording.twins,
        order_joint=joint is not None,
        budget=joint,
        order_neighbour=wants(audit.file, "order-neighbour") and len(case.benchmark) > 1,
        entropies=audit.file.reads_entropies and bool(location) and onnx_folder(location) is None,
    )


def _location(audit: Audit, recording: Recording) -> str:
    local = recording.entry.local
    return audit.located_model(local) if local else ""


def _may_succeed(run: Run) -> bool:
    """An endpoint that failed on some items may not fail on them again."""
    dropped = run.read_table("dropped").to_pylist()
    return any(row["reason"] in TRANSIENT for row in dropped)
