"""Calibration: the measured neighbours of one benchmark and corpus, turned into thresholds and rates.

Recomputed from the run's tables alone: the table *nearest* holds what was measured, the manifest how.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from heldout.overlap.nearness._studies import joined
from heldout.overlap.nearness.matrices import HubReport, hub_report
from heldout.overlap.nearness.nearest import COPY_ROLE, Domain, Null, mean_group, recorded_null
from heldout.overlap.nearness.threshold import (
    ALPHAS,
    ControlSample,
    FlagRate,
    Sweep,
    SweepPoint,
    Threshold,
    alpha_sweep,
    degrees_of,
    negative_control,
    threshold,
)
from heldout.stats import RESOLVED, draws_needed

# How near a set of pictures comes to the corpus: its nearest similarities in five numbers.


AT = (0.0, 0.05, 0.5, 0.95, 1.0)


class Quantiles(NamedTuple):
    """Nearest cosine similarities; 1 less them are the distances of published tables."""

    min: float
    p5: float
    median: float
    p95: float
    max: float


def quantiles_of(similarities: ArrayLike) -> Quantiles | None:
    """None where there is no picture."""
    values = np.asarray(similarities, dtype=np.float64)
    return Quantiles(*map(float, np.quantile(values, AT))) if len(values) else None


@dataclass(frozen=True, eq=False)
class NearestPictures:
    """The nearest corpus picture of every picture of one set."""

    pictures: list[str]
    neighbours: list[str]
    similarities: NDArray[np.float64]
    related: list[str]  # pictures that are near for one reason have one label

    @classmethod
    def of(cls, rows: pl.DataFrame) -> NearestPictures:
        values = rows["similarity"].to_numpy().astype(np.float64)
        pictures, neighbours = rows["picture"].to_list(), rows["neighbour"].to_list()
        return cls(pictures, neighbours, values, rows["related"].to_list())

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def quantiles(self) -> Quantiles | None:
        return quantiles_of(self.similarities)


@dataclass(frozen=True, eq=False)
class ControlRun:
    """One negative control: at the chosen α, and along the sweep for the figure."""

    name: str
    domain: Domain
    nearest: NearestPictures
    points: tuple[ControlSample, ...]
    at_alpha: ControlSample | None


@dataclass(frozen=True, eq=False)
class Calibration:
    corpus: str
    encoder: str
    first: bool  # by the encoder that candidates were searched with
    asked: float  # the α that was asked for
    benchmark: NearestPictures
    clusters: dict[str, str]  # per picture
    null: Null | None
    tau: Threshold | None  # at ``asked``, or at the smallest α this null resolves
    sweep: Sweep
    controls: tuple[ControlRun, ...]
    hubs: HubReport | None
    design_effect: float  # of the benchmark's own pictures: how many are near for one reason
    copies: (
        NearestPictures  # light copies of the benchmark's pictures, and how near they lie to them
    )
    problem: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The corpus, and the encoder where it is not the search's own."""
        return self.corpus if self.first else f"{self.corpus}/{self.encoder.split(' |')[0]}"

    @property
    def resolves(self) -> float | None:
        """The smallest α this null could tell."""
        if self.null is None or not len(self.null):
            return None
        return RESOLVED * self.null.design_effect / len(self.null)

    @property
    def copies_seen(self) -> int | None:
        """How many light copies τ would flag; None where none were measured."""
        if self.tau is None or not len(self.copies):
            return None
        return int(self.tau.flags(self.copies.similarities, encoder=self.encoder).sum())

    def flagged(self) -> set[str]:
        if self.tau is None:
            return set()
        hit = self.tau.flags(self.benchmark.similarities, encoder=self.encoder)
        return {
            picture for picture, is_hit in zip(self.benchmark.pictures, hit, strict=True) if is_hit
        }


def calibrations(
    items: pl.DataFrame, nearest: pl.DataFrame, facts: Mapping[str, Any]
) -> list[Calibration]:
    """One per corpus and encoder of the manifest; ``items`` and ``nearest`` are the run's tables."""
    results: list[Calibration] = []
    for fact in facts.values():
        of_fact = (pl.col("corpus") == fact["corpus"]) & (pl.col("encoder") == fact["encoder"])
        first = not any(other.corpus == fact["corpus"] for other in results)
        results.append(_calibration(items, nearest.filter(of_fact), fact, first))
    return results


