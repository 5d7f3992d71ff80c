"""The verbs evaluate, train and synth with their pages, and synth as an entry of an audit file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.audit._recording import file_digest
from heldout.audit.cases import AuditCase, folder_name
from heldout.audit.plan import COUNTED, PlanStep
from heldout.audit.reader import Audit
from heldout.benchmark import Benchmark, find_preset, read_benchmark
from heldout.errors import InputError
from heldout.evaluate import (
    EvaluateSettings,
    Evaluation,
    builtin_suites,
    evaluate,
    suite_benchmarks,
)
from heldout.report import write_evaluation_report, write_synthesis_report, write_training_report
from heldout.store import Run, new_folder
from heldout.synth import (
    SCENES,
    Synthesis,
    SynthSettings,
    SynthStage,
    check_source,
    require_settings,
    source_costs,
    synth,
)
from heldout.train import TrainResult, TrainSettings, train


def evaluate_suite(
    settings: EvaluateSettings | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    **values: Any,
) -> Evaluation:
    """Evaluate models on a suite of benchmarks, with a page.

    ``heldout.evaluate(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same suite: replies that are there are not asked for again. Default: a new
            one below ``heldout-runs``.
        engine: ``local``, ``ray`` or ``ray://HOST:PORT``: where local models run.
        workers: Workers that each hold the model; default: this process alone, or the whole cluster.
        quiet: Show no progress.
        **values: Fields of ``heldout.evaluate.EvaluateSettings``.

    Returns:
        Accuracies, disagreements with published scorers, ranks and paired comparisons.
    """
    chosen = EvaluateSettings.choose(settings, values)
    with new_folder(out, "evaluate", Path(chosen.suite).stem) as folder:
        evaluation = evaluate(chosen, out=folder, engine=engine, workers=workers, quiet=quiet)
    with evaluation.run.writing():
        write_evaluation_report(evaluation.run)
    return evaluation


# Train: the gate, the updates, the page, the model card.


def train_model(
    settings: TrainSettings | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    to: str = "",
    gate_from: str | Path | None = None,
    **values: Any,
) -> TrainResult:
    """Train a vision–language model behind the gate, with report and model card.

    ``heldout.train(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same training: finished updates are not made again. Default: a new
            one below ``heldout-runs``.
        engine: Where the comparison runs: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes of the comparison; default: one per core.
        quiet: Show no progress.
        to: ``verl`` writes a configuration and data for verl in place of training here.
        gate_from: Run folder of a training whose comparisons with benchmarks are taken over where they
            are of the same rows and benchmarks.
        **values: Fields of ``heldout.train.TrainSettings``.

    Returns:
        The run, the trained checkpoint, what the gate said, and the tables as data frames.
    """
    chosen = TrainSettings.choose(settings, values)
    with new_folder(out, "train", Path(chosen.data).stem) as folder:
        result = train(
            chosen,
            out=folder,
            engine=engine,
            workers=workers,
            quiet=quiet,
            to=to,
            gate_from=gate_from,
            benchmarks=_benchmarks(chosen.against, quiet=quiet),
        )
    if result.model is not None:
        with result.run.writing():
            write_training_report(result.run)
    return result


def _benchmarks(against: tuple[str, ...], *, quiet: bool) -> list[Benchmark]:
    """What ``against`` names: benchmarks, and all benchmarks of every suite."""
    benchmarks: list[Benchmark] = []
    for name in against:
        benchmarks += (
            suite_benchmarks(name, quiet=quiet) if _is_suite(name) else [read_benchmark(name)]
        )
    return benchmarks


def _is_suite(name: str) -> bool:
    """A YAML file, or the name of a suite that comes with heldout. A path that exists comes first, and
    so does a benchmark of the same name: a suite of one benchmark holds what it does."""
    if Path(name).suffix in (".yaml", ".yml"):
        return True
    return not Path(name).exists() and find_preset(name) is None and name in builtin_suites()


# Synth, by itself and as an entry of an audit file.


MANIFEST = "manifest.json"


def synthesize(
    settings: SynthSettings | None = None,
    *,
    out: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    plan: bool = False,
    benchmarks: Mapping[str, Benchmark] | None = None,
    **values: Any,
) -> Synthesis:
    """Make verified, decontaminated items from figures of open literature, with page and dataset card.

    ``heldout.synth(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same synthesis: finished work is not done again. Default: a new one
            below ``heldout-runs``.
        engine: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes to use; default: one per core.
        quiet: Show no progress.
        plan: Read and select figures only, and estimate requests, tokens, price and time of the rest.
        benchmarks: Opened benchmarks by names in ``against``; other names there are read as sources.
        **values: Fields of ``heldout.synth.SynthSettings``.

    Returns:
        The run, the funnel, and the tables of all stages as data frames.
    """
    chosen = SynthSettings.choose(settings, values)
    with new_folder(out, "synth", chosen.name) as folder:
        synthesis = synth(
            chosen,
            out=folder,
            engine=engine,
            workers=workers,
            quiet=quiet,
            plan=plan,
            benchmarks=benchmarks,
        )
    if not plan:
        with synthesis.run.writing():
            write_synthesis_report(synthesis.run)
    return synthesis


@dataclass(frozen=True)
class FreshItems:
    """One entry under ``synth``: settings with paths relative to the file's folder, and its run folder."""

    number: int
    settings: SynthSettings
    folder: Path
    benchmarks: Mapping[str, Benchmark]

    @property
    def inputs(self) -> dict[str, Any]:
        """What the result depends on, for the audit's ledger."""
        return {
            "settings": self.settings.model_dump(mode="json"),
            "source": file_digest(Path(self.settings.source)),
            "against": {name: benchmark.fingerprint for name, benchmark in self.benchmarks.items()},
        }


def open_fresh_items(audit: Audit, cases: Sequence[AuditCase]) -> list[FreshItems]:
    """The entries under ``synth``. Without ``against`` a dataset must overlap none of the audited
    benchmarks."""
    benchmarks = {case.name: case.benchmark for case in cases}
    folders = {case.folder: case.name for case in cases}
    fresh_items = []
    for number, entry in enumerate(audit.file.synth):
        folder = audit.output / folder_name(entry.name)
        with audit.at("synth", number, "name"):
            if folder in folders:
                raise InputError(
                    f"'{entry.name}' and '{folders[folder]}' would share the run folder {folder}: give "
                    f"them different names"
                )
        folders[folder] = entry.name
        rendered = entry.source == SCENES
        source = entry.source if rendered else audit.located(entry.source)
        cleaned = not entry.stages or SynthStage.DECONTAMINATE in entry.stages
        opened = dict(benchmarks) if cleaned and not entry.against else {}
        for place, spec in enumerate(entry.against):
            with audit.at("synth", number, "against", place):
                known = benchmarks.get(spec)
                opened[spec] = known or read_benchmark(audit.located(spec), name=spec)
        settings = entry.model_copy(update={"source": source, "against": tuple(opened)})
        with audit.at("synth", number, "source"):
            if not rendered and not Path(source).exists():
                raise InputError(f"{source} does not exist: expected a file, a folder, or 'scenes'")
            if (folder / MANIFEST).exists():
                check_source(Run.open(folder), source)
        with audit.at("synth", number):
            require_settings(settings)
        with audit.at("synth", number, "seed"):
            seed = Run.open(folder).manifest()["seed"] if (folder / MANIFEST).exists() else None
            if seed not in (None, entry.seed):
                raise InputError(
                    f"{folder} was made with seed {seed}: give the entry another name, or this seed"
                )
        fresh_items.append(FreshItems(number, settings, folder, opened))
    return fresh_items


def fresh_steps(entries: Sequence[FreshItems]) -> list[PlanStep]:
    """What making the items will cost, estimated from a first look at the source without asking a model."""
    steps = []
    for entry in entries:
        run = Run.open(entry.folder) if (entry.folder / MANIFEST).exists() else None
        looked = source_costs(entry.settings, COUNTED, run)
        asked = ", ".join(
            f"{cost.stage} {cost.requests:,}" + (f" ({cost.done:,} done)" if cost.done else "")
            for cost in looked.costs
        )
        more = "" if looked.whole else "more than "
        note = f"{more}{looked.figures:,} figures; " + (
            f"requests: {asked}" if asked else "no model"
        )
        if entry.settings.against and SynthStage.DECONTAMINATE in entry.settings.stages_to_run:
            note += f"; against {', '.join(entry.settings.against)}"
        steps.append(
            PlanStep(
                entry.settings.name,
                "synth",
                Path(entry.settings.source).name,
                looked.figures,
                looked.images,
                sum(cost.requests for cost in looked.costs),
                sum(cost.prompt_tokens + cost.reply_tokens for cost in looked.costs),
                note,
            )
        )
    return steps
