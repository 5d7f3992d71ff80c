"""The recorded tables of a run as detectors read them: always in released order."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.evidence import PICTURED, Rung, leaks
from heldout.model import TWIN_SETS
from heldout.model import ModelScores as ModelScores
from heldout.overlap import Calibration, calibrations
from heldout.store import Run, empty_table, make_table

Floats = NDArray[np.float64]
_BANDS = ((1, "1 word"), (3, "2-3 words"), (7, "4-7 words"))
_CLOSED = {"yes", "no", "true", "false"}
RECORDED = ("scores", "answers", "twin_scores")  # tables of which a run has to hold one
MOST_STRATA = 24  # values of a field, above which strata are too small


@dataclass(frozen=True)
class ScoreTables:
    benchmark: str
    items: pl.DataFrame
    scores: pl.DataFrame
    order_joint: pl.DataFrame | None = None
    order_neighbour: pl.DataFrame | None = None
    answers: pl.DataFrame | None = None
    entropies: pl.DataFrame | None = None
    twin_scores: pl.DataFrame | None = None
    #: backend, dtype and revision by model: part of a score's identity
    identities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: by corpus, the items of which a copy of an image was proven there
    leaked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: by corpus, the items whose picture stands there together with their answer
    answered: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: the nearest corpus pictures, where an encoder searched, and how they were measured
    nearest: pl.DataFrame | None = None
    calibration: Mapping[str, Any] = field(default_factory=dict)
    #: by variant, how the twins were made
    twins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: by variant, the items that have a twin, and those whose twin is the original: where twins were given
    twin_items: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unchanged: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: models that are tested by their answers, the others being references; None: all
    only: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not self.items["position"].is_sorted():  # the table may be in any order
            object.__setattr__(self, "items", self.items.sort("position"))

    @classmethod
    def of_sums(
        cls, benchmark: str, items: pl.DataFrame, sums: Mapping[str, Mapping[str, float]]
    ) -> ScoreTables:
        """Tables of scores of which only the sum is known, as published tables give them.

        Args:
            benchmark: Its name.
            items: The table of its items.
            sums: Log-probability of the answer, by model and item.
        """
        rows = [
            {
                "benchmark_id": item,
                "model": model,
                "tokens": [],
                "logprobs": [],
                "mu": [],
                "sigma": [],
                "sum_logprob": value,
                "n_tokens": 1,
                "span_ok": True,
            }
            for model, column in sums.items()
            for item, value in column.items()
        ]
        return cls(benchmark, items, pl.DataFrame(make_table("scores", rows)))

    @classmethod
    def load(cls, run: Run) -> ScoreTables:
        manifest = run.manifest()
        if not any(run.table_path(name).exists() for name in RECORDED):
            raise InputError(
                f"{run.path} holds no scores and no answers: run heldout score or heldout ask first, or "
                f"import recorded ones"
            )
        optional: dict[str, Any] = {
            name: run.frame(name) if run.table_path(name).exists() else None
            for name in (
                "scores",
                "order_joint",
                "order_neighbour",
                "answers",
                "entropies",
                "twin_scores",
                "nearest",
            )
        }
        scores = optional.pop("scores")
        if optional["answers"] is None and optional["twin_scores"] is not None:
            optional["answers"] = pl.DataFrame(empty_table("answers"))
        pictured = leaks(run).filter(pl.col("rung").is_in(PICTURED))
        known = manifest["inputs"].get("benchmark", {})
        return cls(
            known.get("name", run.path.name),
            run.frame("items"),
            no_scores() if scores is None else scores,
            **optional,
            identities=manifest.get("models", {}),
            twins=manifest.get("twins", {}),
            twin_items=_twin_sets(run, "items"),
            unchanged=_twin_sets(run, "unchanged"),
            leaked=_by_corpus(pictured),
            answered=_by_corpus(pictured.filter(pl.col("rung") == Rung.FULL)),
            calibration=manifest.get("calibration", {}),
        )

    @cached_property
    def calibrations(self) -> list[Calibration]:
        """Nearness to every corpus by every encoder of the run; none where no encoder searched."""
        if self.nearest is None or not self.calibration:
            return []
        return calibrations(self.items, self.nearest, self.calibration)

    @cached_property
    def memo(self) -> dict[Hashable, Any]:
        """A result that several detectors need, computed once."""
        return {}

    @cached_property
    def models(self) -> list[str]:
        return sorted(self.scores["model"].unique().to_list())

    @cached_property
    def answering(self) -> list[str]:
        """Models whose answers were recorded, or their scores of two answers on two pictures."""
        tables = [table for table in (self.answers, self.twin_scores) if table is not None]
        return sorted({model for table in tables for model in table["model"].unique()})

    @property
    def tested(self) -> list[str]:
        """Of the models whose answers were recorded, those that are to be tested: all, unless ``only`` names some."""
        return (
            self.answering if self.only is None else [m for m in self.answering if m in self.only]
        )

    def scored(self, model: str) -> ModelScores:
        return ModelScores.join(model, self.items, self.scores)

    def without(self, models: Sequence[str]) -> ScoreTables:
        """Without these models' scores; what they answered stands on its own."""
        return self._kept(~pl.col("model").is_in(list(models)))

    def of_models(self, models: Sequence[str]) -> ScoreTables:
        """With nothing but these models' scores and answers."""
        wanted = pl.col("model").is_in(list(models))
        answers = self.answers if self.answers is None else self.answers.filter(wanted)
        return replace(self._kept(wanted), answers=answers)

    def _kept(self, rows: pl.Expr) -> ScoreTables:
        """Of every table of scores only these rows."""
        names = ("order_joint", "order_neighbour", "entropies", "twin_scores")
        tables = {name: getattr(self, name) for name in names}
        kept: dict[str, Any] = {n: t if t is None else t.filter(rows) for n, t in tables.items()}
        return replace(self, scores=self.scores.filter(rows), **kept)

    def common(self, models: Sequence[str]) -> list[ModelScores]:
        """Several models on the items that all of them scored."""
        frames = [self.scored(model) for model in models]
        shared = set.intersection(*(set(frame.frame["benchmark_id"]) for frame in frames))
        wanted = pl.col("benchmark_id").is_in(list(shared))
        return [ModelScores(frame.model, frame.frame.filter(wanted)) for frame in frames]

    def comparable(self, first: str, second: str) -> str | None:
        """Why two models' scores may not be compared, None if they may: never across backends."""
        known = [self.identities.get(name, {}) for name in (first, second)]
        for field_name in ("backend", "dtype"):
            values = [record.get(field_name) for record in known]
            if None not in values and values[0] != values[1]:
                return (
                    f"{first} was scored with {field_name} {values[0]} and {second} with {values[1]}: "
                    f"scores are never compared across backends"
                )
        return None


