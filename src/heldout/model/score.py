"""score: log-probabilities of every answer of a benchmark from one model, into a run folder."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from heldout.benchmark import Benchmark, open_verb_run, prepare_run, read_benchmark
from heldout.engine import progress
from heldout.errors import InputError, html_table
from heldout.model.asking.twins import note_twins, read_twins
from heldout.model.endpoint.endpoint import Endpoint, check_parity
from heldout.model.entropies import score_entropies
from heldout.model.item_scores import score_items, score_options
from heldout.model.order import plan_order_joint, score_order_joint, score_order_neighbour
from heldout.model.recorded import read_recorded, save_scores
from heldout.model.request import Scorer
from heldout.model.scoring import claim_model, note_named, stage_folder
from heldout.model.self_check import (
    SelfCheck,
    ablation_checks,
    keep_checks,
    save_checks,
    truncation_check,
)
from heldout.model.settings import ScoreSettings
from heldout.model.twin_scores import score_twins
from heldout.store import Run


@dataclass
class Scoring:
    """The result of scoring. ``checks`` are the model's self-checks, as `heldout detect` will see them."""

    model: str
    items: int
    rows: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    checks: list[SelfCheck] = field(default_factory=list)
    #: what to say where the server named several models in its answers
    remarks: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "checks": [check._asdict() for check in self.checks]}


def score_benchmark(
    benchmark: Benchmark,
    scorer: Scorer,
    run: Run,
    model: str,
    settings: ScoreSettings,
    twins: Mapping[str, Benchmark] | None = None,
    *,
    letters: bool = False,
    extra: Mapping[str, Any] | None = None,
    tell: Callable[[str], object] = lambda _: None,
    quiet: bool = False,
) -> Scoring:
    """Call inside run.writing(). ``twins``: those of the settings or of an audit, by variant, and ``letters``
    whether the probabilities of their options are recorded as well; ``tell`` receives the cost of order-joint before
    it is spent."""
    prepare_run(benchmark, run)
    claim_model(run, model, {**scorer.identity, **(extra or {})})
    note_twins(run, benchmark, twins or {})
    try:
        folder = stage_folder(model)
        examples = benchmark.examples[: settings.limit]
        if settings.options and not any(example.options for example in examples):
            raise InputError("options: no item of this benchmark has options")
        how: dict[str, Any] = {"quiet": quiet}
        joint = None
        if settings.budget is not None:
            joint = plan_order_joint(
                benchmark,
                examples,
                scorer,
                budget=settings.budget,
                context=settings.context,
                interleaved=settings.interleaved,
                seed=settings.seed,
            )
            tell(joint.plan.sentence())
        # Scores without checks do not count: a process killed here leaves a failed check.
        pending = SelfCheck("ablation", False, "not finished: give the same `heldout score` again")
        keep_checks(run, model, [pending])
        scored, truncated = score_items(benchmark, examples, scorer, run, model, folder, **how)
        checks = [
            truncation_check(truncated, len(scored.scores) + len(scored.dropped)),
            *ablation_checks(
                benchmark, examples, scorer, run, folder, scored, seed=settings.seed, quiet=quiet
            ),
        ]
        rows = {"scores": len(scored.scores) - truncated}
        save_checks(run, model, checks)
        if settings.options:
            rows["option_scores"] = score_options(
                benchmark, examples, scorer, run, model, folder, **how
            )
        if twins:
            rows["twin_scores"] = score_twins(
                benchmark,
                examples,
                twins,
                scored,
                scorer,
                run,
                model,
                folder,
                letters=letters,
                **how,
            )
        if settings.entropies:
            rows["entropies"] = score_entropies(
                benchmark, examples, scorer, run, model, folder, **how
            )
        if settings.order_neighbour:
            rows["order_neighbour"] = score_order_neighbour(
                benchmark,
                examples,
                scorer,
                run,
                model,
                folder,
                interleaved=settings.interleaved,
                seed=settings.seed,
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
                interleaved=settings.interleaved,
                **how,
            )
    finally:  # an interrupt or a server that died, too: what it named belongs to scores that are kept
        named = getattr(scorer, "named", Counter())
        remarks = note_named(run, model, "scores", named, more=True)
        named.clear()
    left = len(examples) - rows["scores"]
    return Scoring(model, len(examples), rows, left, save_checks(run, model, []), remarks)


def import_scores(
    benchmark: Benchmark,
    source: Path,
    run: Run,
    *,
    model: str | None = None,
    allow_missing: bool = False,
    mapping: Mapping[str, str] | None = None,
) -> list[Scoring]:
    """Scores recorded elsewhere, with the checks that need no model."""
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
    scorings = []
    for name in recorded.models:
        rows = sum(row["model"] == name for row in recorded.rows)
        checks = save_checks(run, name, [])
        keep_checks(run, name, checks)  # the page also lists what could not be checked
        scorings.append(
            Scoring(name, len(benchmark), {"scores": rows}, len(benchmark) - rows, checks)
        )
    return scorings


