"""Predictions and a run in, impact out: which items take part, and what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heldout.cure.leaks import leaks_of
from heldout.detect.impact.findings import adjust_impacts, impact_findings
from heldout.detect.impact.impact import Impact, measure_impact
from heldout.detect.impact.predictions import NO_PREDICTION, Item, Predictions, read_predictions
from heldout.detect.impact.subsets import blocks
from heldout.errors import InputError
from heldout.store import Dropped, Run

IMPACT_VERSION = 2  # 2: leakage is copy, undecided, hard, soft or text; 1 called copies hard


@dataclass
class Study:
    benchmark: str
    seed: int
    impacts: list[Impact] = field(default_factory=list)
    dropped: dict[str, list[Dropped]] = field(default_factory=dict)  # by model
    call: dict[str, Any] = field(default_factory=dict)  # what was asked: files, metric, mapping

    def as_json(self) -> dict[str, Any]:
        findings = [
            f for one in self.impacts for f in impact_findings(one, self.benchmark, self.seed)
        ]
        return {
            "impact_version": IMPACT_VERSION,
            "benchmark": self.benchmark,
            "seed": self.seed,
            "call": self.call,
            "impacts": [impact.as_json() for impact in self.impacts],
            "findings": [finding.model_dump(mode="json") for finding in findings],
            "dropped": {
                model: [{"id": d.id, "reason": d.reason, "detail": d.detail} for d in dropped]
                for model, dropped in self.dropped.items()
            },
        }  # fmt: skip


def study_impact(
    run: Run,
    files: Sequence[Path],
    *,
    metric: str | None = None,
    mapping: Mapping[str, str] | None = None,
    baseline: Path | None = None,
    seed: int = 0,
) -> Study:
    """One impact per model; with ``baseline``, of the difference to a model that cannot have seen it."""
    known = run.manifest()["inputs"].get("benchmark")
    if known is None or not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    table = run.read_table("items").to_pylist()
    items = {row["benchmark_id"]: Item(row["answer"], tuple(row["options"] or ())) for row in table}
    leaks = leaks_of(run)
    control = _control(baseline, items, metric, mapping)
    study = Study(known["name"], seed)
    study.call = {
        "predictions": [str(path.resolve()) for path in files],
        "baseline": str(baseline.resolve()) if baseline is not None else None,
        "metric": metric,
        "map": dict(sorted((mapping or {}).items())),
        "seed": seed,
    }
    for path in files:
        for model in read_predictions(path, items, metric=metric, mapping=mapping):
            if model.model in study.dropped:
                raise InputError(
                    f"two files hold predictions of '{model.model}': rename one, or name the models "
                    f"in a column 'model'"
                )
            if control is not None:
                _subtract(model, control)
            rows = _taking_part(table, model, leaks)
            identifiers = [row["benchmark_id"] for row in rows]
            values = {
                name: np.array([measured[one] for one in identifiers])
                for name, measured in model.measures.items()
            }
            clusters = [row["cluster"] for row in rows]
            study.impacts.append(measure_impact(
                model.model, model.metric, values, clusters, blocks(identifiers, leaks),
                difference=control is not None, seed=seed,
            ))  # fmt: skip
            study.dropped[model.model] = model.dropped
    adjust_impacts(study.impacts)
    return study


def _taking_part(
    table: Sequence[Mapping[str, Any]], model: Predictions, leaks: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Items with a prediction, of which it is known whether they leaked."""
    measured = next(iter(model.measures.values()))
    refused = {drop.id for drop in model.dropped}
    rows = []
    for row in table:
        identifier = row["benchmark_id"]
        if identifier not in measured:
            if identifier not in refused:
                detail = "the file has no row for this item"
                model.dropped.append(Dropped("impact", identifier, NO_PREDICTION, detail))
        elif "" in row["image_digests"] and identifier not in leaks:
            detail = "an image was missing, unreadable or flat: nobody knows whether it leaked"
            model.dropped.append(Dropped("impact", identifier, "image not compared", detail))
        else:
            rows.append(row)
    if not rows:
        raise InputError(
            f"{model.model}: no item has both a prediction and an image that was compared"
        )
    return rows


def _control(
    path: Path | None, items: Mapping[str, Item], metric: str | None, mapping: Mapping[str, str] | None
) -> Predictions | None:  # fmt: skip
    if path is None:
        return None
    found = read_predictions(path, items, metric=metric, mapping=mapping)
    if len(found) > 1:
        names = ", ".join(one.model for one in found)
        raise InputError(f"--baseline {path}: expected one model, found {names}")
    return found[0]


def _subtract(model: Predictions, control: Predictions) -> None:
    """Measures less the baseline's on the same item; what the baseline lacks is dropped."""
    if set(model.measures) != set(control.measures):
        raise InputError(
            f"the baseline is measured by {', '.join(control.measures)}, {model.model} by "
            f"{', '.join(model.measures)}: choose one with --metric"
        )
    lost: set[str] = set()
    for name, measured in model.measures.items():
        other = control.measures[name]
        lost |= set(measured) - set(other)
        model.measures[name] = {
            one: value - other[one] for one, value in measured.items() if one in other
        }
    for identifier in sorted(lost):
        detail = f"{control.model} has no prediction for it"
        model.dropped.append(Dropped("impact", identifier, "no baseline", detail))
    model.model = f"{model.model} - {control.model}"
    if not all(model.measures.values()):
        raise InputError(f"{model.model}: the two have no item in common")
