"""Score one model on one benchmark into a run folder: items, self-checks, and what the order tests need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, prepare_run
from heldout.detect import (
    ScoreTables,
    SelfCheck,
    self_checks,
)
from heldout.errors import InputError
from heldout.model import (
    Scorer,
    ablation_checks,
    claim_model,
    read_recorded,
    save_scores,
    score_items,
    score_options,
    stage_folder,
    truncation_check,
)
from heldout.store import Run

# The order tests' tables: shards read in released and shuffled order, items after other predecessors.


CONTEXT = 4096


@dataclass(frozen=True)
class ScoringPlan:
    """What to score besides the answers. ``limit``: only the first items, for a first look."""

    options: bool = False
    joint_budget: int | None = None
    context: int = CONTEXT
    interleaved: bool = False
    neighbour: bool = False
    limit: int | None = None
    seed: int = 0


@dataclass
class Scoring:
    """What came of it. ``checks`` are the model's self-checks, as `heldout detect` will see them."""

    model: str
    items: int
    rows: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    checks: list[SelfCheck] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "checks": [check._asdict() for check in self.checks]}


def score_benchmark(
    benchmark: Benchmark,
    scorer: Scorer,
    run: Run,
    model: str,
    plan: ScoringPlan,
    *,
    extra: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    quiet: bool = False,
) -> Scoring:
    """Call inside run.writing(). ``tell`` gets the cost of order-joint before it is spent."""
    prepare_run(benchmark, run)
    claim_model(run, model, {**scorer.identity, **(extra or {})})
    folder = stage_folder(model)
    examples = benchmark.examples[: plan.limit]
    if plan.options and not any(example.options for example in examples):
        raise InputError("--options: no item of this benchmark has options")
    how: dict[str, Any] = {"quiet": quiet}
    joint = None
    if plan.joint_budget is not None:
        joint = plan_order_joint(
            benchmark,
            examples,
            scorer,
            budget=plan.joint_budget,
            context=plan.context,
            interleaved=plan.interleaved,
            seed=plan.seed,
        )
        tell(joint.plan.sentence())
    # Until they are made the scores do not stand: whoever is killed here leaves a failed check.
    pending = SelfCheck("ablation", False, "not finished: give the same `heldout score` again")
    _keep_checks(run, model, [pending])
    scored, truncated = score_items(benchmark, examples, scorer, run, model, folder, **how)
    made = [
        truncation_check(truncated, len(scored.scores) + len(scored.dropped)),
        *ablation_checks(
            benchmark, examples, scorer, run, folder, scored, seed=plan.seed, quiet=quiet
        ),
    ]
    rows = {"scores": len(scored.scores) - truncated}
    save_checks(run, model, [SelfCheck(*checked) for checked in made])
    if plan.options:
        rows["option_scores"] = score_options(
            benchmark, examples, scorer, run, model, folder, **how
        )
    if plan.neighbour:
        rows["order_neighbour"] = score_order_neighbour(
            benchmark,
            examples,
            scorer,
            run,
            model,
            folder,
            interleaved=plan.interleaved,
            seed=plan.seed,
            **how,
        )
    if joint is not None:
        rows["order_joint"] = score_order_joint(
            benchmark,
            scorer,
            run,
            model,
            folder,
            joint,
            interleaved=plan.interleaved,
            **how,
        )
    left = len(examples) - rows["scores"]
    return Scoring(model, len(examples), rows, left, save_checks(run, model, []))


def import_scores(
    benchmark: Benchmark,
    source: Path,
    run: Run,
    *,
    model: str | None = None,
    allow_missing: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> list[Scoring]:
    """Scores somebody else recorded, with the checks that can be made without the model."""
    recorded = read_recorded(
        source,
        [example.id for example in benchmark],
        fingerprint=benchmark.fingerprint,
        model=model,
        allow_missing=allow_missing,
        mapping=mapping,
    )
    prepare_run(benchmark, run)
    for name in recorded.models:
        claim_model(run, name, recorded.instruments[name])
    save_scores(run, recorded)
    made = []
    for name in recorded.models:
        rows = sum(row["model"] == name for row in recorded.rows)
        checks = save_checks(run, name, [])
        _keep_checks(run, name, checks)  # the page says what could not be checked, too
        made.append(Scoring(name, len(benchmark), {"scores": rows}, len(benchmark) - rows, checks))
    return made


def save_checks(run: Run, model: str, checks: list[SelfCheck]) -> list[SelfCheck]:
    """Keep ``checks`` with the model and return them with those that its tables alone allow."""
    if checks:
        _keep_checks(run, model, checks)
    return self_checks(ScoreTables.load(run), model)


def _keep_checks(run: Run, model: str, checks: list[SelfCheck]) -> None:
    known = run.manifest().get("models", {}).get(model, {})
    kept = [check._asdict() for check in checks]
    run.update("models", {model: {**known, "self_checks": kept}})