@dataclass(frozen=True)
class ScoreResult:
    """What ``heldout.score`` returns: the run, and its tables as data frames."""

    run: Run
    models: Sequence[Scoring]

    @property
    def scores(self) -> pl.DataFrame:
        """Log-probabilities of every item's answer, of these models."""
        names = [scoring.model for scoring in self.models]
        return self.run.frame("scores").filter(pl.col("model").is_in(names))

    @property
    def checks(self) -> pl.DataFrame:
        """Whether the scores can be trusted: one row per model and check."""
        rows = [
            {"model": scoring.model, **check._asdict()}
            for scoring in self.models
            for check in scoring.checks
        ]
        schema = {"model": pl.String, "name": pl.String, "passed": pl.Boolean, "reason": pl.String}
        return pl.DataFrame(rows, schema)

    def as_json(self) -> dict[str, Any]:
        models = [scoring.as_json() for scoring in self.models]
        return {"run": str(self.run.path), "models": models}

    def __repr__(self) -> str:
        scored = ", ".join(f"{s.model} {s.rows.get('scores', 0):,} items" for s in self.models)
        return f"<Scores of {scored}, run {self.run.path}>"

    def _repr_html_(self) -> str:
        rows = (
            (
                scoring.model,
                scoring.rows.get("scores", 0),
                scoring.dropped,
                ", ".join(check.name for check in scoring.checks if check.failed) or "–",
            )
            for scoring in self.models
        )
        names = ("model", "scored", "dropped", "failed checks")
        return html_table(names, rows, f"run: {self.run.path}")


def score(
    benchmark: Benchmark | str | Path,
    settings: ScoreSettings | None = None,
    *,
    run: Run | str | Path | None = None,
    quiet: bool = False,
    command: Sequence[str] | None = None,
    notify: Callable[[str], object] | None = None,
    **values: Any,
) -> ScoreResult:
    """Score every answer of a benchmark with one model; several models may go into one run.

    A killed call, or one whose endpoint died, continues where it was when it is made again with the
    same ``run``.

    Args:
        benchmark: What is scored: a benchmark, or where one is read from.
        settings: All settings; or give them by name as further arguments.
        run: Run folder, new or of the same benchmark; default: a new one below ``heldout-runs``.
        quiet: Show no progress.
        command: What the run records as its command; default: this call.
        notify: Receives the cost of order-joint before it is spent; default: standard error.
        **values: Fields of ``heldout.ScoreSettings``.

    Returns:
        The run, with scores and checks as data frames.
    """
    chosen = ScoreSettings.choose(settings, values)
    chosen.require_source(chosen.recorded)
    benchmark = opened_benchmark(benchmark, quiet=quiet)
    open_here = partial(
        open_verb_run, "score", benchmark, chosen, run, seed=chosen.seed, command=command
    )
    if chosen.recorded is not None:
        run = open_here()
        with run.writing():
            scorings = import_scores(
                benchmark,
                chosen.recorded,
                run,
                model=chosen.name or chosen.model,
                allow_missing=chosen.allow_missing,
                mapping=chosen.columns,
            )
        return ScoreResult(run, scorings)
    check_run(run, chosen.seed)
    twins = read_twins(chosen.parsed_variants, benchmark, run)
    extra: dict[str, Any] = {}
    scorer: Scorer
    if chosen.endpoint is not None:
        server = open_server(chosen)
        if chosen.parity is not None:
            extra["parity"] = _parity(benchmark, server, chosen)
        scorer, name = server, chosen.name or server.model
    else:
        scorer, name = chosen.open_local(), chosen.local_name
    run = open_here()
    tell = notify or (lambda message: sys.stderr.write(f"heldout: {message}\n"))
    with run.writing():
        scoring = score_benchmark(
            benchmark,
            scorer,
            run,
            name,
            chosen,
            twins,
            extra=extra,
            tell=(lambda _: None) if quiet else tell,
            quiet=quiet,
        )
    return ScoreResult(run, [scoring])


def opened_benchmark(benchmark: Benchmark | str | Path, *, quiet: bool) -> Benchmark:
    """The benchmark with its images read, with a progress bar; later uses do not read them again."""
    if not isinstance(benchmark, Benchmark):
        benchmark = read_benchmark(benchmark)
    title = f"reading the images of {benchmark.name}"
    with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
        benchmark.identify(step)
    return benchmark


def check_run(run: Run | str | Path | None, seed: int) -> None:
    """Look at a run folder that is there before a model is loaded; a new one is made only afterwards,
    so that a model that cannot be loaded leaves no run behind."""
    if run is None or isinstance(run, Run):
        return
    folder = Path(run)
    if folder.is_file() or (
        folder.is_dir() and any(not path.name.startswith(".") for path in folder.iterdir())
    ):
        Run.create(folder, seed=seed)


def open_server(settings: ScoreSettings) -> Endpoint:
    assert settings.endpoint is not None
    return Endpoint.open(
        settings.endpoint.connect("endpoint"),
        settings.served,
        concurrency=settings.endpoint.concurrency,
        dtype=settings.served_dtype,
    )


def _parity(benchmark: Benchmark, server: Endpoint, settings: ScoreSettings) -> dict[str, Any]:
    folder = settings.parity
    assert folder is not None
    local = settings.model_copy(update={"model": folder}).open_local()
    parity = check_parity(server, local, benchmark, seed=settings.seed)
    if not parity.passed:
        raise InputError(
            f"{server.connection.url} and {folder} do not score alike: {parity.reason}. Nothing was "
            f"scored; serve the same checkpoint, processor and dtype, or score {folder} as a local model"
        )
    return {**parity.as_json(), "folder": folder}
