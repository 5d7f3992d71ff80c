"""The study's two figures, as in the seed: R@1 around a circle, ROC with the operating points."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.lab.result import Study
from heldout.report.figures import Curve, OperatingPoint, radar_chart, roc_chart, standalone


def recall_radar(studies: Sequence[Study]) -> str:
    """One polygon per encoder, one more per cascade; axes are the transforms all of them share."""
    axes = [
        entry.name
        for entry in studies[0].transforms
        if all(any(e.name == entry.name for e in study.transforms) for study in studies)
    ]
    values: dict[str, list[float]] = {}
    for study in studies:
        entries = [study.measured(name) for name in axes]
        label = study_label(study, studies)
        values[label] = [entry.recall_at_1.value or 0.0 for entry in entries]
        if study.judge:
            values[f"{label} + {study.judge}"] = [
                (entry.verified.found.value or 0.0) if entry.verified else 0.0 for entry in entries
            ]
    return standalone(radar_chart(axes, values))


def roc_figure(study: Study) -> str:
    curves = [
        Curve(
            name, [p.fpr for p in points], [p.tpr for p in points], study.measured(name).auc.value
        )
        for name, points in study.roc.items()
    ]
    pooled = study.pools[0] if study.pools else study.measured("original")
    points = [
        OperatingPoint(point.threshold, point.fpr or 0.0, point.tpr.value or 0.0)
        for point in pooled.operating
    ]
    pairs = max((point.pairs for point in pooled.operating), default=1_000_000)
    return standalone(
        roc_chart(
            curves, points=points, smallest=1.0 / max(pairs, 10),
            title=f"{short_name(study)} on {study.collection}",
        )
    )  # fmt: skip


def study_label(study: Study, studies: Sequence[Study]) -> str:
    """The encoder, with whatever else tells the studies apart."""
    label = short_name(study)
    if len({other.encoder for other in studies}) > len({short_name(other) for other in studies}):
        label = study.encoder
    if len({other.views for other in studies}) > 1:
        label += f", {study.views} view{'s' if study.views > 1 else ''}"
    if len({other.side for other in studies}) > 1:
        label += f", {study.side} transformed"
    if len({other.collection for other in studies}) > 1:
        label += f" ({study.collection})"
    return label


def short_name(study: Study) -> str:
    """The encoder without its pre-processing, which its identity puts after a bar."""
    return study.encoder.split(" | ")[0]
