"""Every detector over the whole grid, cell by cell; what is finished is kept and not computed again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from heldout.detect import (
    Detector,
    DetectSettings,
    Finding,
    Need,
    Outcome,
    ScoreTables,
    detectors,
    direction_of,
)
from heldout.errors import InputError, nearest_name
from heldout.lab.power.models import (
    CLEAN,
    CONTAMINATED,
    MARK,
    OTHER_SEEDS,
    RAW,
    LabGrid,
    LabModel,
    fewer_shuffles,
    marked,
    narrowed,
    recorded_tokens,
)
from heldout.lab.settings import PowerSettings
from heldout.store import Run, replacing, write_json
from heldout.verdict import against_baseline

# One detector on one model of the grid: by itself, or less what clean references show.


Row = dict[str, Any]
PAIRS = "it speaks of pairs of models, not of models"


@dataclass(frozen=True)
class Cells:
    """What there is to do for one benchmark; ``detector`` reads ``tables`` of all its models."""

    grid: LabGrid
    benchmark: str
    tables: ScoreTables
    settings: DetectSettings

    def models(self) -> list[LabModel]:
        recorded = sorted({*self.tables.models, *self.tables.answering})
        return [self.grid.models[name] for name in recorded]

    def splits(self) -> list[LabModel]:
        """Models that saw a part of the pictures: the rest is what they cannot have seen."""
        return [
            model
            for model in self.models()
            if model.role(self.benchmark) == CONTAMINATED
            and model.planted
            and model.planted.share < 1
        ]

    def rows(self, detector: Detector, way: str, done: frozenset[tuple[str, str]]) -> Iterator[Row]:
        """Every cell that is not ``done`` (model and split)."""
        if detector.of == "benchmark":
            yield from self._blind(detector, way, done)
        elif Need.UNSEEN in detector.requires:
            for split in self.splits():
                yield from self._membership(detector, way, split, done)
        elif detector.of == "models":
            yield from self._consistency(detector, way, done)
        elif detector.of == "model":
            # Bases with the same references share one call: it also looks at the references themselves.
            groups: dict[tuple[tuple[str, ...], ...], tuple[str, list[LabModel]]] = {}
            for model in self.models():
                if (model.name, "") not in done:
                    ways = (way, OTHER_SEEDS)
                    key = tuple(self.grid.references(self.benchmark, model.base, w) for w in ways)
                    groups.setdefault(key, (model.base, []))[1].append(model)
            for base, members in groups.values():
                yield from self._group(detector, way, base, members)

    def _group(
        self, detector: Detector, way: str, base: str, members: Sequence[LabModel]
    ) -> Iterator[Row]:
        references = self.grid.references(self.benchmark, base, way)
        if not members or (way != RAW and not references):
            return
        if Need.COHORT in detector.requires:
            # A cohort's result depends on its members: they are always the same clean models.
            others = self.grid.references(self.benchmark, base, OTHER_SEEDS)
            for model in members:
                cohort = {model.name, *others, *references}
                yield from self._made(detector, way, [model], references, cohort)
            return
        wanted = {member.name for member in members}
        if detector.needs == "answers":
            wanted |= set(references)
        yield from self._made(detector, way, members, references, wanted)

    def _made(
        self,
        detector: Detector,
        way: str,
        members: Sequence[LabModel],
        references: tuple[str, ...],
        wanted: set[str],
    ) -> Iterator[Row]:
        known = self.grid.models
        bases = {name: known[name].base for name in wanted if known[name].planted}
        recorded = {*self.tables.models, *self.tables.answering}
        bases = {name: base for name, base in bases.items() if base in recorded}
        # References are read and not tested, which would be most of the work.
        tested = frozenset(member.name for member in members)
        tables = replace(narrowed(self.tables, wanted | set(bases.values())), only=tested)
        by_detector = detector.needs == "answers" or Need.COHORT in detector.requires
        settings = self.settings.model_copy(
            update={
                "baselines": references if by_detector else (),
                "bases": tuple(bases.items()) if detector.needs == "answers" else (),
            }
        )
        record = {finding.cell.model: finding for finding in detector.find(tables, settings)}
        for model in members:
            outcome = record.get(model.name)
            if outcome is None:
                continue
            row = self._row(model, detector, way, outcome)
            # A cohort has to be scored as well, with or without references.
            others = wanted if Need.COHORT in detector.requires else references
            row["references"] = len([other for other in others if other != model.name])
            if way != RAW and not by_detector and isinstance(outcome, Finding):
                row |= self._less(self.tables, outcome, references, self.settings)
            yield row

    def _membership(
        self, detector: Detector, way: str, split: LabModel, done: frozenset[tuple[str, str]]
    ) -> Iterator[Row]:
        # With references, which cost the most, clean models are tested on the halves of one dose: for a model
        # that has seen neither they are all alike.
        doses = [split.planted.dose for split in self.splits() if split.planted]
        asked = way == RAW or (split.planted is not None and split.planted.dose == max(doses))
        clean = [model for model in self.models() if model.role(self.benchmark) == CLEAN and asked]
        members = [
            lab_model for lab_model in [split, *clean] if (lab_model.name, split.name) not in done
        ]
        whole = marked(self.tables, split.leaked)
        for model in members:
            names = self.grid.references(self.benchmark, model.base, way)
            references = tuple(name for name in names if name != model.name)
            if way != RAW and not references:
                continue
            settings = self.settings.model_copy(update={"unseen": MARK})
            # A detector that divides by a reference itself is not compared a second time.
            own_reference = Need.REFERENCE in detector.requires
            if own_reference and references:
                settings = settings.model_copy(update={"reference": references[0]})
            # One that reads answers compares with its references by itself.
            by_detector = detector.needs == "answers"
            if by_detector:
                settings = settings.model_copy(update={"baselines": references})
            tables = narrowed(whole, {model.name, *references})
            tables = replace(tables, only=frozenset([model.name]))
            # A detector that needs no reference is not run on the references.
            own_tables = tables if own_reference or by_detector else narrowed(whole, {model.name})
            outcome = next(
                finding
                for finding in detector.find(own_tables, settings)
                if finding.cell.model == model.name
            )
            row = self._row(model, detector, way, outcome) | {
                "split": split.name,
                "references": len(references),
            }
            compared = own_reference or by_detector
            if references and isinstance(outcome, Finding) and not compared:
                row |= self._less(tables, outcome, references, settings)
            yield row

    def _blind(
        self, detector: Detector, way: str, done: frozenset[tuple[str, str]]
    ) -> Iterator[Row]:
        for split in self.splits() if way == RAW else ():
            if ("no model", split.name) in done:
                continue
            settings = self.settings.model_copy(update={"unseen": MARK})
            for outcome in detector.find(marked(self.tables, split.leaked), settings):
                yield self._row(split, detector, way, outcome) | {
                    "model": "no model",
                    "role": "none",
                    "split": split.name,
                }

    def _consistency(
        self, detector: Detector, way: str, done: frozenset[tuple[str, str]]
    ) -> Iterator[Row]:
        """Once per base: its clean arms and those of rising dose, nothing else being different."""
        by_base: dict[str, list[LabModel]] = {}
        for model in self.models():
            if model.planted and model.planted.benchmark == self.benchmark and is_plain(model):
                by_base.setdefault(model.base, []).append(model)
        for base, members in by_base.items() if way == RAW else ():
            if (base, "") in done:
                continue
            degrees = tuple(
                (member.name, float(member.planted.dose)) for member in members if member.planted
            )
            tables = narrowed(self.tables, {member.name for member in members})
            settings = self.settings.model_copy(update={"degrees": degrees})
            for outcome in detector.find(tables, settings):
                yield self._row(self.grid.models[base], detector, way, outcome) | {"role": "doses"}

    def _row(self, model: LabModel, detector: Detector, way: str, outcome: Outcome) -> Row:
        plan = model.planted
        row: Row = {
            "benchmark": self.benchmark,
            "detector": detector.name,
            "way": way,
            "model": model.name,
            "base": model.base,
            "arm": model.arm,
            "role": model.role(self.benchmark),
            "dose": 0,
            "split": "",
            "references": 0,
        }
        if plan is not None and plan.benchmark == self.benchmark:
            row["dose"] = plan.dose
        if not isinstance(outcome, Finding):
            return row | {"reason": outcome.reason}
        effect = outcome.effect
        areas = {name: outcome.details.get(name) for name in ("item_auc", "blind_auc")}
        if detector.of == "benchmark":
            areas = {"item_auc": outcome.statistic.value, "blind_auc": outcome.statistic.value}
        return (
            row
            | areas
            | {
                "effect": effect.value,
                "low": effect.low,
                "high": effect.high,
                "p": outcome.p,
                "direction": outcome.direction,
                "n": outcome.n,
                "clusters": outcome.clusters,
                "reason": "",
            }
        )

    def _less(
        self,
        tables: ScoreTables,
        finding: Finding,
        references: Iterable[str],
        settings: DetectSettings,
    ) -> Row:
        """As the verdict asks it: more than in every reference. The largest p is the finding's."""
        outcomes = [
            against_baseline(tables, finding, name, settings)
            for name in references
            if name != finding.cell.model
        ]
        differences = [difference for difference in outcomes if not isinstance(difference, str)]
        if not differences:
            message = next(
                (outcome for outcome in outcomes if isinstance(outcome, str)),
                "no reference is left",
            )
            return {
                "effect": None,
                "low": None,
                "high": None,
                "p": None,
                "direction": None,
                "reason": message,
            }
        ways = {direction_of(difference.p, difference.value) for difference in differences}
        return {
            "effect": float(np.mean([difference.value for difference in differences])),
            "low": min(difference.interval.low for difference in differences),
            "high": max(difference.interval.high for difference in differences),
            "p": max(difference.p for difference in differences),
            "direction": ways.pop() if len(ways) == 1 else "none",
            "references": len(differences),
        }


