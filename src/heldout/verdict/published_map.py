"""A published claims-to-evidence map, derived again from its own tables by our rules, and compared with it.

Only tables are read: where a rule needs more than was published, the control is missing and says so.
Claims made from per-item scores (``examined``, by benchmark and model) take the place of what tables allow.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heldout.detect import ALPHA, order_trend, tail_enrichment
from heldout.errors import InputError, percent
from heldout.stats import Interval, UpperQuantile, adjust, binomial_interval, excess_p, holm
from heldout.verdict._model_claims import BASELINE, FIRES_TOO, facts_of
from heldout.verdict._published import reread
from heldout.verdict.claim import Claim, Control, Status
from heldout.verdict.controls.lab_rates import on_clean_models, were_compared
from heldout.verdict.measured import RAW, REFERENCES, MeasuredRates, shipped_rates
from heldout.verdict.rules import COHORT, COPIES, NEARNESS, ORDER, Rule, decide, rule_id

BASELINES = ("Salesforce/blip2-opt-2.7b", "Salesforce/instructblip-vicuna-7b")
FLAG, LIFT = 0.05, 10.0  # the published criteria of detectors 3 and 4
#: VQA-RAD's flags stand in the text alone (its Table 1), per question
RADIOLOGY = {"image_nn": (22, 451), "image_nn_so400m": (4, 451)}


class Reading(NamedTuple):
    """One cell, read by our rules beside what was published about it."""

    kind: str
    benchmark: str
    on: str
    published: Status
    ours: Status
    rule: str
    why: str

    @property
    def agrees(self) -> bool:
        return self.published == self.ours

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "agrees": self.agrees}


def load(folder: Path, name: str) -> Any:
    """One of the published tables; a folder without it is not the audit's."""
    path = folder / name
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(
            f"{path} is not there: expected the folder of result tables that the controlled audit of "
            f"medical VLM benchmarks published (exchangeability_refined.json, image_nn/summary.json, …)"
        ) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}; copy the published file again") from None


def read_map(
    folder: Path,
    examined: Mapping[tuple[str, str], Claim] | None = None,
    rates: MeasuredRates | None = None,
) -> list[Reading]:
    """``rates`` cap these readings as they do claims of ours, and a reading that is capped says so."""
    known = rates or shipped_rates()
    return [
        *_orders(folder, examined or {}, known),
        *_tails(folder, known),
        *_tops(folder),
        *_synthetic(folder),
        *_nearness(folder),
        *_adjudicated(folder),
    ]


def _orders(
    folder: Path, examined: Mapping[tuple[str, str], Claim], rates: MeasuredRates
) -> Iterator[Reading]:
    cells = load(folder, "exchangeability_refined.json")["cells"]
    read = {
        (cell["benchmark"], cell["model"]): reread(cell["p_value"], int(cell["n_permutations"]))
        for cell in cells
    }
    claims = [key for key in read if key[1] not in BASELINES]
    corrected = adjust([read[key].p_two_sided for key in claims], "by")
    raw = {(cell["benchmark"], cell["model"]): cell for cell in cells}
    for (benchmark, model), q in zip(claims, corrected, strict=True):
        published = _published_order(raw[benchmark, model])
        if (claim := examined.get((benchmark, model))) is not None:
            yield Reading(ORDER, benchmark, model, published, claim.status, claim.rule, claim.why)
            continue
        reading = read[benchmark, model]
        controls = _order_controls(benchmark, read) if q <= ALPHA else []
        if controls and reading.direction == "earlier easier":
            controls += _capped(order_trend.NAME, controls, rates)
        facts = {
            "tested": True,
            "has a p": True,
            "fires": q <= ALPHA,
            "points to memory": reading.direction == "earlier easier",
            **facts_of(controls),
        }
        rule = decide(ORDER, facts)
        message = (
            f"two-sided p = {reading.p_two_sided:.2g} ({reading.direction}), corrected {q:.3g}"
        )
        why = "; ".join([message, *(control.reason for control in controls)])
        yield Reading(ORDER, benchmark, model, published, rule.status, rule_id(ORDER, rule), why)


def _published_order(cell: Mapping[str, Any]) -> Status:
    """The published reading: BH-significant survives, except the PathVQA hit that it calls an artefact."""
    if not cell["significant_at_0_05_bh"]:
        return "clean"
    return "re-attributed" if cell["benchmark"] == "pathvqa" else "survives"


def _order_controls(benchmark: str, read: Mapping[tuple[str, str], Any]) -> list[Control]:
    readings = []
    for baseline in BASELINES:
        reading = read.get((benchmark, baseline))
        if reading is None:
            continue
        name = f"{BASELINE} {baseline}"
        if reading.p_two_sided <= ALPHA:
            message = f"{baseline}, named as a model that cannot have seen it, {FIRES_TOO} "
            message += f"(two-sided p = {reading.p_two_sided:.2g}, "
            message += f"{reading.direction}): the release has an order of its own"
            readings.append(Control(name=name, outcome="failed", reason=message))
        else:
            message = (
                f"{baseline} has p = {reading.p_two_sided:.2g}, but the difference is what has to be tested, "
                f"and the per-item likelihoods were not published"
            )
            readings.append(Control(name=name, outcome="missing", reason=message))
    message = "the statistic is a trend over positions; no test that conditions on the items before"
    readings.append(Control(name="conditional order test", outcome="missing", reason=message))
    return readings


