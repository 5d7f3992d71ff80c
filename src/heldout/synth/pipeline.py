"""synth: from open literature to a published, decontaminated dataset, stage by stage, in one run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.benchmark import Benchmark
from heldout.engine import open_engine
from heldout.errors import InputError, html_table
from heldout.model import FAILED
from heldout.store import Run, opened_table
from heldout.synth.context import StageContext, StageWork, require_settings
from heldout.synth.ledger import (
    Funnel,
    answering_models,
    asked_again,
    code_and_verifier,
    finished,
    folder,
    forget_after,
    read_funnel,
    sweep,
    table_path,
    write_all_dropped,
    writing,
)
from heldout.synth.plan import (
    StageCost,
    costs_as_json,
    plan_assumptions,
    plan_costs,
    spent_costs,
    total_cost,
)
from heldout.synth.settings import MODEL_ROLES, NOT_SELECTED, SCENES, SynthSettings, SynthStage


def stage_works(plan: bool = False) -> tuple[StageWork, ...]:
    """All stages in order, or those that a plan runs; imported here, because some load large libraries."""
    from heldout.synth._select import SELECT
    from heldout.synth.ingest import INGEST

    if plan:
        return (INGEST, SELECT)
    from heldout.synth._balance import BALANCE
    from heldout.synth._generate import GENERATE
    from heldout.synth._verify import VERIFY
    from heldout.synth.decontaminate import DECONTAMINATE
    from heldout.synth.publish import PUBLISH
    from heldout.synth.shortcut import SHORTCUT

    return (INGEST, SELECT, GENERATE, VERIFY, SHORTCUT, BALANCE, DECONTAMINATE, PUBLISH)


@dataclass(frozen=True, repr=False)
class Synthesis:
    """What ``synth`` returns: the run, its funnel, and the tables of its stages as data frames."""

    run: Run
    funnel: Funnel
    costs: tuple[StageCost, ...] = ()

    def as_json(self) -> dict[str, Any]:
        record = {"run": str(self.run.path), **self.funnel.as_json()}
        record["spent"] = costs_as_json(self.spent)
        record["models"] = self.models.to_dicts()
        record["code_and_verifier"] = self.code_and_verifier.to_dicts()
        record["undecided"] = self.undecided
        if not self.costs:
            return record
        (total,) = costs_as_json([self.total])
        return {**record, "costs": costs_as_json(list(self.costs)), "total": total}

    @property
    def total(self) -> StageCost:
        """The sum of ``costs``."""
        return total_cost(self.costs)

    @property
    def assumptions(self) -> str:
        """The assumptions behind ``costs``."""
        return plan_assumptions(self.costs)

    @property
    def spent(self) -> list[StageCost]:
        """What the models of this run have cost so far, by role; ``plan=True`` estimates the same."""
        return spent_costs(self.run)

    def frame(self, stage: SynthStage | str) -> pl.DataFrame:
        """The table of one stage; empty where the stage has not been run."""
        path = table_path(self.run, SynthStage(stage))
        if not path.exists():
            return pl.DataFrame()
        with opened_table(path) as file:
            return pl.DataFrame(file.read())

    @property
    def models(self) -> pl.DataFrame:
        """Which models answered, by what their servers say, with the number of replies."""
        return answering_models(self.run)

    @property
    def code_and_verifier(self) -> pl.DataFrame:
        """By criterion that code can check: how often code and verifier see a fault, alone or both."""
        return code_and_verifier(self.run)

    @property
    def undecided(self) -> int:
        """Items that a failing endpoint left undecided: the same call requests them again."""
        return sum(asked_again(self.run, stage) for stage in SynthStage)

    @property
    def failure(self) -> str:
        """How an endpoint failed on the first of them; empty where none did."""
        failed = self.dropped.filter(pl.col("reason").str.ends_with(FAILED))["detail"]
        return str(failed[0]) if len(failed) else ""

    @property
    def not_selected(self) -> dict[str, int]:
        """Why figures were dropped for their labels, with counts, most frequent first."""
        left_out = self.dropped.filter(pl.col("reason") == NOT_SELECTED)["detail"]
        counts = left_out.value_counts(sort=True)
        return dict(zip(counts["detail"], counts["count"], strict=True))

    @property
    def compared(self) -> bool:
        """Whether the items were compared with benchmarks."""
        return finished(self.run, SynthStage.DECONTAMINATE)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """A sentence for every benchmark of which some images could not be compared."""
        if not self.compared:
            return ()
        from heldout.synth.contamination import images_compared

        reports = self.run.read_json("synth/contamination.json")["benchmarks"]
        return tuple(filter(None, map(images_compared, reports)))

    @property
    def figures(self) -> pl.DataFrame:
        return self.frame(SynthStage.SELECT)

    @property
    def drafts(self) -> pl.DataFrame:
        return self.frame(SynthStage.GENERATE)

    @property
    def verdicts(self) -> pl.DataFrame:
        return self.frame(SynthStage.VERIFY)

    @property
    def items(self) -> pl.DataFrame:
        """The published items, in the order of the nested subsets."""
        from heldout.synth.publish import DATASET, published_rows

        rows = list(published_rows(self.run)) if (folder(self.run) / DATASET).is_dir() else []
        return pl.DataFrame(rows)

    @property
    def dropped(self) -> pl.DataFrame:
        return self.run.frame("dropped")

    def __repr__(self) -> str:
        steps = self.funnel.steps
        message = (
            f"{steps[0].entered:,} figures → {steps[-1].left:,} at {steps[-1].name}"
            if steps
            else ""
        )
        return f"Synthesis({str(self.run.path)!r}{', ' if message else ''}{message})"

    def _repr_html_(self) -> str:
        rows = ((step.name, step.entered, step.left) for step in self.funnel.steps)
        return html_table(("stage", "in", "out"), rows)


def synth(
    settings: SynthSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    plan: bool = False,
    benchmarks: Mapping[str, Benchmark] | None = None,
    **values: Any,
) -> Synthesis:
    """What ``heldout.synth`` does, with the same parameters, but without page and dataset card."""
    chosen = SynthSettings.choose(settings, values)
    if not plan:
        require_settings(chosen)
    opened = open_engine(engine, workers=workers)
    new = not (Path(out) / "manifest.json").exists()
    if new:  # nothing is written before source and benchmarks can be read
        if chosen.source != SCENES:
            _refuse_missing(chosen.source)
        _open_benchmarks_once(chosen, benchmarks or {})
    run = Run.create(out, seed=chosen.seed)
    check_source(run, chosen.source)
    chosen = _as_recorded(run, chosen)
    _refuse_uncompared(run, chosen)
    costs: list[StageCost] = []
    with run.writing(), opened as where:
        sweep(run)
        record = {"settings": chosen.model_dump(mode="json"), "source": _source(chosen.source)}
        run.update("synth", record)
        context = StageContext(run, chosen, where, quiet, benchmarks or {})
        if not new and not finished(run, SynthStage.DECONTAMINATE):
            _open_benchmarks_once(chosen, context.benchmarks)
        try:
            for work in stage_works(plan):
                if work.stage not in chosen.stages_to_run:
                    continue
                if work.stage is SynthStage.PUBLISH:
                    _refuse_uncompared(run, chosen)  # a stage above may have made other items
                if _run_stage(work, context):
                    _sum_up(run)  # so that a kill in the next stage does not lose it
            if plan:
                costs = plan_costs(context)
        finally:
            funnel = _sum_up(run)
    return Synthesis(run, funnel, tuple(costs))


def _as_recorded(run: Run, chosen: SynthSettings) -> SynthSettings:
    """The settings with those that finished stages had, of stages that are not run now.

    Page and card describe the settings: these have to be those that the items were made with. A setting that
    is given and contradicts them is refused.
    """
    recorded = run.manifest().get("synth", {}).get("settings", {})
    if not recorded or not chosen.stages:
        return chosen
    kept = {
        name: work.stage
        for work in stage_works()
        if work.stage not in chosen.stages_to_run and finished(run, work.stage)
        for name in work.depends
        if name in recorded and name != "source"
    }
    asked = chosen.model_dump(mode="json")
    defaults = SynthSettings.model_construct().model_dump(mode="json", include=set(kept))
    contradicted = [
        name
        for name in kept
        if asked[name] not in (recorded[name], defaults.get(name)) and name not in MODEL_ROLES
    ]
    if contradicted:
        name = contradicted[0]
        raise InputError(
            f"{name}: {run.path} holds the stage {kept[name].value} with {recorded[name]}, not {asked[name]}: "
            f"give the same value, or run the stage again"
        )
    restored = {name: recorded[name] for name in kept if name not in MODEL_ROLES}
    return SynthSettings.model_validate({**asked, **restored})


def _sum_up(run: Run) -> Funnel:
    """Write what the finished stages dropped, and their funnel."""
    write_all_dropped(run)
    funnel = read_funnel(run)
    run.write_json("synth/funnel.json", funnel.as_json())
    return funnel


def _source(source: str) -> dict[str, str]:
    """The identity of a source: its place and its files, either of which may change."""
    if source == SCENES:
        return {"path": source, "files": source}
    path = Path(source).resolve()
    root, files = (path, path.rglob("*")) if path.is_dir() else (path.parent, [path])
    texts = sorted(
        f"{file.relative_to(root)} {file.stat().st_size}" for file in files if file.is_file()
    )
    return {"path": str(path), "files": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def check_source(run: Run, source: str) -> None:
    """Refuse another source than that of the run's items. The same one may have grown, or moved."""
    known = run.manifest().get("synth", {}).get("source")
    if known is None or not finished(run, SynthStage.INGEST):
        return
    if not set(known.items()) & set(_source(source).items()):
        if source != SCENES:
            _refuse_missing(source)
        raise InputError(
            f"{run.path} holds items made from {known['path']}, not from {source}: use another folder, or "
            f"remove this one to start over"
        )