def is_plain(model: LabModel) -> bool:
    """Clean, or leaked whole and in order by full fine-tuning: the arms that differ in dose alone."""
    plan = model.planted
    return plan is not None and (
        plan.stage == "finetune"
        and plan.mode == "full"
        and plan.order == "released"
        and plan.part == "full"
        and plan.share == 1
        and plan.dilution == 0.5
        and not plan.paraphrased
    )


EQUAL_COST = "order-joint at equal cost"
SCHEMA = pl.Schema(
    {
        "benchmark": pl.String,
        "detector": pl.String,
        "way": pl.String,
        "model": pl.String,
        "base": pl.String,
        "arm": pl.String,
        "role": pl.String,
        "dose": pl.Int64,
        "split": pl.String,
        "references": pl.Int64,
        "effect": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "p": pl.Float64,
        "direction": pl.String,
        "n": pl.Int64,
        "clusters": pl.Int64,
        "item_auc": pl.Float64,
        "blind_auc": pl.Float64,
        "tokens": pl.Int64,
        "reason": pl.String,
    }
)


def run_power(
    grid: LabGrid, out: Path, settings: PowerSettings, tell: Callable[[str], None]
) -> pl.DataFrame:
    """All cells of all benchmarks; ``out/cells`` holds what is finished."""
    chosen = _chosen(settings.detectors)
    grid = replace(grid, drawn=settings.drawn)
    cells = out / "cells"
    frames: list[pl.DataFrame] = []
    for benchmark in grid.benchmarks:
        run = Run.open(grid.folder / benchmark)
        _same_inputs(cells / benchmark, run, settings)
        tables = ScoreTables.load(run)
        unknown = sorted({*tables.models, *tables.answering} - set(grid.models))
        if unknown:
            raise InputError(
                f"{run.path} has a model {unknown[0]} that models.json does not know: its truth is "
                f"needed; train the grid and write its tables together"
            )
        tested = DetectSettings(seed=settings.seed, permutations=settings.permutations)
        for detector in chosen:
            tables_read = tables
            if detector.name == EQUAL_COST:
                tables_read = fewer_shuffles(tables, affordable_shuffles(tables, run.manifest()))
            work = Cells(grid, benchmark, tables_read, tested)
            for way in settings.ways:
                path = cells / benchmark / f"{_plain(detector.name)}--{_plain(way)}.parquet"
                frame = _finished(path, work, detector, way)
                frames.append(_with_tokens(frame, work, detector, run.manifest()))
            tell(f"{benchmark}: {detector.name}")
    return pl.concat(frames)


