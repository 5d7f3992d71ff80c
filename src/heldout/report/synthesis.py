"""The results of a synthesis for its page and its dataset card, read from the run folder alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.errors import InputError, counted
from heldout.report._models import Figure
from heldout.report.figures import (
    RateBar,
    WaterfallStep,
    bar_chart,
    bin_chart,
    funnel_chart,
    rate_chart,
)
from heldout.store import Run, read_document
from heldout.synth import (
    BY_KEY,
    CHANCE,
    CRITERIA,
    DATASET,
    FILE_REASONS,
    FLAGGED_BY_CHANCE,
    LETTERS,
    NEEDED,
    OVERLONG,
    PROVENANCE,
    STATISTICS,
    Category,
    PlantedRecall,
    ProbeRate,
    SynthStage,
    answering_models,
    cluster_rate,
    code_and_verifier,
    finished,
    folder,
    images_compared,
    planted_recall,
    probe_rates,
    read_dropped,
    read_funnel,
    read_rows,
)

STEPS = {
    "ingest": "figures that can be used",
    "select": "figures selected",
    "generate": "items written",
    "verify: gradable": "graded by the verifier",
    "verify: essentials": "pass all essentials",
    "verify: score": "score reaches the threshold",
    "shortcut": "after shortcut probes",
    "balance": "each item once, balanced",
    "decontaminate": "not in the benchmarks",
    "publish": "published",
}
SHORTCUT_STEP = STEPS["shortcut"]
# What a flag and a rate of the probes mean, for card and page.
PROBES = (
    f"A probe flags an item if the model chooses the right option in at least {NEEDED} of {len(LETTERS)} "
    f"rotations of the options; question-only, if it writes the right option word for word; "
    f"overlong-answer, if code finds the right option by far the longest. Guessing anew in every rotation "
    f"flags {100 * FLAGGED_BY_CHANCE:.1f} % of items; a model that knows nothing and keeps to one "
    f"favourite option, {100 * CHANCE:.0f} %. Right replies are counted over all accepted items, also "
    f"those that were dropped later; p tests them against guessing (Student's t over articles, two-sided, "
    f"Holm over both probes): a small p below guessing is no shortcut."
)
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
    """How one criterion fared. ``interval``: over articles, None where all items are of one. ``seen_by``:
    items in which neither, code alone, the verifier alone or both see a fault, where code can check it."""

    title: str
    category: str
    weight: int
    graded: int
    met: float
    interval: list[float] | None
    seen_by: dict[str, int] | None


@dataclass(frozen=True)
class ModelLine:
    """A model under the name and fingerprint that its server gave. ``digest``: as rows name it; ``items``:
    published ones that it wrote or verified, None for roles that do neither."""

    role: str
    model: str
    fingerprint: str
    digest: str
    items: int | None
    asked: bool  # over an endpoint; what computes was not


@dataclass(frozen=True)
class SynthesisFacts:
    """Tables and figures of a run; parts that have not been made are empty."""

    name: str
    settings: Mapping[str, Any]
    models: list[ModelLine]
    steps: list[WaterfallStep]
    reasons: list[dict[str, Any]]
    criteria: list[CriterionRate]
    letters: Mapping[str, Mapping[str, int]]  # as written, and as balanced
    probes: list[ProbeRate]
    statistics: Mapping[str, Any]
    contamination: list[dict[str, Any]]
    recall: list[PlantedRecall]
    figures: list[Figure]

    @property
    def asked_blind(self) -> bool:
        """Whether a model was asked without the image; else code alone looked for shortcuts."""
        return any(probe.probe != OVERLONG for probe in self.probes)

    @property
    def asked_models(self) -> list[ModelLine]:
        return [model for model in self.models if model.asked]

    @property
    def verified_itself(self) -> str:
        """``all``: one model wrote and verified every item; ``some``: a verifier wrote items, too."""
        wrote, verified = (
            {asked_model.model for asked_model in self.asked_models if asked_model.role == role}
            for role in ("generator", "verifier")
        )
        if not wrote & verified:
            return ""
        return "all" if wrote == verified and len(wrote) == 1 else "some"

    @property
    def single(self) -> dict[str, str]:
        """Values that are the same for all items, by title."""
        counted = {title: self.statistics.get(key, {}) for key, title in _COUNTED.items()}
        return {title: next(iter(values)) for title, values in counted.items() if len(values) == 1}

    @property
    def published(self) -> int:
        return int(self.statistics.get("items", 0))


def read_facts(run: Run) -> SynthesisFacts:
    known = run.manifest().get("synth", {})
    settings = known.get("settings", {})
    funnel = read_funnel(run).steps
    files = [(worded(why), n) for step in funnel[:1] for why, n in step.files.items()]
    steps = [WaterfallStep("figures found", funnel[0].entered, files)] if funnel else []
    steps += [
        WaterfallStep(
            STEPS[step.name], step.left, [(worded(why), n) for why, n in step.reasons.items()]
        )
        for step in funnel
    ]
    criteria = list(_criteria(run))
    statistics = _json(run, f"{DATASET}/statistics.json") or {}
    if statistics and statistics["schema_version"] != STATISTICS:
        raise InputError(
            f"{run.path}: the dataset was published by another version of heldout. Run the same "
            f"synth command again: no model is asked twice"
        )
    report = _json(run, "contamination.json") if finished(run, SynthStage.DECONTAMINATE) else None
    contamination = [
        _contamination(benchmark) for benchmark in (report or {}).get("benchmarks", [])
    ]
    probes = probe_rates(run)
    blind = any(probe.probe != OVERLONG for probe in probes)
    if SHORTCUT_STEP in (step.name for step in steps) and not blind:
        message = "right option not overlong"
        steps = [
            step._replace(name=message) if step.name == SHORTCUT_STEP else step for step in steps
        ]
    figures = list(_figures(steps, criteria, statistics, contamination))
    return SynthesisFacts(
        name=str(settings.get("name", run.path.name)),
        settings=settings,
        models=list(_models(run)),
        steps=steps,
        reasons=list(_reasons(run)),
        criteria=criteria,
        letters=_letters(run),
        probes=probes,
        statistics=statistics,
        contamination=contamination,
        recall=planted_recall(run),
        figures=figures,
    )


def worded(reason: str) -> str:
    """A reason of the table dropped in plain words: an essential criterion by its title, and a file
    distinguished from a figure."""
    if reason in FILE_REASONS:
        return f"file not read: {reason}"
    key = reason.removeprefix("essential: ")
    return f"not met: {BY_KEY[key].title.lower()}" if key in BY_KEY else reason


def _models(run: Run) -> Iterator[ModelLine]:
    """Of a published dataset those behind its items; before that, all that have answered."""
    published = _json(run, f"{DATASET}/{PROVENANCE}")
    if published is not None:
        for role, models in published["models"].items():
            for digest, model in models.items():
                yield ModelLine(
                    role,
                    model["model"],
                    model.get("fingerprint", ""),
                    digest,
                    model.get("items"),
                    "asked" in model,
                )
        return
    for row in answering_models(run).to_dicts():
        yield ModelLine(row["role"], row["model"], row["fingerprint"], row["digest"], None, True)


def _json(run: Run, name: str) -> dict[str, Any] | None:
    path = folder(run) / name
    return read_document(path) if path.exists() else None


def _reasons(run: Run) -> Iterator[dict[str, Any]]:
    """By stage and reason how often, with one example; rejections of the verifier among them."""
    for stage in SynthStage:
        counts: Counter[str] = Counter()
        example: dict[str, tuple[str, str]] = {}
        for dropped in read_dropped(run, stage):
            counts[dropped.reason] += 1
            example.setdefault(dropped.reason, (dropped.id, dropped.detail))
        for reason, count in counts.most_common():
            yield {
                "stage": str(stage),
                "reason": worded(reason),
                "count": count,
                "id": example[reason][0],
                "detail": example[reason][1],
            }


def _criteria(run: Run) -> Iterator[CriterionRate]:
    if not finished(run, SynthStage.VERIFY):
        return
    articles = {row["id"]: row["article"] for row in read_rows(run, SynthStage.SELECT)}
    figures = {row["id"]: row["figure"] for row in read_rows(run, SynthStage.GENERATE)}
    lines: dict[str, list[bool]] = defaultdict(list)
    seen_by = {row["criterion"]: row for row in code_and_verifier(run).to_dicts()}
    clusters: list[str] = []
    for row in read_rows(run, SynthStage.VERIFY):
        if row["rubric"]:
            clusters.append(articles.get(figures.get(row["id"], ""), row["id"]))
        for line in row["rubric"]:
            lines[line["criterion"]].append(line["met"])
    for criterion in CRITERIA:
        line = lines[criterion.key]
        if not line:
            continue
        penalty = criterion.category is Category.PENALTY
        fine = [float(met is not penalty) for met in line]
        interval = cluster_rate(fine, clusters)["interval"]
        yield CriterionRate(
            criterion.title,
            str(criterion.category),
            criterion.weight,
            len(line),
            sum(fine) / len(fine),
            interval,
            seen_by.get(criterion.key),
        )


def _letters(run: Run) -> dict[str, dict[str, int]]:
    letters = {}
    for name, stage in (("as written", SynthStage.GENERATE), ("balanced", SynthStage.BALANCE)):
        if finished(run, stage):
            counts = Counter(row["answer"] for row in read_rows(run, stage))
            letters[name] = dict(sorted(counts.items()))
    return letters


def _contamination(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report of one benchmark with its Overlap@τ as rows of one table: of the benchmark's questions or
    images, and of the items, before anything was removed and after."""
    rows = []
    for part, what, unit in (
        ("text", "cosine of {fields} ({}) >", "questions"),
        ("hashes", "image hash distance ≤", "images"),
        ("embeddings", "image cosine ({}) >", "images"),
    ):
        known = report.get(part, {})
        # Another encoder has another scale: the thresholds are those of the paper's encoders.
        encoder = str(known.get("encoder", "")).partition(" ")[0]
        what = what.format(encoder, fields=_compared(known))
        for threshold, published in known.get("overlap_at", {}).items():
            items = known["by_item"]
            rows.append(
                {
                    "what": what,
                    "at": threshold,
                    "unit": unit,
                    "of": known.get("queries", known.get("images")),
                    "published": published,
                    "before": known["before_removal"]["overlap_at"][threshold],
                    "of_items": items["published"]["items"],
                    "items": items["published"]["overlap_at"][threshold],
                    "of_items_before": items["before_removal"]["items"],
                    "items_before": items["before_removal"]["overlap_at"][threshold],
                }
            )
    sentences = (images_compared(report), _near_misses(report), _words(report.get("questions", {})))
    words = " ".join(filter(None, sentences))
    return {**report, "rows": rows, "words": words}


