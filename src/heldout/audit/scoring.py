"""Score one model on one benchmark into a run folder: items, self-checks, and what the order tests need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, Example
from heldout.detect import (
    CANONICAL,
    RELEASED,
    JointPlan,
    ScoreTables,
    SelfCheck,
    plan_joint,
    self_checks,
)
from heldout.errors import InputError
from heldout.model import (
    DOCUMENT,
    Answers,
    Request,
    Scorer,
    ablation_checks,
    alternatives,
    claim_model,
    joint_request,
    neighbour_request,
    read_recorded,
    replace_dropped,
    replace_rows,
    save_scores,
    score_items,
    score_options,
    score_requests,
    shows_again,
    stage_folder,
    truncation_check,
)
from heldout.overlap import prepare_run
from heldout.store import Dropped, Run

# The order tests' tables: shards read in released and shuffled order, items after other predecessors.


CONTEXT = 4096


@dataclass(frozen=True)
class JointReading:
    """What order-joint will read: a plan whose places count in ``items``."""

    plan: JointPlan
    items: tuple[Example, ...]


def plan_order_joint(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    *,
    budget: int,
    context: int = CONTEXT,
    interleaved: bool = False,
    seed: int = 0,
) -> JointReading:
    """Shards, shuffles and their cost in tokens, before anything is run."""
    answered = _answered(examples)
    before: Example | None = None
    requests = []
    for place in answered:
        example = examples[place]
        shown = interleaved and not shows_again(example, before)
        requests.append(joint_request(example.id, [example], interleaved=shown))
        before = example
    counts = scorer.count(requests)
    # An item the model cannot read (0 tokens) is in no document, in whatever order.
    read = [(place, count) for place, count in zip(answered, counts, strict=True) if count > 0]
    if not read:
        raise InputError("order-joint: this model can read none of the items as a plain document")
    clusters = [benchmark.clusters[place] for place, _ in read]
    tokens = [count for _, count in read]
    plan = plan_joint(tokens, clusters, budget=budget, context=context, seed=seed)
    return JointReading(plan, tuple(examples[place] for place, _ in read))


def score_order_joint(
    benchmark: Benchmark,
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    reading: JointReading,
    *,
    interleaved: bool = False,
    quiet: bool = False,
) -> int:
    """Write ``order_joint`` for this model; returns its rows."""
    plan = reading.plan
    orders: list[list[int | None]] = [
        [None, *range(plan.shuffles_of(shard))] for shard in range(len(plan.shards))
    ]

    def requests() -> Iterator[list[Request]]:
        for shard in range(len(plan.shards)):
            for order in orders[shard]:
                items = [reading.items[place] for place in plan.order(shard, order)]
                yield [joint_request(_name(shard, order), items, interleaved=interleaved)]

    answers = score_requests(
        scorer,
        requests(),
        run,
        f"order-joint/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading {model}'s shards in up to {1 + plan.shuffles} orders",
        sums_only=True,
        quiet=quiet,
    )
    rows: list[dict[str, Any]] = []
    lost = _truncated(answers)
    for shard in range(len(plan.shards)):
        names = {order: _name(shard, order) for order in orders[shard]}
        # An order that is missing would make the rest of its shard look likelier or less so.
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "model": model,
                    "shard": shard,
                    "logprob": answers.totals[name][0],
                    "permutation": CANONICAL if order is None else str(order),
                }
                for order, name in names.items()
            ]
    replace_dropped(run, "order-joint", model, [*answers.dropped.values(), *lost.values()])
    if not rows:
        raise _nothing("order-joint", answers, lost)
    return replace_rows(run, "order_joint", model, rows)


def score_order_neighbour(
    benchmark: Benchmark,
    examples: Sequence[Example],
    scorer: Scorer,
    run: Run,
    model: str,
    folder: str,
    *,
    interleaved: bool = False,
    seed: int = 0,
    quiet: bool = False,
) -> int:
    """Write ``order_neighbour`` for this model; returns its rows."""
    places = _answered(examples)
    kept = [examples[place] for place in places]
    others = alternatives([benchmark.clusters[place] for place in places], seed=seed)
    if not others:
        raise InputError("order-neighbour: no item has another item near it to compare with")

    def conditions(place: int) -> dict[str, int]:
        return {RELEASED: place - 1} | {kept[other].id: other for other in others[place]}

    def requests() -> Iterator[list[Request]]:
        for place in others:
            yield [
                neighbour_request(
                    f"{place}/{other}", kept[other], kept[place], interleaved=interleaved
                )
                for other in conditions(place).values()
            ]

    answers = score_requests(
        scorer,
        requests(),
        run,
        f"order-neighbour/{folder}",
        fingerprint=f"{benchmark.fingerprint} {DOCUMENT}",
        title=f"reading {model}'s items after others",
        sums_only=True,
        quiet=quiet,
    )
    lost = _truncated(answers)
    rows: list[dict[str, Any]] = []
    for place in others:
        names = {message: f"{place}/{other}" for message, other in conditions(place).items()}
        if all(name in answers.totals and name not in lost for name in names.values()):
            rows += [
                {
                    "benchmark_id": kept[place].id,
                    "model": model,
                    "condition": message,
                    "logprob": answers.totals[name][0],
                }
                for message, name in names.items()
            ]
    alone = [
        Dropped("order-neighbour", kept[place].id, "no other item in its block", "")
        for place in range(1, len(kept))
        if place not in others
    ]
    gone = [*answers.dropped.values(), *lost.values(), *alone]
    replace_dropped(run, "order-neighbour", model, gone)
    if not rows:
        raise _nothing("order-neighbour", answers, lost)
    return replace_rows(run, "order_neighbour", model, rows)


def _answered(examples: Sequence[Example]) -> list[int]:
    """Places of the items that have an answer: one without is not part of any document."""
    return [place for place, example in enumerate(examples) if (example.answer or "").strip()]


def _name(shard: int, order: int | None) -> str:
    return f"{shard}/{CANONICAL if order is None else order}"


def _truncated(answers: Answers) -> dict[str, Dropped]:
    detail = "the model read less than the whole document; give a smaller --context"
    return {
        name: Dropped("order", name, "truncated prompt", detail)
        for name, score in answers.scores.items()
        if score.truncated
    }


def _nothing(what: str, answers: Answers, lost: dict[str, Dropped]) -> InputError:
    why = next(iter([*answers.dropped.values(), *lost.values()]), None)
    message = f"{why.reason}: {why.detail}" if why else "nothing was asked"
    return InputError(f"{what}: no document could be scored whole ({message})")


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
