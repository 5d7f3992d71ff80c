"""The page's sections on models: how each was scored, which self-checks it failed, what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from heldout.detect import (
    EASIEST,
    LOSS,
    MIN_K_PLUS_PLUS,
    DetectSettings,
    ScoreTables,
    cohort_delta,
    cohort_scores,
    joint_shards,
    shard_gains,
    strata,
    tail_enrichment,
)
from heldout.report.figures import Slope, Strip, heat_map, null_strips, slope_chart, tail_chart
from heldout.stats import aligned_ranks, block_means, product_design
from heldout.store import Run, file_name
from heldout.verdict import LAB_KINDS, MeasuredRate

_SHOWN = ("backend", "model", "revision", "dtype", "template", "server", "source")


def model_sections(run: Run) -> list[dict[str, Any]]:
    """One section per model of the run, also before `heldout detect`."""
    manifest = run.manifest()
    detected = run.read_json("detections.json") if (run.path / "detections.json").exists() else {}
    sections = [
        {
            "name": name,
            "identity": {key: known[key] for key in _SHOWN if known.get(key)},
            "remarks": known.get("remarks") or [],
            "parity": (known.get("parity") or {}).get("reason"),
            "checks": detected.get("self_checks", {}).get(name) or known.get("self_checks") or [],
            "detected": bool(detected),
            "claims": _of(detected.get("claims", ()), name),
            "findings": _of(detected.get("findings", ()), name),
            "untested": _reasons(_of(detected.get("not_testable", ()), name)),
            "orders": detected.get("orders", {}).get(name, []),
            "tails": _tail_strata(_of(detected.get("findings", ()), name)),
            "easiest": _easiest(detected.get("easiest_items", ()), name),
            "hits": [hit for hit in detected.get("triple_hits", ()) if hit["model"] == name],
            "baselines": detected.get("baselines", []),
        }
        for name, known in sorted(manifest.get("models", {}).items())
    ]
    sections.sort(
        key=lambda record: bool(record["detected"]) and not record["claims"]
    )  # comparisons come last
    shown: set[str] = set()
    for section in sections:
        # A claim about two models stands under both, and has one place to be linked to.
        section["elsewhere"] = {
            n for n, claim in enumerate(section["claims"]) if claim["id"] in shown
        }
        shown |= {claim["id"] for claim in section["claims"]}
    return sections


def tried_models(run: Run) -> list[str]:
    """Models that were to be tested: all that the detectors were given, but for the baselines."""
    if not (run.path / "detections.json").exists():
        return []
    detected = run.read_json("detections.json")
    return [model for model in detected.get("models", ()) if model not in detected["baselines"]]


def measured_rates(run: Run) -> Mapping[str, Any]:
    """How often this run's detectors fire on models whose contamination is known; empty if not measured."""
    if not (run.path / "detections.json").exists():
        return {}
    kept: Mapping[str, Any] = run.read_json("detections.json").get("measured_rates") or {}
    ways: dict[str, dict[str, Any]] = {}
    for rate in kept.get("rates", ()):
        places = MeasuredRate.model_validate(rate).off_in
        off_in = {LAB_KINDS.get(name, name): fired for name, fired in places.items()}
        ways.setdefault(rate["detector"], {})[rate["way"]] = {**rate, "off_in": off_in}
    return {**kept, "detectors": ways} if kept else {}


