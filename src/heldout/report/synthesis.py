"""What a synthesis came to, for its page and its dataset card: read from the run folder alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.report.figures import (
    Rate,
    Step,
    bar_chart,
    bin_chart,
    funnel_chart,
    rate_chart,
)
from heldout.report.model_figures import Figure
from heldout.stats import cluster_rate_interval
from heldout.store import Run
from heldout.synth import SynthStage, read_funnel
from heldout.synth.ledger import finished, folder, read_dropped, read_rows
from heldout.synth.publish import DATASET
from heldout.synth.rubric import BY_KEY, CRITERIA, Category

STEPS = {
    "ingest": "figures that can be used",
    "select": "figures selected",
    "generate": "items written",
    "verify: gradable": "graded by the verifier",
    "verify: essentials": "pass all essentials",
    "verify: score": "score reaches the threshold",
    "shortcut": "after shortcut probes",
    "balance": "balanced",
    "decontaminate": "not in any benchmark",
    "publish": "published",
}
_COUNTED = {
    "question_type": "Kind of question",
    "modality": "Modality",
    "anatomy": "Anatomy",
    "answer_label": "Letter of the right option",
    "licence": "Licence",
    "images_per_item": "Images per item",
}


def is_synthesis(run: Run) -> bool:
    return (folder(run) / f"{SynthStage.INGEST}.parquet").exists()


@dataclass(frozen=True)
class CriterionRate:
    """How one criterion fared. ``strict``: code sees a fault that the verifier does not; ``lenient``: the
    verifier sees one where code says that there is none."""

    title: str
    category: str
    weight: int
    graded: int
    met: float
    low: float
    high: float
    by_code: int  # items on which code has an opinion
    strict: int
    lenient: int


@dataclass(frozen=True)
class SynthesisFacts:
    """Tables and figures of a run; parts that have not been made are empty."""

    name: str
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    steps: list[Step]
    reasons: list[dict[str, Any]]
    criteria: list[CriterionRate]
    letters: Mapping[str, Mapping[str, int]]  # as written, and as balanced
    probes: Mapping[str, int]
    statistics: Mapping[str, Any]
    contamination: list[dict[str, Any]]
    figures: list[Figure]

    @property
    def single(self) -> dict[str, str]:
        """What is the same for all items, by its title."""
        counted = {title: self.statistics.get(key, {}) for key, title in _COUNTED.items()}
        return {title: next(iter(found)) for title, found in counted.items() if len(found) == 1}

    @property
    def published(self) -> int:
        return int(self.statistics.get("items", 0))


def read_facts(run: Run) -> SynthesisFacts:
    known = run.manifest().get("synth", {})
    settings = known.get("settings", {})
    funnel = read_funnel(run).steps
    steps = [Step("figures found", funnel[0].entered, ())] if funnel else []
    steps += [
        Step(STEPS[step.name], step.left, [(_worded(why), n) for why, n in step.reasons.items()])
        for step in funnel
    ]
    criteria = list(_criteria(run))
    statistics = _json(run, f"{DATASET}/statistics.json") or {}
    report = _json(run, "contamination.json") if finished(run, SynthStage.DECONTAMINATE) else None
    contamination = [_contamination(one) for one in (report or {}).get("benchmarks", [])]
    figures = list(_figures(steps, criteria, statistics, contamination))
    return SynthesisFacts(
        name=str(settings.get("name", run.path.name)),
        settings=settings,
        models={
            role: str(known[role].get("model") or known[role].get("name") or "?")
            for role in ("generator", "verifier", "shortcut", "traces")
            if isinstance(known.get(role), dict)
        },
        steps=steps,
        reasons=list(_reasons(run)),
        criteria=criteria,
        letters=_letters(run),
        probes=_probes(run),
        statistics=statistics,
        contamination=contamination,
        figures=figures,
    )


def _worded(reason: str) -> str:
    """An essential by its title."""
    return BY_KEY[reason].title.lower() if reason in BY_KEY else reason


def _json(run: Run, name: str) -> Any:
    path = folder(run) / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def _reasons(run: Run) -> Iterator[dict[str, Any]]:
    """By stage and reason how often, with one example; rejections of the verifier among them."""
    for stage in SynthStage:
        counts: Counter[str] = Counter()
        example: dict[str, tuple[str, str]] = {}
        for one in read_dropped(run, stage):
            counts[one.reason] += 1
            example.setdefault(one.reason, (one.id, one.detail))
        for reason, count in counts.most_common():
            yield {
                "stage": str(stage), "reason": reason, "count": count, "id": example[reason][0],
                "detail": example[reason][1],
            }  # fmt: skip


def _criteria(run: Run) -> Iterator[CriterionRate]:
    if not finished(run, SynthStage.VERIFY):
        return
    articles = {row["id"]: row["article"] for row in read_rows(run, SynthStage.SELECT)}
    figures = {row["id"]: row["figure"] for row in read_rows(run, SynthStage.GENERATE)}
    lines: dict[str, list[tuple[bool | None, bool, bool]]] = defaultdict(list)
    clusters: list[str] = []
    for row in read_rows(run, SynthStage.VERIFY):
        if row["rubric"]:
            clusters.append(articles.get(figures.get(row["id"], ""), row["id"]))
        for line in row["rubric"]:
            lines[line["criterion"]].append((line["code"], line["verifier"], line["met"]))
    for criterion in CRITERIA:
        found = lines[criterion.key]
        if not found:
            continue
        penalty = criterion.category is Category.PENALTY
        fine = [float(met is not penalty) for _, _, met in found]
        interval = cluster_rate_interval(fine, clusters)
        # A fault: a criterion that is not met, or a penalty that applies.
        said = [(code, verifier) for code, verifier, _ in found if code is not None]
        strict = sum(code is penalty and verifier is not penalty for code, verifier in said)
        lenient = sum(code is not penalty and verifier is penalty for code, verifier in said)
        yield CriterionRate(
            criterion.title, str(criterion.category), criterion.weight, len(found),
            sum(fine) / len(fine), interval.low, interval.high, len(said), strict, lenient,
        )  # fmt: skip


def _letters(run: Run) -> dict[str, dict[str, int]]:
    found = {}
    for name, stage in (("as written", SynthStage.GENERATE), ("balanced", SynthStage.BALANCE)):
        if finished(run, stage):
            counts = Counter(row["answer"] for row in read_rows(run, stage))
            found[name] = dict(sorted(counts.items()))
    return found


def _probes(run: Run) -> dict[str, int]:
    """How many accepted items each shortcut solves."""
    if not finished(run, SynthStage.SHORTCUT):
        return {}
    counts: Counter[str] = Counter()
    for row in read_rows(run, SynthStage.SHORTCUT):
        for name, solved in row["probes"]:
            counts[name] += bool(solved)  # null: replies that would decide it are missing
    return dict(counts)


def _contamination(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report of one benchmark with its Overlap@τ as rows of one table."""
    rows = []
    for part, what, unit in (
        ("text", "cosine of texts above", "questions"),
        ("hashes", "Hamming distance at most", "images"),
        ("embeddings", "cosine of images above", "images"),
    ):
        for threshold, found in report.get(part, {}).get("overlap_at", {}).items():
            total = report[part].get("queries", report[part].get("images"))
            rows.append({"what": what, "at": threshold, "of": total, "unit": unit, **found})
    return {**report, "rows": rows}