def affordable_shuffles(tables: ScoreTables, manifest: Mapping[str, Any]) -> int:
    """Shuffles per shard that order-joint may read for what order-neighbour reads."""
    model = next(iter(tables.answering), "")
    recorded = recorded_tokens(manifest, model)
    joint, neighbour = (
        detectors()[name].forward_tokens(tables, model, recorded)
        for name in ("order-joint", "order-neighbour")
    )
    if not joint or not neighbour or tables.order_joint is None:
        return 1
    rows = tables.order_joint.filter(pl.col("model") == model)
    once = joint / (len(rows) / rows["shard"].n_unique())
    return max(1, int(neighbour / once) - 1)


def _chosen(names: Sequence[str]) -> list[Detector]:
    known = detectors()
    if "order-joint" in known:
        known[EQUAL_COST] = replace(
            known["order-joint"], name=EQUAL_COST, summary="order-joint with fewer shuffles"
        )
    for name in names:
        if name not in known:
            raise InputError(f"there is no detector '{name}'; {nearest_name(name, list(known))}")
    return [known[name] for name in names or known]


def _finished(path: Path, work: Cells, detector: Detector, way: str) -> pl.DataFrame:
    finished = pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SCHEMA)
    done = frozenset(zip(finished["model"], finished["split"], strict=True))
    fresh = _frame(work.rows(detector, way, done))
    if fresh.is_empty() and path.exists():
        return finished
    whole = pl.concat([finished, fresh])
    with replacing(path) as temporary:
        whole.write_parquet(temporary, compression="zstd")
    return whole


