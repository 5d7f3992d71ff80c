"""One detector on one model of the grid: by itself, or less what clean references show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heldout.detect import (
    Detector,
    DetectSettings,
    Finding,
    Need,
    Outcome,
    ScoreTables,
    direction_of,
)
from heldout.lab.power_models import (
    CLEAN,
    CONTAMINATED,
    MARK,
    OTHER_SEEDS,
    RAW,
    LabGrid,
    LabModel,
    marked,
    narrowed,
)
from heldout.verdict import against_baseline

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
            names = {model.base: [] for model in self.models()}  # type: dict[str, list[LabModel]]
            for model in self.models():
                if (model.name, "") not in done:
                    names[model.base].append(model)
            for base, members in names.items():
                yield from self._group(detector, way, base, members)

    def _group(
        self, detector: Detector, way: str, base: str, members: Sequence[LabModel]
    ) -> Iterator[Row]:
        references = self.grid.references(self.benchmark, base, way)
        if not members or (way != RAW and not references):
            return
        if Need.COHORT in detector.requires:
            # Who else is in a cohort changes what it says: always the same clean others.
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
        tables = narrowed(self.tables, wanted | set(bases.values()))
        by_detector = detector.needs == "answers" or Need.COHORT in detector.requires
        settings = self.settings.model_copy(
            update={
                "baselines": references if by_detector else (),
                "bases": tuple(bases.items()) if detector.needs == "answers" else (),
            }
        )
        record = {one.cell.model: one for one in detector.find(tables, settings)}
        for model in members:
            outcome = record.get(model.name)
            if outcome is None:
                continue
            row = self._row(model, detector, way, outcome)
            # A cohort has to be scored as well, references or not.
            others = wanted if Need.COHORT in detector.requires else references
            row["references"] = len([other for other in others if other != model.name])
            if way != RAW and not by_detector and isinstance(outcome, Finding):
                row |= self._less(self.tables, outcome, references, self.settings)
            yield row

    def _membership(
        self, detector: Detector, way: str, split: LabModel, done: frozenset[tuple[str, str]]
    ) -> Iterator[Row]:
        # With references, which cost the most, clean models are tested on the halves of one dose: to who
        # has seen neither they are all alike.
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
            # Who divides by a reference itself has no second difference taken.
            own_reference = Need.REFERENCE in detector.requires
            if own_reference and references:
                settings = settings.model_copy(update={"reference": references[0]})
            tables = narrowed(whole, {model.name, *references})
            # Who needs no reference of its own is not run over the references.
            mine = tables if own_reference else narrowed(whole, {model.name})
            outcome = next(
                one for one in detector.find(mine, settings) if one.cell.model == model.name
            )
            row = self._row(model, detector, way, outcome) | {
                "split": split.name,
                "references": len(references),
            }
            if references and isinstance(outcome, Finding) and not own_reference:
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
        made = [
            against_baseline(tables, finding, name, settings)
            for name in references
            if name != finding.cell.model
        ]
        differences = [difference for difference in made if not isinstance(difference, str)]
        if not differences:
            message = next((one for one in made if isinstance(one, str)), "no reference is left")
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
