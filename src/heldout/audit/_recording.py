"""The model stages of an audit: scores and answers into a run folder, each made once."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from heldout.audit._ledger import file_digest
from heldout.audit.cases import AuditCase, Recording
from heldout.audit.plan import wants
from heldout.audit.reader import Audit
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
from heldout.store import Run

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
    if kind == "scores":
        return inputs | {"plan": scoring_settings(audit, case, recording).model_dump(mode="json")}
    if audit.file.reads_choices:  # else what was asked before counts as it is
        inputs["choice_logprobs"] = True
    return inputs | {
        "variants": [str(variant) for variant in recording.variants],
        "twins": {name: twin.fingerprint for name, twin in case.twins.items()},
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
            scored = score_benchmark(
                case.benchmark, scorer_of(scoring), run, name, scoring, quiet=quiet
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
    return recording.entry.score_settings(
        audit.file,
        _location(audit, recording),
        order_joint=joint is not None,
        budget=joint,
        order_neighbour=wants(audit.file, "order-neighbour") and len(case.benchmark) > 1,
    )


def _location(audit: Audit, recording: Recording) -> str:
    local = recording.entry.local
    return audit.located_model(local) if local else ""


def _may_succeed(run: Run) -> bool:
    """An endpoint that failed on some items may not fail on them again."""
    dropped = run.read_table("dropped").to_pylist()
    return any(row["reason"] in TRANSIENT for row in dropped)
