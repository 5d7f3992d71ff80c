"""make_twins: twins of a benchmark, stage by stage, into a run folder: a call that was killed continues when it
is made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import polars as pl

from heldout.benchmark import (
    Benchmark,
    Opened,
    open_tables,
    open_verb_run,
    parse_source,
    prepare_run,
)
from heldout.engine import progress
from heldout.errors import InputError, html_table
from heldout.model import Asker, ReplySet, check_run, open_chat, opened_benchmark
from heldout.store import Run
from heldout.twin.drawing import render
from heldout.twin.edges import edges, faint
from heldout.twin.edit_renderer import EditRenderer
from heldout.twin.filtering import choose_policy, earlier_verdicts, filter_twins
from heldout.twin.ledger import (
    DESCRIBE,
    EDGES,
    FILTER,
    RENDER,
    RESAMPLE,
    TABLE,
    dropped_of,
    finished,
    read_stage,
    said_by_people,
    write_stage,
)
from heldout.twin.publish import publish
from heldout.twin.renderers import EDIT, SCENE, Renderer, open_renderer
from heldout.twin.resample import resample
from heldout.twin.settings import TwinSettings
from heldout.twin.verify import DESCRIBE_TEMPLATE, VERIFY_TEMPLATE, describe


@dataclass
class Twinning:
    """``stages``: how many items each let through and left out, and what it spent."""

    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    policy: str | None = None
    agreement: dict[str, Any] | None = None
    published: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def run_stages(
    benchmark: Benchmark,
    run: Run,
    settings: TwinSettings,
    *,
    reopen: Callable[[], Opened],
    describer: Asker | None = None,
    renderer: Renderer | None = None,
    verifier: Asker | None = None,
    quiet: bool = False,
) -> Twinning:
    """Call inside run.writing(). Tables are written even where a server's death ends the call."""
    stages = settings.stages
    _refuse_early(run, settings, renderer, verifier)
    prepare_run(benchmark, run)
    twinning = Twinning()
    for stage in stages:
        spent: dict[str, Any] = {}
        ended: InputError | None = None
        if stage == RESAMPLE:
            chosen, dropped = resample(
                benchmark, benchmark.examples[: settings.limit], settings.seed
            )
            write_stage(run, RESAMPLE, [resampled.as_json() for resampled in chosen], dropped)
            _refuse_nothing(run, RESAMPLE)
        elif stage == DESCRIBE:
            record = {**describer.identity, "template": DESCRIBE_TEMPLATE} if describer else None
            run.update("twin", {"describe": record})
            asked = describe(
                run, benchmark, describer, longest=settings.longest_caption, quiet=quiet
            )
            spent, ended = _spent(asked) if describer else {}, asked.ended
        elif stage == EDGES:
            edges(run, benchmark, low=settings.edges[0], high=settings.edges[1], quiet=quiet)
            spent = {"faint": faint(run)}
        elif stage == RENDER:
            assert renderer is not None
            how = {"name": renderer.name, "settings": portable(renderer.settings)}
            run.update("twin", {"render": how})
            drawn = render(
                run,
                benchmark,
                renderer,
                seed=settings.seed,
                concurrency=_pictures_at_a_time(settings),
                quiet=quiet,
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
                policy=settings.keep,
                unfiltered=settings.unfiltered,
                quiet=quiet,
            )
            twinning.policy = judged.policy
            twinning.agreement = judged.agreement.as_json() if judged.agreement else None
            asked_for = _spent(judged.asked) if verifier else {}
            spent, ended = {**asked_for, "kept": judged.kept}, judged.asked.ended
        else:
            with progress("publishing", disabled=quiet):
                twinning.published = publish(run, benchmark, reopen, seed=settings.seed)
        twinning.stages[stage] = {**_counts(run, stage), **spent}
        if ended is not None:
            raise ended
    return twinning