def _tail_strata(findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where a model's tail lies, field by field; empty where no tail was measured."""
    finding = next(
        (record for record in findings if record["detector"] == tail_enrichment.NAME), None
    )
    rows = finding["details"].get("by_stratum", ()) if finding is not None else ()
    fields: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        fields.setdefault(row["field"], []).append(row)
    if finding is None or not fields:
        return {}
    fine = finding["details"].get("fields_too_fine", {})
    return {"what": finding["effect"]["name"], "fields": fields, "fine": fine}


def _easiest(entries: Sequence[Mapping[str, Any]], model: str) -> dict[str, Any]:
    """The ten that people look at, by Δ where there is a cohort, and every top set by its ids."""
    mine = [entry for entry in entries if entry["model"] == model]
    if not mine:
        return {}
    wanted = (f"Δ of {MIN_K_PLUS_PLUS.name}", f"Δ of {LOSS.name}", MIN_K_PLUS_PLUS.name, LOSS.name)
    by_score = {record["score"]: record for record in mine}
    ten = next((by_score[score] for score in wanted if score in by_score), mine[0])
    return {"ten": ten, "shown": ten["items"][:EASIEST], "sets": mine}


def _of(entries: Any, model: str) -> list[Mapping[str, Any]]:
    """Findings of this model alone, or of a pair that includes it."""
    return [entry for entry in entries if model in (entry["cell"]["model"] or "").split(" & ")]


def _reasons(untested: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Detectors by the reason they share, in the order they were asked."""
    reasons: dict[str, list[str]] = {}
    for record in untested:
        reasons.setdefault(record["reason"], []).append(record["detector"])
    return reasons


# Figures of what models scored and answered, drawn again from the run's tables and findings.


DRAWN = 4_000  # shuffles behind a grey strip: enough to see its shape
_MOST = 12  # models in one figure
Found = Mapping[str, Any]


class Figure(NamedTuple):
    name: str  # of the file, without its ending
    drawn: Markup
    caption: str


def model_figures(run: Run) -> list[Figure]:
    """Those for which the run holds the data; none before `heldout detect`."""
    if not (run.path / "detections.json").exists():
        return []
    findings = run.read_json("detections.json")["findings"]
    by_detector: dict[str, list[Found]] = {}
    for finding in findings:
        by_detector.setdefault(finding["detector"], []).append(finding)
    tables = ScoreTables.load(run)
    figures = (
        _order_joint(tables, by_detector.get("order-joint", [])),
        _order_trend(tables, by_detector.get("order-trend", [])),
        _tails(tables, by_detector.get("tail-enrichment", [])),
        _jaccard(by_detector.get("top-k-overlap", [])),
        *_twins(by_detector.get("twin-drop", [])),
        *_margins(by_detector.get("twin-margin", [])),
    )
    return [figure for figure in figures if figure is not None]


def _order_joint(tables: ScoreTables, findings: Sequence[Found]) -> Figure | None:
    if tables.order_joint is None or not findings:
        return None
    strips = []
    for finding in findings[:_MOST]:
        shards = joint_shards(tables.order_joint, finding["cell"]["model"])
        rng = np.random.default_rng(finding["seed"])
        gains = np.zeros(DRAWN)
        for shard in shards:
            # Under the null, any order of a shard might have been the released one.
            chosen = rng.integers(0, len(shard), DRAWN)
            others = (shard.sum() - shard) / (len(shard) - 1)
            gains += (shard - others)[chosen] / len(shards)
        observed = float(shard_gains(shards).mean())
        strips.append(Strip(finding["cell"]["model"], observed, gains, finding["p"]))
    drawn = null_strips(
        strips,
        title="Released order against shuffled ones",
        label="gain of the released order, nats per shard",
    )
    message = (
        "Grey: what any other order of the same shards, taken for the released one, would have gained. "
        "Structure of the release can move the dot, too: that is what baselines are for."
    )
    return Figure("order-joint", drawn, message)


def _order_trend(tables: ScoreTables, findings: Sequence[Found]) -> Figure | None:
    strips = []
    for finding in findings[:_MOST]:
        scored = tables.scored(finding["cell"]["model"])
        labels = strata(scored.frame, tuple(finding["details"]["strata"]))
        means, _ = block_means(aligned_ranks(scored.means, labels), scored.clusters)
        null = _correlations(means, finding["seed"])
        strips.append(
            Strip(finding["cell"]["model"], finding["statistic"]["value"], null, finding["p"])
        )
    if not strips:
        return None
    drawn = null_strips(
        strips,
        title="Scores along the released order",
        label="rank correlation with earliness; right of 0: earlier items are likelier",
    )
    message = "Grey: the same clusters dealt out to random places. p before correction."
    return Figure("order-trend", drawn, message)


def _correlations(means: NDArray[np.float64], seed: int | None) -> NDArray[np.float64]:
    x = means - means.mean()
    y = np.linspace(1.0, -1.0, len(means))
    design = product_design(x, y, lambda array, rng: array[rng.permutation(len(array))])
    floats = design(DRAWN, np.random.default_rng(seed))
    return np.asarray(floats / (np.linalg.norm(x) * np.linalg.norm(y)), dtype=np.float64)


def _tails(tables: ScoreTables, findings: Sequence[Found]) -> Figure | None:
    cohort = cohort_scores(tables, DetectSettings()) if findings else "nobody asked"
    if isinstance(cohort, str):
        return None
    _, _, scores, which = cohort
    tail = float(findings[0]["effect"]["name"].rsplit(" ", 1)[1])
    drawn = tail_chart(
        tables.models[:_MOST],
        cohort_delta(scores)[:_MOST],
        tail=tail,
        flag=DetectSettings().flag,
        title="Share of items far above the cohort's median",
    )
    message = (
        f"Δ of {which}: an item's score minus the median of the other models. A cohort is not a control: "
        "a better calibrated model has such a tail without having seen anything."
    )
    return Figure("delta-tails", drawn, message)


def _jaccard(findings: Sequence[Found]) -> Figure | None:
    values = {
        tuple(finding["details"]["models"]): finding["details"]["jaccard"] for finding in findings
    }
    names = sorted({name for pair in values for name in pair})[:_MOST]
    if len(names) < 2:
        return None
    cells = [
        [values.get((row, column), values.get((column, row))) for column in names] for row in names
    ]
    k = findings[0]["details"]["k"]
    drawn = heat_map(
        names,
        names,
        cells,
        tone="soft",
        title=f"Which {k} items are easiest: Jaccard of two models",
        row_label="model",
        column_label="model",
        written=lambda value: f"{value:.2f}",
        missing="–",
    )
    message = "Some items are easy for all models: compare pairs with and without a baseline."
    return Figure("jaccard", drawn, message)


def _twins(findings: Sequence[Found]) -> Iterator[Figure]:
    """Accuracy, one figure per set of twins."""
    for twin, mine in _by_twins(findings, "accuracy").items():
        first = next(iter(mine[0]["details"]["accuracy"]))
        drawn = slope_chart(
            _slopes(mine, "accuracy"), ends=(first, twin), title=f"Accuracy: {first} and {twin}"
        )
        message = (
            "A twin asks the same question about a changed picture, on which another answer is right. Beside each "
            "name: by how many percentage points its accuracy drops from original to twin. Twins may be easier or "
            "harder for every model, so what counts is a larger drop than that of the clean ones: such a model "
            f"remembers the old answer.{_above_references(mine)} Counted are the {_counted(mine)} items with a "
            "twin, so these shares differ from scores on all items."
        )
        yield Figure(f"slopes-{file_name(twin)}", drawn, message)


def _margins(findings: Sequence[Found]) -> Iterator[Figure]:
    """How much the right answer is preferred to the other picture's, one figure per set of twins."""
    for twin, mine in _by_twins(findings, "margin").items():
        first = next(iter(mine[0]["details"]["margin"]))
        drawn = slope_chart(
            _slopes(mine, "margin"),
            ends=(first, twin),
            title=f"The right answer against the other picture's: {first} and {twin}",
            label="preference for the right answer",
        )
        message = (
            "A twin asks the same question about a changed picture, on which another answer is right. Of these two "
            "answers, how much does a model prefer the right one? 100 %: it is sure, 50 %: it prefers neither. Skill "
            "raises both ends. Memory of the old answer raises the first and lowers the second, so what counts is a "
            f"larger drop than that of the clean models.{_above_references(mine)} Counted are the {_counted(mine)} "
            "items of which the probabilities of both answers were recorded."
        )
        yield Figure(f"margins-{file_name(twin)}", drawn, message)


def _by_twins(findings: Sequence[Found], rates: str) -> dict[str, list[Found]]:
    sets: dict[str, list[Found]] = {}
    for finding in findings:
        sets.setdefault(list(finding["details"][rates])[1], []).append(finding)
    return sets


def _counted(findings: Sequence[Found]) -> str:
    ends = (f"{end(finding['n'] for finding in findings):,}" for end in (min, max))
    return " to ".join(dict.fromkeys(ends))


def _above_references(findings: Sequence[Found]) -> str:
    """The same drops as tables and claims state them, where the references' is subtracted."""
    compared = [
        f"{finding['cell']['model']} " + f"{finding['effect']['value']:+.2f}".replace("-", "−")
        for finding in findings
        if finding["details"]["references"]
        and finding["cell"]["model"] not in finding["details"]["references"]
    ]
    if not compared:
        return ""
    return (
        f" {findings[0]['detector']} in tables and claims is that drop minus the clean models', as a share: "
        f"{', '.join(compared)}."
    )


def _slopes(findings: Sequence[Found], rates: str) -> list[Slope]:
    clean = {name for finding in findings for name in finding["details"]["references"]}
    slopes = []
    for finding in findings[:_MOST]:
        first, second = finding["details"][rates].values()
        slopes.append(
            Slope(
                finding["cell"]["model"],
                (first["value"], second["value"]),
                (first["low"], second["low"]),
                (first["high"], second["high"]),
                finding["cell"]["model"] in clean,
            )
        )
    return slopes