def metadata_column(frame: pl.DataFrame, name: str) -> list[str | None]:
    """One metadata field of every item, as text; None where an item does not have it."""
    texts: list[str | None] = frame["metadata"].to_list()
    known: dict[str | None, str | None] = {}  # many items have the same metadata
    for text in dict.fromkeys(texts):
        record = json.loads(text) if text else {}
        value = record.get(name) if isinstance(record, dict) else None
        known[text] = None if value is None else str(value)
    return [known[text] for text in texts]


def covariate(frame: pl.DataFrame, name: str) -> list[str]:
    """A stratum label for every item: answer_type, answer_length, or any metadata field."""
    if name == "answer_length":
        return [_band(len((answer or "").split())) for answer in frame["answer"]]
    values = metadata_column(frame, name)
    if name == "answer_type" and not any(values):
        closed = zip(frame["answer"], frame["options"].to_list(), strict=True)
        return [
            "CLOSED" if (answer or "").strip().lower() in _CLOSED or options else "OPEN"
            for answer, options in closed
        ]
    if not any(value is not None for value in values):
        fields = sorted({key for text in frame["metadata"] for key in json.loads(text or "{}")})
        raise InputError(
            f"no item has a metadata field '{name}'; there are answer_type, answer_length"
            + (f", {', '.join(fields)}" if fields else "")
        )
    return [value if value is not None else "none" for value in values]


def covariates(frame: pl.DataFrame) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Every field that divides the items: labels by name; and those with too many values, how many.

    Answer type and length, then the benchmark's own metadata; a field with one value divides nothing.
    """
    names = ["answer_type", "answer_length", *metadata_fields(frame)]
    columns: dict[str, list[str]] = {}
    fine: dict[str, int] = {}
    for name in dict.fromkeys(names):
        labels = covariate(frame, name)
        levels = len(set(labels))
        if levels > MOST_STRATA:
            fine[name] = levels
        elif levels > 1:
            columns[name] = labels
    return columns, fine


def metadata_fields(frame: pl.DataFrame) -> list[str]:
    """Metadata fields whose values are words, whole numbers or yes and no."""
    return sorted(
        {
            key
            for text in frame["metadata"]
            for key, value in (json.loads(text) if text else {}).items()
            if isinstance(value, (str, int, bool))
        }
    )


def strata(frame: pl.DataFrame, names: Sequence[str]) -> list[str] | None:
    if not names:
        return None
    columns = [covariate(frame, name) for name in names]
    return [" / ".join(values) for values in zip(*columns, strict=True)]


def _band(words: int) -> str:
    return next((label for most, label in _BANDS if words <= most), "8 words or more")


def _by_corpus(rows: pl.DataFrame) -> dict[str, frozenset[str]]:
    return {
        str(corpus): frozenset(frame["benchmark_id"])
        for (corpus,), frame in rows.group_by(["corpus"], maintain_order=True)
    }


def _twin_sets(run: Run, which: str) -> dict[str, frozenset[str]]:
    if not (run.path / TWIN_SETS).exists():
        return {}
    known = run.read_json(TWIN_SETS)["twins"]
    return {name: frozenset(record[which]) for name, record in known.items() if record[which]}


def no_scores() -> pl.DataFrame:
    """The scores of a run in which models were only asked."""
    return pl.DataFrame(empty_table("scores"))
