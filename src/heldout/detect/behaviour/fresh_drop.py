"""fresh-drop: does accuracy drop from the released items to fresh ones more than that of clean models? (ConStat)

The reference benchmark are items of the same kind that no model can have seen (the setting ``unseen``). They may be
easier or harder for everybody, so that the drop alone says nothing: it is tested against reference models, item by
item, and shown without a p where there are none. Items are not paired; images are dealt out whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from scipy import special

from heldout.detect.behaviour.compare import rate, test_record
from heldout.detect.behaviour.probe import (
    ORIGINAL,
    UNREAD,
    asked,
    none_readable,
    readable,
    unlike_templates,
    unread,
)
from heldout.detect.detector import DEKONINCK, Detector, Need
from heldout.detect.finding import NotRecorded, Outcome, direction_of, model_finding, not_testable
from heldout.detect.item_scores import (
    LEAST_OVERLAP,
    Mask,
    hardly_shared,
    set_contrast,
    unseen_items,
)
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ModelScores, ScoreTables, strata
from heldout.stats import Contrast, GroupTest, group_test, paired_test, stratum_overlap

NAME = "fresh-drop"
LACKING = NotRecorded("needs answers to the items as released: heldout ask")
NEEDS = NotRecorded(
    "needs items of the same kind that no model can have seen: name them with the setting unseen"
)
FEW = "fewer than 5 images of released, or of fresh items: too few to compare"
BLIND_TO = [
    "memory that does not raise accuracy",
    "fresh items of another kind, where models differ in how well they do each kind",
]


@dataclass(frozen=True)
class _Gap:
    """Accuracy on released less fresh items, and its test."""

    contrast: Contrast
    test: GroupTest

    def record(self, tested: bool = True) -> dict[str, Any]:
        p = self.test.test.p if tested else None
        interval = self.contrast.interval
        return {
            "value": self.contrast.value,
            "low": interval.low,
            "high": interval.high,
            "p": p,
            "direction": direction_of(p, self.contrast.value),
            "n": sum(self.contrast.n),
            "clusters": sum(self.contrast.clusters),
        }


@dataclass(frozen=True)
class _Comparison:
    """Models on the items that all of them answered: items × models, the suspected model first."""

    frame: pl.DataFrame
    right: Floats
    released: Mask
    settings: DetectSettings

    @property
    def clusters(self) -> list[str]:
        return self.frame["cluster"].to_list()

    def gap(self, values: Floats) -> _Gap | str:
        labels = strata(self.frame, self.settings.strata)
        if (overlap := stratum_overlap(self.released, labels)) < LEAST_OVERLAP:
            return hardly_shared(overlap, self.settings)
        contrast = set_contrast(values, self.released, self.clusters, labels, self.settings.seed)
        test = group_test(
            values,
            self.released,
            self.clusters,
            labels,
            permutations=self.settings.permutations,
            seed=self.settings.seed,
        )
        return FEW if contrast is None or test is None else _Gap(contrast, test)

    def ahead(self, references: Sequence[str], side: Mask) -> dict[str, Any]:
        """How much better than each reference the model answers the items of one side."""
        clusters = [cluster for cluster, kept in zip(self.clusters, side, strict=True) if kept]
        better = (self.right[:, :1] - self.right[:, 1:])[side]
        return {
            name: test_record(
                paired_test(
                    column,
                    clusters,
                    permutations=self.settings.permutations,
                    seed=self.settings.seed,
                )
            )
            for name, column in zip(references, better.T, strict=True)
        }

    def shares(self, values: Floats) -> dict[str, dict[str, float]]:
        sides = {"released": self.released, "fresh": ~self.released}
        return {
            name: rate(
                pl.Series(values[side]),
                [cluster for cluster, kept in zip(self.clusters, side, strict=True) if kept],
            )
            for name, side in sides.items()
        }


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        yield _outcome(tables, settings, model)


def _outcome(tables: ScoreTables, settings: DetectSettings, model: str) -> Outcome:
    everything = _original(tables, model)
    if everything.is_empty():
        return not_testable(NAME, tables.benchmark, model, LACKING)
    if settings.unseen is None:
        return not_testable(NAME, tables.benchmark, model, NEEDS)
    if readable(everything).is_empty():
        return not_testable(NAME, tables.benchmark, model, none_readable(everything))
    references, unusable = _references(tables, settings, model, everything)
    measured = _measured(tables, settings, [model, *references])
    if isinstance(measured, str):
        return not_testable(NAME, tables.benchmark, model, measured)
    compared, own, main, single, theirs = measured
    answered = [everything, *(_original(tables, name) for name in references)]
    lost = any(
        not answers.filter(pl.col("outcome").is_in(UNREAD)).is_empty() for answers in answered
    )
    other = _measured(tables, settings, [model, *references], leave_out=True) if lost else None
    shares = {
        name: compared.shares(column)
        for name, column in zip([model, *references], compared.right.T, strict=True)
    }
    effect = "accuracy on released less fresh items, within strata"
    return model_finding(
        NAME,
        tables.benchmark,
        model,
        unit="questions",
        statistic=(f"area under the curve over {main.test.unit}", main.test.auc),
        effect=(
            f"{effect}, minus that of the references" if references else effect,
            main.contrast.value,
            main.contrast.interval,
        ),
        error=main.contrast.error,
        p=main.test.test.p if references else None,
        n=len(compared.frame),
        clusters=len(set(compared.clusters)),
        blind_to=BLIND_TO,
        seed=settings.seed,
        table="answers",
        details={
            "p_tied": main.test.test.p_tied,
            "permutations": main.test.test.evaluated,
            "least_p": main.test.test.least,
            "test": "permutation of images"
            if references
            else "none: fresh items may be harder for a clean model, too",
            "shares": shares[model],
            "clusters_by_side": list(main.contrast.clusters),
            "expected": _expected(shares, model, references),
            "own": own.record(tested=False),
            "references": {name: gap.record() for name, gap in single.items()},
            "references_own": {name: gap.record(tested=False) for name, gap in theirs.items()},
            "references_right": {name: shares[name]["released"]["value"] for name in references},
            "references_ahead": compared.ahead(references, ~compared.released),
            "references_ahead_first": compared.ahead(references, compared.released),
            "forms": ["released items", "fresh items"],
            "references_unusable": unusable,
            "place_taken_out": None,
            "options": False,
            "unread": unread(everything),
            "replies": len(everything),
            "pairs": "items",
            "pairs_recorded": _recorded(tables, settings, [model, *references]),
            "missing_may_hide": _missing(tables, settings, [model, *references]),
            "without_unread": None
            if other is None
            else {"not_testable": other}
            if isinstance(other, str)
            else other[2].record(),
        },
    )


def _original(tables: ScoreTables, model: str, *, leave_out: bool = False) -> pl.DataFrame:
    return asked(tables, model, lambda name: name == ORIGINAL, leave_out=leave_out)


def _sides(tables: ScoreTables, settings: DetectSettings) -> list[dict[str, frozenset[str]]]:
    """Released and fresh items that each model of the run answered."""
    fresh = pl.Series(unseen_items(ModelScores("", tables.items), settings))
    sides = []
    for items in (tables.items.filter(~fresh), tables.items.filter(fresh)):
        known = frozenset(items["benchmark_id"])
        answered = {name: _original(tables, name)["benchmark_id"] for name in tables.answering}
        sides.append({name: known.intersection(rows) for name, rows in answered.items()})
    return sides


def _recorded(
    tables: ScoreTables, settings: DetectSettings, models: Sequence[str]
) -> dict[str, dict[str, int]]:
    """Of the items that any model of the run answered, on the side of which less is recorded: leaving out wrong
    answers to released items looks like memory, and so does leaving out right ones to fresh items, which may
    be few."""
    counts: dict[str, dict[str, int]] = {}
    for answered in _sides(tables, settings):
        possible = len(frozenset[str]().union(*answered.values()))
        for name in models:
            count = {"recorded": len(answered[name]), "possible": possible}
            known = counts.setdefault(name, count)
            if count["recorded"] * known["possible"] < known["recorded"] * possible:
                counts[name] = count
    return counts


def _missing(tables: ScoreTables, settings: DetectSettings, models: Sequence[str]) -> float:
    """What is not recorded may be right among released items, and wrong among fresh ones."""
    shares = 0.0
    for answered in _sides(tables, settings):
        possible = len(frozenset[str]().union(*answered.values()))
        compared = frozenset.intersection(*(answered[name] for name in models))
        shares += 1.0 - len(compared) / max(1, possible)
    return shares


def _references(
    tables: ScoreTables, settings: DetectSettings, model: str, mine: pl.DataFrame
) -> tuple[list[str], dict[str, str]]:
    usable, unusable = [], {}
    for name in settings.baselines:
        if name == model:
            continue
        theirs = _original(tables, name)
        if theirs.is_empty():
            unusable[name] = str(LACKING)
        elif readable(theirs).is_empty():
            unusable[name] = none_readable(theirs)
        elif unlike_templates(mine, theirs) is not None:
            unusable[name] = f"{name} was asked with another template"
        else:
            usable.append(name)
    return usable, unusable


def _measured(
    tables: ScoreTables, settings: DetectSettings, models: Sequence[str], *, leave_out: bool = False
) -> tuple[_Comparison, _Gap, _Gap, dict[str, _Gap], dict[str, _Gap]] | str:
    """The model's own gap, that above the references' average, that above each, and theirs."""
    columns = [
        _original(tables, name, leave_out=leave_out)
        .group_by("benchmark_id", maintain_order=True)
        .agg(pl.col("right").mean().alias(f"m{place}"))
        for place, name in enumerate(models)
    ]
    joined = reduce(lambda left, right: left.join(right, on="benchmark_id"), columns)
    frame = tables.items.join(joined, on="benchmark_id").sort("position")
    if frame.is_empty():
        return FEW
    right = np.stack([frame[f"m{place}"].to_numpy() for place in range(len(models))], axis=1)
    released = ~unseen_items(ModelScores(models[0], frame), settings)
    if released.all() or not released.any():
        return FEW
    compared = _Comparison(frame, right, released, settings)
    mine, others = right[:, 0], right[:, 1:]
    own = compared.gap(mine)
    if isinstance(own, str):
        return own
    above = mine - others.mean(1) if len(models) > 1 else mine
    main = compared.gap(above)
    if isinstance(main, str):
        return main
    single: dict[str, _Gap] = {}
    theirs: dict[str, _Gap] = {}
    for name, column in zip(models[1:], others.T, strict=True):
        for gaps, values in ((single, mine - column), (theirs, column)):
            gap = compared.gap(values)
            if isinstance(gap, str):
                return gap
            gaps[name] = gap
    return compared, own, main, single, theirs


def _expected(
    shares: dict[str, dict[str, dict[str, float]]], model: str, references: Sequence[str]
) -> float | None:
    """ConStat's question: the accuracy on released items that goes with this one on fresh items, as the
    references relate the two (their mean shift in log-odds)."""
    if not references:
        return None

    def odds(name: str, side: str) -> float:
        return float(special.logit(np.clip(shares[name][side]["value"], 0.01, 0.99)))

    shift = float(np.mean([odds(name, "released") - odds(name, "fresh") for name in references]))
    return float(special.expit(odds(model, "fresh") + shift))


DETECTOR = Detector(
    NAME,
    NAME,
    "released items against fresh ones: does accuracy drop more than that of clean models?",
    find,
    needs="answers",
    requires=frozenset({Need.UNSEEN}),
    variants=(ORIGINAL,),
    controls=("answers",),
    citations=(DEKONINCK,),
)
