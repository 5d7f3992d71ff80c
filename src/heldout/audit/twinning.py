"""Twins of a benchmark, stage by stage, into a run folder: whatever dies, the same call goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from heldout.benchmark import Benchmark, Opened, prepare_run
from heldout.engine import progress
from heldout.errors import InputError
from heldout.model import Asker, Replied
from heldout.store import Run
from heldout.twin import (
    DESCRIBE,
    DESCRIBE_TEMPLATE,
    EDGES,
    FILTER,
    HIGH,
    LONGEST_CAPTION,
    LOW,
    PUBLISH,
    RENDER,
    RESAMPLE,
    STAGES,
    VERIFY_TEMPLATE,
    EditRenderer,
    Renderer,
    choose_policy,
    describe,
    dropped_of,
    earlier_verdicts,
    edges,
    faint,
    filter_twins,
    finished,
    publish,
    read_stage,
    render,
    resample,
    said_by_people,
    write_stage,
)


@dataclass(frozen=True)
class TwinPlan:
    """``first`` and ``last``: the stages to go through. ``limit``: only the first items."""

    first: str = RESAMPLE
    last: str = PUBLISH
    seed: int = 0
    limit: int | None = None
    low: int = LOW
    high: int = HIGH
    longest_caption: int = LONGEST_CAPTION
    concurrency: int = 1  # pictures drawn at a time
    keep: str | None = None
    unfiltered: bool = False

    @property
    def stages(self) -> tuple[str, ...]:
        for stage in (self.first, self.last):
            if stage not in STAGES:
                raise InputError(f"there is no stage '{stage}'; there are {', '.join(STAGES)}")
        chosen = STAGES[STAGES.index(self.first) : STAGES.index(self.last) + 1]
        if not chosen:
            raise InputError(f"the stage {self.last} comes before {self.first}")
        return chosen


@dataclass
class Twinning:
    """``stages``: how many items each let through and left out, and what it spent."""

    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    policy: str | None = None
    agreement: dict[str, Any] | None = None
    published: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def make_twins(
    benchmark: Benchmark,
    run: Run,
    plan: TwinPlan,
    *,
    reopen: Callable[[], Opened],
    describer: Asker | None = None,
    renderer: Renderer | None = None,
    verifier: Asker | None = None,
    quiet: bool = False,
) -> Twinning:
    """Call inside run.writing(). Tables are written even where a server's death ends the call."""
    stages = plan.stages
    _refuse_early(run, plan, renderer, verifier)
    prepare_run(benchmark, run)
    made = Twinning()
    for stage in stages:
        spent: dict[str, Any] = {}
        ended: InputError | None = None
        if stage == RESAMPLE:
            chosen, dropped = resample(benchmark, benchmark.examples[: plan.limit], plan.seed)
            write_stage(run, RESAMPLE, [resampled.as_json() for resampled in chosen], dropped)
            _refuse_nothing(run, RESAMPLE)
        elif stage == DESCRIBE:
            record = {**describer.identity, "template": DESCRIBE_TEMPLATE} if describer else None
            run.update("twin", {"describe": record})
            asked = describe(run, benchmark, describer, longest=plan.longest_caption, quiet=quiet)
            spent, ended = _spent(asked) if describer else {}, asked.ended
        elif stage == EDGES:
            edges(run, benchmark, low=plan.low, high=plan.high, quiet=quiet)
            spent = {"faint": faint(run)}
        elif stage == RENDER:
            assert renderer is not None
            how = {"name": renderer.name, "settings": portable(renderer.settings)}
            run.update("twin", {"render": how})
            drawn = render(
                run, benchmark, renderer, seed=plan.seed, concurrency=plan.concurrency, quiet=quiet
            )
            spent = {"drawn": drawn.fresh, "reused": drawn.reused}
            ended = drawn.ended
            if isinstance(renderer, EditRenderer):
                spent["prompt_tokens"] = renderer.spent.tokens_read
                spent["reply_tokens"] = renderer.spent.tokens_written
        elif stage == FILTER:
            if verifier is not None:
                run.update("twin", {"verifier": {**verifier.identity, "template": VERIFY_TEMPLATE}})
            judged = filter_twins(
                run,
                benchmark,
                verifier,
                policy=plan.keep,
                unfiltered=plan.unfiltered,
                quiet=quiet,
            )
            made.policy = judged.policy
            made.agreement = judged.agreement.as_json() if judged.agreement else None
            asked_for = _spent(judged.asked) if verifier else {}
            spent, ended = {**asked_for, "kept": judged.kept}, judged.asked.ended
        else:
            with progress("publishing", disabled=quiet):
                made.published = publish(run, benchmark, reopen, seed=plan.seed)
        made.stages[stage] = {**_counts(run, stage), **spent}
        if ended is not None:
            raise ended
    return made


def portable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they may be published: no path of this machine, only its last part."""
    return {
        key: PurePath(value).name
        if isinstance(value, str) and PurePath(value).is_absolute()
        else value
        for key, value in settings.items()
    }


def _refuse_early(
    run: Run, plan: TwinPlan, renderer: Renderer | None, verifier: Asker | None
) -> None:
    """Before anything is paid for: what the last stages will lack."""
    if RENDER in plan.stages and renderer is None:
        raise InputError("who draws the pictures? Give --renderer, or stop with --until edges")
    if FILTER in plan.stages:
        judged = verifier is not None or earlier_verdicts(run)
        choose_policy(run, plan.keep, plan.unfiltered, judged, said_by_people(run))


def _refuse_nothing(run: Run, stage: str) -> None:
    if not read_stage(run, stage):
        listed = _counts(run, stage)["left_out"]
        why = ", ".join(f"{reason} {count:,}" for reason, count in listed.items())
        raise InputError(f"no item can have a twin: {why}")


def _counts(run: Run, stage: str) -> dict[str, Any]:
    if not finished(run, stage):
        return {"items": 0, "left_out": {}}
    dropped = Counter(dropped.reason for dropped in dropped_of(run, stage))
    return {"items": len(read_stage(run, stage)), "left_out": dict(dropped.most_common())}


def _spent(asked: Replied) -> dict[str, Any]:
    return {
        "asked": len(asked.fresh),
        "reused": len(asked.replies) - len(asked.fresh),
        "prompt_tokens": sum(reply.prompt_tokens or 0 for reply in asked.fresh),
        "reply_tokens": sum(reply.reply_tokens or 0 for reply in asked.fresh),
    }