def _refuse_missing(source: str) -> None:
    if not Path(source).exists():
        raise InputError(f"{source} does not exist: expected a file, a folder, or 'scenes'")


def _open_benchmarks_once(settings: SynthSettings, benchmarks: Mapping[str, Benchmark]) -> None:
    """A benchmark that cannot be read is reported before anything is paid for."""
    if SynthStage.DECONTAMINATE in settings.stages_to_run:
        from heldout.synth._against import open_benchmarks, refuse_unreadable

        for benchmark in open_benchmarks(settings, benchmarks):
            refuse_unreadable(benchmark)


def _refuse_uncompared(run: Run, settings: SynthSettings) -> None:
    """Items that are to avoid benchmarks are not published before they have been compared with them."""
    stages = settings.stages_to_run
    if settings.against and SynthStage.PUBLISH in stages:
        compared = SynthStage.DECONTAMINATE
        if compared not in stages and not finished(run, compared):
            raise InputError(
                f"against: the items in {run.path} have not been compared with {settings.against[0]}: "
                f"add {compared.value} to the stages, before {SynthStage.PUBLISH.value}"
            )


def _run_stage(work: StageWork, context: StageContext) -> bool:
    """Run a stage; returns whether there was anything to do."""
    key = work.key(context)
    if finished(context.run, work.stage, key):
        return False
    with writing(context.run, work.stage, key) as writer:
        work.work(context, writer)
        # Before the new table takes its place, so that a kill leaves no stage beside items of another one.
        forget_after(context.run, work.stage)
    return True
