"""The options of `heldout impact --encoder`, and how they become settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from heldout.benchmark import Benchmark
from heldout.detect import Study, study_encoders
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.evaluate import EncoderSettings, EncoderTask
from heldout.evidence import LeakLabels
from heldout.overlap import Bounds
from heldout.store import Run

PANEL = "Dual encoders"
Degrees = Annotated[
    str | None,
    typer.Option(
        "--degrees",
        metavar="hard=H,soft=S",
        help="Similarities from which on a near picture is hard or soft, of the run's encoder; "
        "'published' is hard=.98,soft=.95.",
    ),
]
Queries = Annotated[
    int | None,
    typer.Option(
        "--queries",
        min=2,
        help="Also draw so many items of every subset, ten times (with --encoder: 200, as published).",
    ),
]
EncoderNames = Annotated[
    list[str],
    typer.Option(
        "--encoder",
        metavar="E",
        help="Evaluate this encoder on BENCH: transformers:NAME, open_clip:MODEL/TAG, or saved:DIR with "
        "image and text embeddings in LAION's layout. Repeatable.",
        rich_help_panel=PANEL,
    ),
]
Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        metavar="a,b",
        help=f"Some of {', '.join(EncoderTask)} (default: all that can be done).",
        rich_help_panel=PANEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="Column with an item's class (default: the answer).",
        rich_help_panel=PANEL,
    ),
]
Caption = Annotated[
    str | None,
    typer.Option(
        "--caption",
        metavar="COLUMN",
        help="Column with an item's captions (default: caption, …).",
        rich_help_panel=PANEL,
    ),
]
Templates = Annotated[
    str | None,
    typer.Option(
        "--templates",
        metavar="NAME",
        help="Class prompts: imagenet-80 (default), openai-7, simple, a file with a template per line, or "
        "a template with {}.",
        rich_help_panel=PANEL,
    ),
]
ClassNames = Annotated[
    Path | None,
    typer.Option(
        "--class-names",
        metavar="FILE",
        help="Classes and their names (label, name); every class there is a candidate.",
        rich_help_panel=PANEL,
    ),
]
ClassEmbeddings = Annotated[
    Path | None,
    typer.Option(
        "--class-embeddings",
        metavar="DIR",
        help="With saved:DIR: text embeddings of class prompts with a column label.",
        rich_help_panel=PANEL,
    ),
]
Train = Annotated[
    str | None,
    typer.Option(
        "--train",
        metavar="[NAME=]CORPUS",
        help="Labelled training set of the linear probe.",
        rich_help_panel=PANEL,
    ),
]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        "--embeddings",
        metavar="DIR",
        help="Keep the training features here, where other runs find them (else in RUN).",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True)
class EncoderOptions:
    encoders: list[str]
    tasks: str | None
    label: str | None
    caption: str | None
    templates: str | None
    class_names: Path | None
    class_embeddings: Path | None
    train: str | None
    embeddings: Path | None
    queries: int | None
    seed: int

    def refuse_alone(self) -> None:
        """Options that mean nothing without an encoder."""
        names = (
            "tasks",
            "label",
            "caption",
            "templates",
            "class_names",
            "class_embeddings",
            "train",
            "embeddings",
        )
        for name in names:
            if getattr(self, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} goes with --encoder: name one")

    def refuse(
        self, given: list[str], *, bench: str | None, metric: str | None, mapping: list[str]
    ) -> None:
        """What only predictions have."""
        if len(given) != 1:
            raise InputError(
                f"with --encoder give one benchmark, found {len(given)}: {', '.join(given)}"
            )
        for name, value in (("--bench", bench), ("--metric", metric), ("--map", mapping)):
            if value:
                raise InputError(f"{name} is of predictions: with --encoder leave it out")

    def study(
        self,
        run: Run | None,
        benchmark: Benchmark,
        baseline: str | None,
        bounds: Bounds | None,
        labels: LeakLabels | None,
        engine: str,
        workers: int | None,
        *,
        quiet: bool,
    ) -> Study:
        settings = [self._settings(encoder) for encoder in self.encoders]
        control = self._settings(baseline) if baseline is not None else None
        with open_engine(engine, workers) as chosen:
            return study_encoders(
                run,
                benchmark,
                settings,
                baseline=control,
                labels=labels,
                bounds=bounds,
                engine=chosen,
                quiet=quiet,
            )

    def _settings(self, encoder: str) -> EncoderSettings:
        values: dict[str, Any] = {
            "encoder": encoder,
            "label": self.label,
            "caption": self.caption,
            "templates": self.templates,
            "class_names": self.class_names,
            "class_embeddings": self.class_embeddings,
            "train": self.train,
            "embeddings": self.embeddings,
            "queries": self.queries,
            "seed": self.seed,
            "tasks": tuple(filter(None, self.tasks.split(","))) if self.tasks is not None else None,
        }
        try:
            return EncoderSettings(
                **{key: value for key, value in values.items() if value is not None}
            )
        except ValidationError as error:
            first = error.errors()[0]
            option = "--" + str(first["loc"][0]).replace("_", "-") if first["loc"] else ""
            told = first["msg"].removeprefix("Value error, ")
            raise InputError(f"{option}: {told}".lstrip(": ")) from error
