"""report.html of a training, and the card of the trained model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heldout.report._models import Figure
from heldout.report._reproduce import commands_shown, manifest_shown, templates, visible
from heldout.report.figures import StepCurve, for_paper, step_chart
from heldout.store import Run, write_atomic
from heldout.train import FOLDER as GATE
from heldout.train import MODEL

_CURVES = (
    ("reward", "Reward", "mean reward of a batch's replies", True),
    ("format_rate", "Well-formed replies", "share of replies of the right form", True),
    ("kl", "KL to the start", "nats per token", False),
    ("reply_tokens", "Length of replies", "tokens", False),
    ("constant_groups", "Prompts without a learning signal", "share of prompts", True),
    ("entropy", "Entropy", "nats per token", False),
    ("loss", "Loss", "loss", False),
    ("token_accuracy", "Tokens predicted right", "share of the reply's tokens", True),
    ("gradient", "Gradient norm", "before clipping", False),
)
_SHOWN_REPLIES = 12
_SPECIAL = re.compile(r"([\\`*_{}\[\]|#<>~])")
_RECIPES = {"sft": "supervised fine-tuning", "grpo": "GRPO with a verifiable reward"}


@dataclass(frozen=True)
class TrainingFacts:
    """What the page and the card say, read from the run folder alone."""

    settings: Mapping[str, Any]
    record: Mapping[str, Any]
    steps: list[dict[str, Any]]
    replies: list[dict[str, Any]]
    dropped: list[dict[str, Any]]
    figures: list[Figure]

    @property
    def recipe(self) -> str:
        return _RECIPES[self.settings["recipe"]]

    @property
    def base(self) -> str:
        """The checkpoint's name without folders of this machine."""
        return _plain_name(str(self.settings["model"]))

    @property
    def data(self) -> str:
        return _plain_name(str(self.settings["data"]))

    @property
    def last(self) -> dict[str, Any]:
        return self.steps[-1] if self.steps else {}


def is_training(run: Run) -> bool:
    return "train" in run.manifest()


def read_training(run: Run) -> TrainingFacts:
    record = run.manifest()["train"]
    steps = _rows(run, "steps")
    replies = _rows(run, "replies")
    figures = list(_figures(steps, str(record["settings"]["recipe"])))
    chosen = [*replies[: _SHOWN_REPLIES // 2], *replies[-_SHOWN_REPLIES // 2 :]]
    shown = chosen if len(replies) > _SHOWN_REPLIES else replies
    return TrainingFacts(record["settings"], record, steps, shown, _rows(run, "dropped"), figures)


def write_training_report(run: Run) -> Path:
    """``report.html`` with its figures; beside a trained checkpoint also its ``README.md``."""
    facts = read_training(run)
    manifest = run.manifest()
    for figure in facts.figures:
        write_atomic(run.path / "figures" / f"{figure.name}.svg", for_paper(figure.drawn))
    if (run.path / MODEL).is_dir():
        write_atomic(run.path / MODEL / "README.md", model_card(facts))
        for figure in facts.figures:
            write_atomic(
                run.path / MODEL / "figures" / f"{figure.name}.svg", for_paper(figure.drawn)
            )
    page = {
        "facts": facts,
        "gate": GATE,
        "model": MODEL,
        "manifest_text": manifest_shown(manifest),
        "commands": commands_shown(manifest["commands"]),
        "scripts": [],
    }
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("training.html.j2").render(page))
    return path


def model_card(facts: TrainingFacts) -> str:
    """Data, gate, contamination verdict, recipe and curves of a trained model."""
    return (
        templates()
        .get_template("model_card.md.j2")
        .render(
            facts=facts,
            gate=facts.record["gate"],
            md=_markdown,
            plain_name=_plain_name,
            base=Markup(json.dumps(facts.base)),
            trained=facts.record.get("trained", {}),
        )
    )


def _rows(run: Run, name: str) -> list[dict[str, Any]]:
    path = run.table_path(name)
    rows: list[dict[str, Any]] = run.read_table(name).to_pylist() if path.exists() else []
    return rows


def _figures(steps: list[dict[str, Any]], name: str) -> Iterator[Figure]:
    for column, title, label, percent in _CURVES:
        curve = step_curve(steps, column, name)
        if len(curve.steps) > 1:
            drawn = step_chart([curve], title=title, label=label, percent=percent)
            yield Figure(column.replace("_", "-"), drawn, "")


def step_curve(steps: list[dict[str, Any]], column: str, name: str) -> StepCurve:
    """One column of ``steps`` without its empty cells."""
    seen = [(row["step"], row[column]) for row in steps if row.get(column) is not None]
    return StepCurve(name, [float(step) for step, _ in seen], [float(value) for _, value in seen])


def _plain_name(text: str) -> str:
    """A hub name as it is; the last part of a path."""
    local = text.startswith((".", "/", "~")) or Path(text).exists()
    return Path(text).name if local else text


def _markdown(words: object) -> Markup:
    """Untrusted text as plain Markdown on one line."""
    text = str(visible(" ".join(str(words).split())))
    return Markup(_SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")))