def _near_misses(report: Mapping[str, Any]) -> str:
    number = report.get("near_misses_kept", 0)  # absent in runs of earlier versions
    if not number:
        return ""
    return (
        f"{counted(number, 'published item has', 'published items have')} an image that agrees with one of "
        "the benchmark's but for one part: it shows something else there, or is an edited copy."
    )


def _compared(text: Mapping[str, Any]) -> str:
    """The field of both sides that is compared."""
    return " or ".join(text.get("fields", ("texts",)))


def _words(asked: Mapping[str, Any]) -> str:
    """How many questions could be found by their words, and how many items ask one nevertheless."""
    if not asked:  # made by an earlier version
        return ""
    scripts = ", ".join(f"{name} {number:,}" for name, number in asked["scripts"].items())
    reasons = {
        f"in a script that no item has ({scripts})": asked["other_script"],
        "without an answer": asked["without_answer"],
        "stock questions, asked of many images": asked["stock"],
    }
    others = ", ".join(f"{number:,} {why}" for why, number in reasons.items() if number)
    return (
        f"By words, {asked['findable']:,} of its {counted(asked['questions'], 'question', 'questions')} "
        f"could be found{f' (not: {others})' if others else ''}. Published items that ask a stock question "
        f"of it and give its answer: {asked['items_kept']:,}.{_judged(asked.get('judge', {}))}"
    )