def _calibration(
    items: pl.DataFrame, rows: pl.DataFrame, facts: Mapping[str, Any], first: bool
) -> Calibration:
    encoder, asked = str(facts["encoder"]), float(facts["alpha"])
    benchmark = NearestPictures.of(rows.filter(pl.col("role") == "benchmark"))
    clusters = _picture_clusters(items)
    null, problem = _null(rows.filter(pl.col("role") == "null"), facts)
    own = [clusters.get(picture, picture) for picture in benchmark.pictures]
    spread = mean_group(joined(benchmark.related, own).tolist())
    tau = _threshold(null, asked)
    sweep = Sweep((), ())
    if null is not None and len(benchmark):
        sweep = _sweep(null, asked, items, benchmark, clusters, spread)
    elif not problem:
        problem = "no picture of the benchmark could be embedded"
    if null is not None and tau is None:
        problem = _too_small(null, asked)
    return Calibration(
        corpus=str(facts["corpus"]),
        encoder=encoder,
        first=first,
        asked=asked,
        benchmark=benchmark,
        clusters=clusters,
        null=null,
        tau=tau if len(benchmark) else None,
        sweep=sweep,
        controls=tuple(
            _control(rows, control, encoder, tau, sweep) for control in facts["controls"]
        ),
        hubs=_hubs(benchmark, int(facts["corpus_pictures"])),
        design_effect=spread,
        copies=NearestPictures.of(rows.filter(pl.col("role") == COPY_ROLE)),
        problem=problem,
        notes=_notes(null, tau, asked, facts.get("counts", {})),
    )


def _null(rows: pl.DataFrame, facts: Mapping[str, Any]) -> tuple[Null | None, str]:
    nearest, null_facts = NearestPictures.of(rows), facts["null"]
    counts = facts.get("counts", {})
    if not len(nearest):
        return None, str(facts["problem"]) or f"the null has no pictures: {null_facts['source']}"
    null = recorded_null(
        nearest.similarities,
        nearest.related,
        encoder=str(facts["encoder"]),
        source=str(null_facts["source"]),
        duplicates=float(null_facts["duplicates"]),
        copies=int(counts.get("null_copies", 0)),
        searched=int(counts.get("null_searched", 0)),
        seed=int(null_facts["seed"]),
    )
    return null, ""


def _threshold(null: Null | None, asked: float) -> Threshold | None:
    """τ at the α that was asked for; the null alone decides whether a larger one takes its place."""
    if null is None:
        return None
    for alpha in sorted({asked, *(level for level in ALPHAS if level > asked)}):
        if len(null) >= draws_needed(alpha, null.design_effect):
            return threshold(null, alpha)
    return None


def _sweep(
    null: Null,
    asked: float,
    items: pl.DataFrame,
    benchmark: NearestPictures,
    clusters: Mapping[str, str],
    spread: float,
) -> Sweep:
    questions, groups = _questions(items, benchmark)
    return alpha_sweep(
        null,
        benchmark.similarities,
        encoder=null.encoder,
        questions=questions,
        clusters=groups,
        image_clusters=[clusters.get(picture, picture) for picture in benchmark.pictures],
        design_effect=spread,
        alphas=sorted({asked, *ALPHAS}),
    )


def _questions(items: pl.DataFrame, benchmark: NearestPictures) -> tuple[list[float], list[str]]:
    """The largest similarity among a question's pictures, where all of them were measured."""
    known = dict(zip(benchmark.pictures, benchmark.similarities.tolist(), strict=True))
    values, groups = [], []
    for digests, cluster in items.select("image_digests", "cluster").iter_rows():
        if digests and all(digest in known for digest in digests):
            values.append(max(known[digest] for digest in digests))
            groups.append(cluster)
    return values, groups


def _picture_clusters(items: pl.DataFrame) -> dict[str, str]:
    shown = (
        items.select("cluster", pl.col("image_digests").alias("digest"))
        .explode("digest")
        .filter(pl.col("digest").is_not_null() & (pl.col("digest") != ""))
        .unique("digest", keep="first", maintain_order=True)
    )
    return dict(zip(shown["digest"].to_list(), shown["cluster"].to_list(), strict=True))


def _control(
    rows: pl.DataFrame,
    facts: Mapping[str, Any],
    encoder: str,
    tau: Threshold | None,
    sweep: Sweep,
) -> ControlRun:
    name, domain = facts["name"], facts["domain"]
    of_control = (pl.col("role") == "control") & (pl.col("name") == name)
    nearest = NearestPictures.of(rows.filter(of_control))

    def at(tau: Threshold) -> ControlSample:
        return negative_control(
            name, domain, tau, nearest.similarities, encoder=encoder, related=nearest.related
        )

    points = tuple(at(point.threshold) for point in sweep.points) if len(nearest) else ()
    return ControlRun(name, domain, nearest, points, at(tau) if tau and len(nearest) else None)


def _hubs(benchmark: NearestPictures, corpus_pictures: int) -> HubReport | None:
    if not len(benchmark):
        return None
    least = max(corpus_pictures, len(set(benchmark.neighbours)))
    return hub_report(
        benchmark.pictures, benchmark.neighbours, benchmark.similarities, corpus_items=least
    )


def _too_small(null: Null, asked: float) -> str:
    needed = draws_needed(max(asked, ALPHAS[-1]), null.design_effect)
    return (
        f"the null has {len(null):,} pictures and resolves no α below "
        f"{RESOLVED * null.design_effect / len(null):.2g}; α = {max(asked, ALPHAS[-1]):.2g} needs "
        f"{needed:,}: give a larger reference set with the setting null"
    )