def _frame(rows: Iterable[Row]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=SCHEMA)


def _with_tokens(
    frame: pl.DataFrame, work: Cells, detector: Detector, manifest: Mapping[str, Any]
) -> pl.DataFrame:
    """Forward tokens of one model; with references everybody reads as much."""
    if frame.is_empty() or detector.of in ("models", "benchmark"):
        return frame
    tested = frame.filter(pl.col("effect").is_not_null())
    if tested.is_empty():
        return frame
    model = str(tested["model"][0])
    once = detector.forward_tokens(work.tables, model, recorded_tokens(manifest, model))
    spent = pl.lit(once, pl.Int64) * (1 + pl.col("references"))
    return frame.with_columns(
        pl.when(pl.col("effect").is_null()).then(None).otherwise(spent).alias("tokens")
    )


def _same_inputs(folder: Path, run: Run, settings: PowerSettings) -> None:
    """Cells of other tables or settings are not mixed with these."""
    digest = hashlib.sha256()
    for path in [*sorted((run.path / "tables").glob("*.parquet")), run.path.parent / "models.json"]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    inputs = {
        "tables": digest.hexdigest(),
        "permutations": settings.permutations,
        "seed": settings.seed,
    }
    if settings.drawn:  # named only then: results from before there was a choice stay valid
        inputs["references"] = "drawn"
    path = folder / "inputs.json"
    if path.exists() and json.loads(path.read_text()) != inputs:
        raise InputError(
            f"{folder} holds results of other tables or settings: choose another folder, or remove it"
        )
    if not path.exists():
        write_json(path, inputs)


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


__all__ = ["EQUAL_COST", "RAW", "SCHEMA", "affordable_shuffles", "run_power"]
