"""report.html of a synthesis, and the card of its dataset."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from heldout.errors import counted
from heldout.report.commands import commands_shown
from heldout.report.environment import templates
from heldout.report.figures import for_paper
from heldout.report.synthesis import SynthesisFacts, read_facts
from heldout.report.synthesis_card import dataset_card
from heldout.report.synthesis_samples import Sample, read_samples
from heldout.review.open import item_tables
from heldout.store import Run, write_atomic
from heldout.synth.ledger import folder
from heldout.synth.publish import DATASET
from heldout.synth.recall import STAGES


def write_synthesis_report(run: Run) -> Path:
    """``report.html`` with its figures; beside a published dataset also ``README.md`` with them."""
    facts, samples = read_facts(run), read_samples(run)
    manifest = run.manifest()
    page: dict[str, Any] = {
        "facts": facts,
        "published": [one for one in samples if not one.why],
        "rejected": [one for one in samples if one.why],
        "people": item_tables(run),
        "dataset": f"synth/{DATASET}" if facts.published else "",
        "manifest_text": json.dumps(manifest, indent=1, ensure_ascii=False),
        "commands": [shlex.join(one) for one in commands_shown(manifest["commands"])],
        "scripts": [],
        "stages": STAGES,
        "counted": counted,
    }
    _write_figures(facts, run.path / "figures")
    dataset = folder(run) / DATASET
    if dataset.is_dir():
        _write_card(facts, samples, dataset)
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("synthesis.html.j2").render(page))
    return path


def _write_figures(facts: SynthesisFacts, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for figure in facts.figures:
        write_atomic(target / f"{figure.name}.svg", for_paper(figure.drawn))


def _write_card(facts: SynthesisFacts, samples: list[Sample], dataset: Path) -> None:
    _write_figures(facts, dataset / "figures")
    write_atomic(dataset / "README.md", dataset_card(facts, samples))