def _capped(detector: str, controls: Sequence[Control], rates: MeasuredRates) -> list[Control]:
    """Only what changes a reading: that a detector keeps its level elsewhere was not published here."""
    way = REFERENCES if were_compared(controls) else RAW
    return [
        control for control in on_clean_models(detector, way, rates) if control.outcome == "failed"
    ]


def _tails(folder: Path, rates: MeasuredRates) -> Iterator[Reading]:
    rows = load(folder, "tail_enrichment_table.json")
    tails = {(row["benchmark"], _slash(row["model"])): row["pr_delta_gt_100"] for row in rows}
    for (benchmark, model), tail in tails.items():
        if model in BASELINES or tail <= FLAG:
            continue
        theirs = {name: tails[benchmark, name] for name in BASELINES if (benchmark, name) in tails}
        controls = [
            Control(
                name=f"{BASELINE} {name}",
                outcome="failed" if other > FLAG else "passed",
                reason=f"the tail of {name} is {percent(other)}"
                + (f": it {FIRES_TOO}" if other > FLAG else ""),
            )
            for name, other in theirs.items()
        ]
        controls += _capped(tail_enrichment.NAME, controls, rates)
        yield _cohort(benchmark, model, f"tail of {percent(tail)}", controls)


def _tops(folder: Path) -> Iterator[Reading]:
    tables = load(folder, "topk_overlap.json")
    for benchmark, table in tables.items():
        pairs = [(_slash(p["a"]), _slash(p["b"]), p) for p in table["pairs"]]
        for first, second, pair in pairs:
            if {first, second} & set(BASELINES) or pair["lift_vs_chance"] < LIFT:
                continue
            with_it = [
                other
                for a, b, other in pairs
                if {a, b} & set(BASELINES) and {a, b} & {first, second}
            ]
            most = max(other["intersection"] for other in with_it)
            fired = any(other["lift_vs_chance"] >= LIFT for other in with_it)
            controls = [
                Control(
                    name=f"{BASELINE} {BASELINES[0]}",
                    outcome="failed" if fired else "passed",
                    reason=f"with {BASELINES[0]} up to {most} items in common"
                    + (f": it {FIRES_TOO}" if fired else ""),
                ),
                Control(
                    name="clusters",
                    outcome="missing",
                    reason="items share images, and a lift over independent items is no test",
                ),
            ]
            message = f"{pair['intersection']} of {table['K']} items in common"
            yield _cohort(benchmark, f"{first} & {second}", message, controls)


def _synthetic(folder: Path) -> Iterator[Reading]:
    """A cohort of clean models: every model that fires is a baseline that fires."""
    record = load(folder, "confound_simulation.json")
    clean = [row for row in record["parity"]["rows"] if not row["contaminated"]]
    flagged = [row for row in clean if row["flagged"]]
    chances = [row["false_positive_flag_prob"] for row in record["composition"]["sweep"]]
    message = f"{len(flagged)} of {len(clean)} models that saw nothing are flagged"
    controls = [
        Control(
            name=f"{BASELINE} {row['model']}",
            outcome="failed",
            reason=f"{row['model']} has a tail of {percent(row['pr_delta_gt_100'])}: it {FIRES_TOO}",
        )
        for row in flagged
        if "baseline" in row["model"]
    ]
    controls.append(
        Control(
            name="cohort composition",
            outcome="failed" if len(set(chances)) > 1 else "passed",
            reason="a clean probe is flagged with probability "
            + ", ".join(f"{chance:g}" for chance in chances)
            + f" beside 0 to {len(chances) - 1} low-gain models",
        )
    )
    yield _cohort("synthetic", "clean models of a cohort whose gains differ", message, controls)


def _cohort(benchmark: str, on: str, text: str, controls: Sequence[Control]) -> Reading:
    facts = {
        "tested": True,
        "has a p": False,
        "fires": True,
        "points to memory": True,
        **facts_of(controls),
    }
    rule = decide(COHORT, facts)
    why = "; ".join([text, *(control.reason for control in controls)])
    return Reading(COHORT, benchmark, on, "collapses", rule.status, rule_id(COHORT, rule), why)


