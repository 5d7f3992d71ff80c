"""The model stages of an audit: scores and answers into a run folder, each made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from heldout.audit.access import open_asker, open_scorer
from heldout.audit.asking import AskingPlan, ask_benchmark, import_answers
from heldout.audit.audit_file import AuditFile
from heldout.audit.cases import Case, Recording
from heldout.audit.ledger import file_digest
from heldout.audit.plan import wants
from heldout.audit.reader import Audit
from heldout.audit.scoring import ScoringPlan, import_scores, score_benchmark
from heldout.model import TRANSIENT, onnx_folder
from heldout.store import Run


def inputs_of(audit: Audit, case: Case, recording: Recording, kind: str) -> dict[str, Any]:
    """Everything that recorded scores or answers depend on."""
    path = recording.scores if kind == "scores" else recording.answers
    entry = recording.entry
    told: dict[str, Any] = {"benchmark": case.benchmark.fingerprint, "seed": audit.file.seed}
    if path is not None:
        return {
            **told,
            "file": file_digest(path),
            "model": entry.name,
            "map": entry.map,
            "allow_missing": entry.allow_missing,
        }
    local = audit.located_model(entry.local) if entry.local else ""
    told |= {"model": entry.model_dump(mode="json"), "items": audit.file.budget.items}
    told["checkpoint"] = file_digest(onnx_folder(local) or Path(local)) if local else ""
    if kind == "scores":
        return told | {"plan": str(scoring_plan(audit.file, case))}
    return told | {
        "variants": [str(variant) for variant in recording.variants],
        "twins": {name: twin.fingerprint for name, twin in case.twins.items()},
    }


def record(
    audit: Audit, case: Case, recording: Recording, kind: str, run: Run, *, quiet: bool
) -> dict[str, Any]:
    """Make or import one model's scores or answers. ``again``: something may succeed next time."""
    path = recording.scores if kind == "scores" else recording.answers
    name, entry = recording.name, recording.entry
    with run.writing():
        if kind == "scores" and path is not None:
            made = import_scores(
                case.benchmark, path, run, model=name, allow_missing=entry.allow_missing
            )
            mine = next(scoring for scoring in made if scoring.model == name)
            return {"rows": mine.rows, "dropped": mine.dropped, "again": False}
        if path is not None:
            askings = import_answers(case.benchmark, path, run, model=name, mapping=dict(entry.map))
            answers = next(asking for asking in askings if asking.model == name)
            return {"rows": answers.reused, "dropped": dict(answers.dropped), "again": False}
        location = audit.located_model(entry.local) if entry.local else ""
        if kind == "scores":
            scored = score_benchmark(
                case.benchmark,
                open_scorer(entry, location),
                run,
                name,
                scoring_plan(audit.file, case),
                quiet=quiet,
            )
            return {"rows": scored.rows, "dropped": scored.dropped, "again": _may_succeed(run)}
        plan = AskingPlan(recording.variants, limit=audit.file.budget.items, seed=audit.file.seed)
        asked = ask_benchmark(
            case.benchmark, open_asker(entry, location), run, name, plan, case.twins, quiet=quiet
        )
        again = any(reason in TRANSIENT for reason in asked.dropped)
        return {"rows": asked.asked + asked.reused, "dropped": dict(asked.dropped), "again": again}


def scoring_plan(file: AuditFile, case: Case) -> ScoringPlan:
    joint = file.budget.order_tokens if wants(file, "order-joint") else None
    return ScoringPlan(
        joint_budget=joint,
        neighbour=wants(file, "order-neighbour") and len(case.benchmark) > 1,
        limit=file.budget.items,
        seed=file.seed,
    )


def _may_succeed(run: Run) -> bool:
    """An endpoint that failed on some items may not fail on them again."""
    dropped = run.read_table("dropped").to_pylist()
    return any(row["reason"] in TRANSIENT for row in dropped)