def _judged(counts: Mapping[str, Any]) -> str:
    """The opinions of the judge of rewordings, as a sentence; empty if none was asked."""
    if not counts:
        return ""
    verdicts = ("same", "different", "unsure")
    pairs = sum(counts.get(verdict, 0) for verdict in verdicts)
    if not pairs:
        return " No pair of questions was near enough for the judge of rewordings to read."
    listed = ", ".join(
        f"{counts[verdict]:,} {verdict}" for verdict in verdicts if verdict in counts
    )
    return (
        f" Of {counted(pairs, 'pair', 'pairs')} of questions that might be rewordings, the judge "
        f"({counts['model']}) called {listed}."
    )


def _figures(
    steps: list[WaterfallStep],
    criteria: list[CriterionRate],
    statistics: Mapping[str, Any],
    contamination: list[dict[str, Any]],
) -> Iterator[Figure]:
    if steps:
        message = (
            "Every bar is as long as what the step let through; beside it what it dropped, and why."
        )
        if steps[0].lost:
            message += " Files that could not be read are listed beside the first bar; they are not figures."
        yield Figure("funnel", funnel_chart(steps, title="From figures to items"), message)
    for key, title in _COUNTED.items():
        if len(counts := statistics.get(key, {})) > 1:  # one bar says nothing
            drawn = bar_chart(counts, title=f"{title} of the published items")
            yield Figure(key.replace("_", "-"), drawn, "")
    if criteria:
        rates = []
        for criterion_rate in criteria:
            low, high = criterion_rate.interval or (criterion_rate.met, criterion_rate.met)
            rates.append(
                RateBar(
                    criterion_rate.title,
                    criterion_rate.met,
                    low,
                    high,
                    _GROUPS[criterion_rate.category],
                )
            )
        title = "Share of graded items without a fault, by criterion"
        message = "Bars are 95 % intervals over articles."
        message = message if criteria[0].interval else "No intervals: all items are of one article."
        yield Figure("rubric", rate_chart(rates, title=title, label="without a fault"), message)
    for number, report in enumerate(contamination, 1):
        text = report.get("text", {})
        if histogram := text.get("histogram"):
            drawn = bin_chart(
                histogram["edges"],
                histogram["counts"],
                threshold=text["threshold"],
                title=f"Nearest published item of every question of {report['benchmark']}",
                label=f"cosine of {_compared(text)}",
                unit="questions",
            )
            yield Figure(f"text-similarity-{number}", drawn, "")


_GROUPS = {
    "essential": "essentials (all must be met)",
    "bonus": "bonuses",
    "penalty": "penalties (share to which they do not apply)",
}