class _Flags(NamedTuple):
    backbone: str
    benchmark: str
    flagged: int
    n: int
    alpha: float
    null: int

    @property
    def p(self) -> float:
        """Two-sided, of a threshold that is itself the rank-th largest of the null."""
        more = excess_p(self.flagged, self.n, self._threshold)
        fewer = 1.0 - excess_p(self.flagged + 1, self.n, self._threshold)
        return min(1.0, 2 * min(more, fewer))

    def needed(self, tests: int) -> int | None:
        """The smallest number of flags that is significant in the last place of Holm's order."""
        level = ALPHA / tests
        counts = range(int(self.alpha * self.n) + 1, self.n + 1)
        at = bisect.bisect(counts, -level, key=lambda k: -2 * excess_p(k, self.n, self._threshold))
        return counts[at] if at < len(counts) else None

    @property
    def _threshold(self) -> UpperQuantile:
        rank = max(1, int(self.alpha * (self.null + 1)))
        level = Interval(0.0, 0.0, 0.95, "of the threshold: not needed here")
        return UpperQuantile(0.0, level, rank, self.null)


def _nearness(folder: Path) -> Iterator[Reading]:
    """Holm over all flag rates; a control counted per question cannot pass for one per image."""
    cells = list(_flags(folder))
    for cell, p in zip(cells, holm([cell.p for cell in cells]), strict=True):
        rate, interval = cell.flagged / cell.n, binomial_interval(cell.flagged, cell.n)
        rises = p < ALPHA and rate > cell.alpha
        needed = cell.needed(len(cells))
        rule = decide(
            NEARNESS,
            {
                "the null resolves a threshold": needed is not None,
                "fewer flags than chance": p < ALPHA and rate < cell.alpha,
                "more flags than chance": rises,
                "copies were proven": False,  # people looked at what was flagged, and proved none
                "the interval holds the expected rate": interval.low <= cell.alpha <= interval.high,
                "light copies are flagged": True,  # not measured; assumed, as for runs without it
                "more than chance without copies": rises,
                "a control is flagged as much": False,
                "the in-domain control passed": False,
            },
        )
        message = (
            f"{cell.flagged} of {cell.n:,} flagged at α = {cell.alpha:g}, {cell.alpha * cell.n:.1f} "
            f"expected (p = {p:.2g}, Holm over {len(cells)})"
        )
        if not rises and needed is not None:
            message += f"; {needed:,} would have been more than chance"
        why = f"{message}: {_because(cell, rises, rule)}"
        published: Status = "survives" if cell.benchmark == "slake_en" else "clean"
        on = f"{cell.backbone} at {cell.alpha:g}"
        status = rule.status
        yield Reading(NEARNESS, cell.benchmark, on, published, status, rule_id(NEARNESS, rule), why)


def _because(cell: _Flags, rises: bool, rule: Rule) -> str:
    if not rises and rule.status == "clean":
        return "no more than chance; whether copies would have been flagged was not measured"
    if not rises:
        return f"{rule.reason} (and what is counted are questions)"
    if cell.benchmark == "vqa_rad":
        return "the threshold is too low for radiographs, and the clean reference fires"
    flagged, questions = RADIOLOGY[cell.backbone]
    return (
        f"{rule.reason}; VQA-RAD is counted per question ({flagged} of {questions}), and questions share "
        f"images: a rate per image is not to be compared with it"
    )


def _flags(folder: Path) -> Iterator[_Flags]:
    for backbone, control in RADIOLOGY.items():
        record = load(folder, f"{backbone}/summary.json")
        null, alpha = int(record["null_quantiles"]["n_null"]), float(record["alpha"])
        for benchmark in record["benchmarks"]:
            flagged, n = benchmark["n_images_flagged"], benchmark["n_images"]
            yield _Flags(backbone, benchmark["benchmark"], flagged, n, alpha, null)
        yield _Flags(backbone, "vqa_rad", *control, alpha, null)
        # "Robust across two orders of magnitude of α": the strictest of the published sweep.
        sweep = load(folder, f"{backbone}/alpha_sweep.json")["sweep"]
        strict = min(sweep, key=lambda row: row["alpha"])
        flagged, n = strict["slake_en__img_flag"], strict["slake_en__n_img"]
        yield _Flags(backbone, "slake_en", flagged, n, float(strict["alpha"]), null)


def _adjudicated(folder: Path) -> Iterator[Reading]:
    """People looked at every flagged pair: none was proven a copy, one stayed undecided."""
    pairs = len(load(folder, "adjudication/manifest.json"))
    facts = {
        "both sides have pictures": True,
        "pictures were compared": True,
        "a copy was proven": False,
        "all was read": False,
        "one rater alone dismissed pairs": False,
        "every pair was decided": False,
    }
    rule = decide(COPIES, facts)
    why = (
        f"of {pairs} flagged pairs one is undecided and the others show other patients: look-alikes; "
        f"pictures that were not flagged were not looked at"
    )
    yield Reading(
        COPIES, "slake_en", "PMC-OA-beta", "qualified", rule.status, rule_id(COPIES, rule), why
    )


def _slash(name: str) -> str:
    return name.replace("__", "/", 1)
