"""Where a tail lives: its rate in every stratum of every field that divides the benchmark.

A tail that lies in one kind of question is what that kind does to any confident model (the published one
lies in the closed questions of SLAKE, for a model that cannot have seen them, too). So the table says what
a stratum would have by chance and what the baselines have in it; it describes, and supports no claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.detect import tail_enrichment
from heldout.detect.cohort import cohort_delta, cohort_scores
from heldout.detect.finding import Finding
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import ScoreTables, covariates
from heldout.stats import (
    Interval,
    cluster_rate_interval,
    equal_sizes,
    expected_meeting,
    holm,
    meeting_test,
)

Marks = NDArray[np.bool_]


class TailStratum(NamedTuple):
    """``expected``: the rate if the tail fell on items whatever their stratum; p by cluster."""

    field: str
    stratum: str
    n: int
    clusters: int
    in_tail: int
    rate: float
    interval: Interval
    expected: float
    baselines: float | None  # the mean rate of the baselines in the same stratum
    p: float | None  # None where no exchange of items and clusters changes the count
    p_adjusted: float | None = None  # Holm over all strata of this model

    def as_json(self) -> dict[str, object]:
        """For findings: the interval as its ends."""
        ends = {"low": self.interval.low, "high": self.interval.high}
        return {**self._asdict(), **ends, "interval": self.interval.method}


def with_strata(
    findings: Sequence[Finding], tables: ScoreTables, settings: DetectSettings
) -> list[Finding]:
    """Findings of tail-enrichment with ``details["by_stratum"]``; others as they are."""
    tested = [finding for finding in findings if finding.detector == tail_enrichment.NAME]
    cohort = cohort_scores(tables, settings) if tested else "no tail was measured"
    if isinstance(cohort, str):
        return list(findings)
    _, clusters, scores, _ = cohort
    tails = cohort_delta(scores) > settings.tail
    fields, fine = covariates(tables.common(tables.models)[0].frame)
    rows = [tables.models.index(name) for name in settings.baselines if name in tables.models]

    def filled(finding: Finding) -> Finding:
        row = tables.models.index(str(finding.cell.model))
        others = [index for index in rows if index != row]
        where = tail_strata(
            tails[row],
            clusters,
            fields,
            baselines=tails[others] if others else None,
            settings=settings,
        )
        more = {"by_stratum": [each.as_json() for each in where], "fields_too_fine": fine}
        return finding.model_copy(update={"details": {**finding.details, **more}})

    return [filled(finding) if finding in tested else finding for finding in findings]


def tail_strata(
    tail: Marks,
    clusters: Sequence[str],
    fields: Mapping[str, Sequence[str]],
    *,
    baselines: Marks | None = None,
    settings: DetectSettings | None = None,
) -> list[TailStratum]:
    """Every stratum of every field; ``baselines`` are the same items' marks, one row per baseline."""
    chosen = settings or DetectSettings()
    classes = equal_sizes(clusters)
    rows = []
    known: dict[bytes, float | None] = {}  # two strata of one field have one test
    for field, labels in fields.items():
        names = np.asarray(labels)
        for label in sorted(set(labels)):
            members = names == label
            groups = [clusters[int(index)] for index in np.flatnonzero(members)]
            hits = tail[members]
            key = max(members.tobytes(), (~members).tobytes())
            if key not in known:
                met = meeting_test(
                    tail, members, clusters, permutations=chosen.permutations, seed=chosen.seed
                )
                known[key] = None if met.test is None else met.test.p
            rows.append(
                TailStratum(
                    field,
                    label,
                    len(hits),
                    len(set(groups)),
                    int(hits.sum()),
                    float(hits.mean()),
                    cluster_rate_interval(hits, groups),
                    expected_meeting(tail, members, classes) / len(hits),
                    None if baselines is None else float(baselines[:, members].mean()),
                    known[key],
                )
            )
    return _adjusted(rows)


def _adjusted(rows: Sequence[TailStratum]) -> list[TailStratum]:
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(holm(tested) if tested else [])
    return [row if row.p is None else row._replace(p_adjusted=next(adjusted)) for row in rows]
