"""A synthesis with everything that people look at, by itself and as an entry of an audit file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.audit.cases import Case, folder_name
from heldout.audit.ledger import file_digest
from heldout.audit.plan import COUNTED, Step
from heldout.audit.reader import Audit
from heldout.benchmark import Benchmark, read_benchmark
from heldout.errors import InputError
from heldout.report import write_synthesis_report
from heldout.store import Run
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

MANIFEST = "manifest.json"


def synthesize(
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
    """Make verified, decontaminated items from figures of open literature, with page and dataset card.

    ``heldout.synth(...)`` is this function, too.

    Args:
        settings: All settings; or give them by name as further arguments.
        out: Run folder, new or of the same synthesis: finished work is not done again.
        engine: ``local``, ``ray`` or ``ray://HOST:PORT``.
        workers: Processes to use; default: one per core.
        quiet: Show no progress.
        plan: Read and select figures only, and estimate requests, tokens, price and time of the rest.
        benchmarks: Opened benchmarks by names in ``against``; other names there are read as sources.
        **values: Fields of ``SynthSettings``.

    Returns:
        The run, the funnel, and the tables of all stages as data frames.
    """
    made = synth(
        settings,
        out=out,
        engine=engine,
        workers=workers,
        quiet=quiet,
        plan=plan,
        benchmarks=benchmarks,
        **values,
    )
    if not plan:
        with made.run.writing():
            write_synthesis_report(made.run)
    return made


@dataclass(frozen=True)
class FreshItems:
    """One entry under ``synth``: settings with paths as the file means them, and its run folder."""

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


def open_fresh_items(audit: Audit, cases: Sequence[Case]) -> list[FreshItems]:
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
                    f"'{entry.name}' and '{folders[folder]}' would share the run folder {folder}: name "
                    f"them apart"
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
            made = Run.open(folder).manifest()["seed"] if (folder / MANIFEST).exists() else None
            if made not in (None, entry.seed):
                raise InputError(
                    f"{folder} was made with seed {made}: give the entry another name, or this seed"
                )
        fresh_items.append(FreshItems(number, settings, folder, opened))
    return fresh_items


def fresh_steps(entries: Sequence[FreshItems]) -> list[Step]:
    """What making the items will cost: by a first look at the source, without asking anybody."""
    steps = []
    for entry in entries:
        looked = source_costs(entry.settings, COUNTED)
        asked = ", ".join(f"{cost.stage} {cost.requests:,}" for cost in looked.costs)
        more = "" if looked.whole else "more than "
        note = f"{more}{looked.figures:,} figures; " + (
            f"requests: {asked}" if asked else "no model"
        )
        if entry.settings.against and SynthStage.DECONTAMINATE in entry.settings.stages_to_run:
            note += f"; against {', '.join(entry.settings.against)}"
        steps.append(
            Step(
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