def portable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they may be published: no path of this machine, only its last part."""
    return {
        key: PurePath(value).name
        if isinstance(value, str) and PurePath(value).is_absolute()
        else value
        for key, value in settings.items()
    }


def _refuse_early(
    run: Run, settings: TwinSettings, renderer: Renderer | None, verifier: Asker | None
) -> None:
    """Refuse, before anything is paid for, settings that later stages would fail on."""
    if RENDER in settings.stages and renderer is None:
        raise InputError(
            "drawing the pictures needs the setting renderer: give it, or stop at edges with the setting last"
        )
    if FILTER in settings.stages:
        judged = verifier is not None or earlier_verdicts(run)
        choose_policy(run, settings.keep, settings.unfiltered, judged, said_by_people(run))


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


def _spent(asked: ReplySet) -> dict[str, Any]:
    return {
        "asked": len(asked.fresh),
        "reused": len(asked.replies) - len(asked.fresh),
        "prompt_tokens": sum(reply.prompt_tokens or 0 for reply in asked.fresh),
        "reply_tokens": sum(reply.reply_tokens or 0 for reply in asked.fresh),
    }


def _pictures_at_a_time(settings: TwinSettings) -> int:
    server = settings.render_endpoint if settings.renderer == EDIT else None
    return server.concurrency if server is not None else 1


@dataclass(frozen=True)
class TwinResult:
    """What ``heldout.twin`` returns: the run, and its tables as data frames."""

    run: Run
    twinning: Twinning

    @property
    def twins(self) -> pl.DataFrame:
        """One row per drawn twin: questions, answers, captions, verdicts, whether it was kept."""
        return self.run.frame(TABLE)

    @property
    def stages(self) -> pl.DataFrame:
        """Per stage how many items it let through and left out."""
        rows = [
            {"stage": name, "items": stage["items"], "left_out": sum(stage["left_out"].values())}
            for name, stage in self.twinning.stages.items()
        ]
        return pl.DataFrame(rows)

    @property
    def published(self) -> Path | None:
        """The twins as a benchmark for ``heldout.ask``, as the variant twin; None before publishing."""
        record = self.twinning.published
        return self.run.path / record["ask_with"] if record is not None else None

    def as_json(self) -> dict[str, Any]:
        return {"run": str(self.run.path), **self.twinning.as_json()}

    def __repr__(self) -> str:
        stages = ", ".join(f"{row['stage']} {row['items']:,}" for row in self.stages.to_dicts())
        return f"<Twins: {stages}, run {self.run.path}>"

    def _repr_html_(self) -> str:
        rows = ((row["stage"], row["items"], row["left_out"]) for row in self.stages.to_dicts())
        return html_table(
            ("stage", "items", "left out"), rows, f"twins: {self.published or self.run.path}"
        )


def make_twins(
    benchmark: Benchmark | str | Path,
    settings: TwinSettings | None = None,
    *,
    run: Run | str | Path | None = None,
    draw_with: Renderer | None = None,
    quiet: bool = False,
    command: Sequence[str] | None = None,
    **values: Any,
) -> TwinResult:
    """Make a twin of every item: the same question on a new picture, on which another answer is right.

    ``heldout.twin(...)`` is this function, too. A killed call, or one whose endpoint died, continues
    where it was when it is made again with the same ``run``: no caption, picture or verdict that arrived
    is lost or asked for twice.

    Args:
        benchmark: What twins are made of: a benchmark, or where one is read from.
        settings: All settings; or give them by name as further arguments.
        run: Run folder, new or of the same benchmark; default: a new one below ``heldout-runs``.
        draw_with: A renderer of your own in place of the setting ``renderer``.
        quiet: Show no progress.
        command: What the run records as its command; default: this call.
        **values: Fields of ``heldout.TwinSettings``.

    Returns:
        The run, with twins and stages as data frames.
    """
    chosen = TwinSettings.choose(settings, values)
    benchmark = opened_benchmark(benchmark, quiet=quiet)
    source, reading = benchmark.source, dict(benchmark.settings)
    renderer = draw_with
    if renderer is None and chosen.renderer is not None and RENDER in chosen.stages:
        renderer = _open_renderer(chosen, benchmark)
    # Before the run, so that a server that cannot be asked leaves none behind.
    check_run(run, chosen.seed)
    length = chosen.max_new_tokens
    describer = verifier = None
    if chosen.describer is not None and DESCRIBE in chosen.stages:
        describer = open_chat(chosen.describer, "describer", max_tokens=length)
    if chosen.verifier is not None and FILTER in chosen.stages:
        verifier = open_chat(chosen.verifier, "verifier", max_tokens=length)
    run = open_verb_run("twin", benchmark, chosen, run, seed=chosen.seed, command=command)
    with run.writing():
        twinning = run_stages(
            benchmark,
            run,
            chosen,
            reopen=lambda: open_tables(source, **reading),
            describer=describer,
            renderer=renderer,
            verifier=verifier,
            quiet=quiet,
        )
    return TwinResult(run, twinning)


def _open_renderer(settings: TwinSettings, benchmark: Benchmark) -> Renderer:
    assert settings.renderer is not None
    how = dict(settings.render)
    if settings.renderer == SCENE:
        path = parse_source(benchmark.source).path
        how.setdefault("folder", path if path.is_dir() else path.parent)
    if settings.render_model is not None:
        how["model"] = settings.render_model
    if settings.renderer == EDIT:
        how["server"] = settings.render_endpoint
    return open_renderer(settings.renderer, **how)
