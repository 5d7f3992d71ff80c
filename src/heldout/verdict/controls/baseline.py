"""External baselines: is the effect larger than in a model that cannot have seen the benchmark?

Never "the baseline has p > .05": a baseline that just misses is not clean. The difference itself is
tested, on the same items, shards or clusters, with the test the finding came from.
"""

from __future__ import annotations

from heldout.detect import DetectSettings, Difference, Finding, ScoreTables, detectors


def against_baseline(
    tables: ScoreTables, finding: Finding, baseline: str, settings: DetectSettings
) -> Difference | str:
    """The difference in differences for one finding, or the reason why there is none."""
    model = finding.cell.model or ""
    if baseline == model:
        return "this is the baseline itself"
    unlike = tables.comparable(model, baseline)
    if unlike is not None:
        return unlike
    detector = detectors().get(finding.detector)
    if detector is None or detector.against is None:
        return f"{finding.detector} has no comparison with a baseline"
    return detector.against(tables, model, baseline, settings)