def _figures(
    steps: list[Step],
    criteria: list[CriterionRate],
    statistics: Mapping[str, Any],
    contamination: list[dict[str, Any]],
) -> Iterator[Figure]:
    if steps:
        told = (
            "Every bar is as long as what the step let through; beside it what it dropped, and why."
        )
        yield Figure("funnel", funnel_chart(steps, title="From figures to items"), told)
    for key, title in _COUNTED.items():
        if len(counts := statistics.get(key, {})) > 1:  # one bar says nothing
            drawn = bar_chart(counts, title=f"{title} of the published items")
            yield Figure(key.replace("_", "-"), drawn, "")
    if criteria:
        rates = [
            Rate(one.title, one.met, one.low, one.high, _GROUPS[one.category]) for one in criteria
        ]
        title = "Share of graded items without a fault, by criterion"
        told = "Bars are 95 % intervals over articles."
        yield Figure("rubric", rate_chart(rates, title=title, label="without a fault"), told)
    for number, report in enumerate(contamination, 1):
        text = report.get("text", {})
        if histogram := text.get("histogram"):
            drawn = bin_chart(
                histogram["edges"], histogram["counts"], threshold=text["threshold"],
                title=f"Nearest published item of every question of {report['benchmark']}",
                label="cosine similarity of texts", unit="questions",
            )  # fmt: skip
            yield Figure(f"text-similarity-{number}", drawn, "")


_GROUPS = {
    "essential": "essentials (all must be met)",
    "bonus": "bonuses",
    "penalty": "penalties (share to which they do not apply)",
}