def _notes(
    null: Null | None, tau: Threshold | None, asked: float, counts: Mapping[str, int]
) -> list[str]:
    """What a reader must know before trusting τ."""
    notes: list[str] = []
    if null is None:
        return notes
    if studies := counts.get("null_studies", 0):
        notes.append(
            f"pictures of one study, patient or volume count once: the comparison has one of each "
            f"({studies:,} are named)"
        )
    if tau is not None and tau.alpha != asked:
        needed = draws_needed(asked, null.design_effect)
        notes.append(
            f"with {len(null):,} comparison pictures α cannot be smaller than {tau.alpha:.2g}; α = {asked:g} "
            f"would need {needed:,}. Pictures that are related count as one: "
            f"{null.design_effect:.1f} pictures on average"
        )
    known = degrees_of(null.encoder)
    if known is not None and tau is not None and tau.value >= known.soft:
        notes.append(
            f"τ = {tau.value:.4f} lies above the soft degree ({known.soft:g}): the null's own "
            f"pictures are nearly copies of each other (slices of one study, re-saved figures), so "
            f"that little can be flagged; calibrate on a reference set with the setting null"
        )
    return notes


# Calibrations as JSON: every number of the report's figures and tables, for scripts.


SCHEMA_VERSION = 1


def calibration_record(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "calibrations": [_one(calibration) for calibration in calibrations],
    }


def _one(calibration: Calibration) -> dict[str, Any]:
    return {
        "corpus": calibration.corpus,
        "encoder": calibration.encoder,
        "alpha_asked": calibration.asked,
        "problem": calibration.problem or None,
        "notes": calibration.notes,
        "null": None
        if calibration.null is None
        else _null_record(calibration.null, calibration.resolves),
        "threshold": None if calibration.tau is None else calibration.tau.record(),
        "benchmark": {
            "images": len(calibration.benchmark),
            "design_effect": calibration.design_effect,
            "similarity": _quantiles(calibration.benchmark.quantiles),
        },
        "flagged": sorted(calibration.flagged()),
        "sweep": [_point(point) for point in calibration.sweep.points],
        "unresolved": [
            {"alpha": alpha, "null_needed": needed}
            for alpha, needed in calibration.sweep.unresolved
        ],
        "controls": [_control_record(control) for control in calibration.controls],
        "hubs": None if calibration.hubs is None else _hubs_record(calibration.hubs),
    }


def _null_record(null: Null, resolves: float | None) -> dict[str, Any]:
    return {
        "source": null.source,
        "images": len(null),
        "copies_taken_out": null.copies,
        "searched": null.searched,
        "similarity": _quantiles(quantiles_of(null.similarities)),
        "duplicates_from": null.duplicates,
        "design_effect": null.design_effect,
        "smallest_alpha": resolves,
        "seed": null.seed,
    }


def _quantiles(quantiles: Quantiles | None) -> dict[str, float] | None:
    return None if quantiles is None else quantiles._asdict()


def _point(point: SweepPoint) -> dict[str, Any]:
    return {
        "alpha": point.threshold.alpha,
        "tau": point.threshold.value,
        "tau_interval": point.threshold.interval._asdict(),
        "images": _rate(point.images),
        "questions": None if point.questions is None else _rate(point.questions),
        "images_at_ends_of_tau": list(point.images_at_ends),
        "p": point.p,
    }


def _rate(rate: FlagRate) -> dict[str, Any]:
    return {
        "flagged": rate.flagged,
        "n": rate.n,
        "rate": rate.value,
        **rate.interval._asdict(),
    }


def _control_record(control_run: ControlRun) -> dict[str, Any]:
    return {
        "name": control_run.name,
        "domain": control_run.domain,
        "images": len(control_run.nearest),
        "similarity": _quantiles(control_run.nearest.quantiles),
        "at_alpha": None if control_run.at_alpha is None else _control_point(control_run.at_alpha),
        "sweep": [_control_point(point) for point in control_run.points],
    }


def _control_point(point: ControlSample) -> dict[str, Any]:
    return {
        "alpha": point.alpha,
        "images": _rate(point.images),
        "p": point.p,
        "fires": point.fires,
    }


def _hubs_record(report: HubReport) -> dict[str, Any]:
    return {
        "images": report.images,
        "corpus_pictures": report.corpus_items,
        "attracting": report.attracting,
        "attracting_expected": report.attracting_expected,
        "share_of_images_at_hubs": report.share,
        "hubs": [
            {
                "corpus_id": hub.corpus_id,
                "images": list(hub.images),
                "count": hub.count,
                "expected": hub.expected,
                "p": hub.p,
                "p_adjusted": hub.p_adjusted,
                "similarity": hub.similarity,
            }
            for hub in report.hubs
        ],
    }
