"""What a check returns: facts, problems with examples and advice, and the order table."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from heldout.benchmark.benchmark import Benchmark, canonical_value
from heldout.benchmark.source import ALIASES
from heldout.errors import html_table
from heldout.image import Digests
from heldout.settings import Settings
from heldout.stats import holm, order_grouping, order_trend

if TYPE_CHECKING:
    import polars as pl

Severity = Literal["error", "warning", "note"]


class Problem(BaseModel):
    """One rule that fired. ``count`` of ``of`` items (or images) are affected."""

    rule: str
    severity: Severity
    message: str  # one sentence with the numbers
    advice: str  # what to do about it
    count: int
    of: int
    unit: str = "items"
    examples: list[str] = Field(default_factory=list)


class OrderFact(BaseModel):
    """How strongly the release order follows one property (0 random, ±1 fully grouped or sorted)."""

    property: str
    kind: Literal["grouping", "trend"]
    strength: float
    z: float
    p: float  # from random orders, two-sided, add-one
    p_adjusted: float  # Holm, over all properties of this benchmark


class SplitOverlap(BaseModel):
    """What two splits share, per image and per question; the two are never mixed."""

    other: str
    images: int  # distinct images of this split that could be compared
    images_not_compared: int  # missing, unreadable or flat
    images_same_bytes: int
    images_same_pixels: int  # byte-identical ones included
    questions: int
    questions_on_shared_images: int
    questions_repeated: int  # same image and same question
    questions_repeated_with_answer: int  # same image, question and answer


class CheckSettings(Settings):
    """Settings of ``heldout check``."""

    strict: bool = False
    """Warnings make the check fail as well, not only errors."""
    examples: Annotated[int, Field(ge=0)] = 1000
    """Items kept as examples of each problem; the screen shows three."""
    ocr: bool = False
    """Also read the words inside the pictures: names, dates and numbers that may identify a person (extra
    ocr; some seconds of a core for each picture)."""


class CheckReport(BaseModel):
    schema_version: int = 1
    benchmark: str
    source: str
    reader: str
    fingerprint: str
    facts: dict[str, Any]
    problems: list[Problem]
    order: list[OrderFact]
    splits: SplitOverlap | None = None
    dropped: list[dict[str, str]] = Field(default_factory=list)
    strict: bool = False  # warnings fail the check, too

    @property
    def ok(self) -> bool:
        """False if anything was found that makes scores on this benchmark wrong."""
        failing = {"error", "warning"} if self.strict else {"error"}
        return not any(problem.severity in failing for problem in self.problems)

    @property
    def frame(self) -> pl.DataFrame:
        """One row per problem."""
        import polars as pl  # not needed to read a benchmark

        return pl.DataFrame([problem.model_dump() for problem in self.problems])

    def __repr__(self) -> str:
        counts = Counter(problem.severity for problem in self.problems)
        problems = ", ".join(f"{severity} {count:,}" for severity, count in counts.items())
        return f"<CheckReport of {self.benchmark}: {problems or 'no problems'}>"

    def _repr_html_(self) -> str:
        rows = ((row.severity, row.rule, row.message, row.advice) for row in self.problems)
        return html_table(("severity", "rule", "problem", "advice"), rows, self.benchmark)


def problem(
    rule: str,
    severity: Severity,
    message: str,
    advice: str,
    affected: list[str],
    of: int,
    unit: str = "items",
) -> Problem:
    return Problem(
        rule=rule,
        severity=severity,
        message=message,
        advice=advice,
        count=len(affected),
        of=of,
        unit=unit,
        examples=affected,
    )


# Facts about a benchmark that are neither good nor bad: sizes, clusters, languages, strata.


_SCRIPTS = (
    "LATIN",
    "CJK",
    "HIRAGANA",
    "KATAKANA",
    "HANGUL",
    "CYRILLIC",
    "ARABIC",
    "HEBREW",
    "DEVANAGARI",
    "GREEK",
    "THAI",
)


def benchmark_facts(benchmark: Benchmark) -> dict[str, Any]:
    sizes = np.array(list(benchmark.cluster_sizes().values()))
    readable = [d for d in benchmark.digests.values() if isinstance(d, Digests)]
    return {
        "items": len(benchmark),
        "images": len({d.pixels for d in readable}) + len(benchmark.images) - len(readable),
        "images_readable": len(readable),
        "items_per_image": _per_image(benchmark),
        "clusters": len(sizes),
        "cluster_key": benchmark.cluster_key,
        "items_per_cluster": {"mean": round(float(sizes.mean()), 2), "max": int(sizes.max())},
        "multiple_choice": sum(bool(example.options) for example in benchmark),
        "scripts": dict(scripts(benchmark).most_common()),
        "languages": _column(benchmark, ALIASES["lang"]),
        "answer_types": _column(benchmark, ("answer_type",)),
        "split": benchmark.split,
        "splits": _column(benchmark, ALIASES["split"]),
        "dropped": len(benchmark.dropped),
    }


def _per_image(benchmark: Benchmark) -> dict[str, float]:
    """How many items show one picture: the cluster structure every interval has to respect."""
    counts: Counter[str] = Counter()
    for example in benchmark:
        pictures = {
            digest.pixels if isinstance(digest := benchmark.digests[ref], Digests) else ref.name
            for ref in example.images
        }
        counts.update(pictures)
    mean = sum(counts.values()) / len(counts) if counts else 0.0
    return {"mean": round(mean, 2), "max": max(counts.values(), default=0)}


def scripts(benchmark: Benchmark) -> Counter[str]:
    """The writing system of each question, which needs no language detection."""
    return Counter(script_of(example.question or example.answer or "") for example in benchmark)


def script_of(text: str) -> str:
    counts: Counter[str] = Counter()
    for character in text[:400]:
        if character.isalpha():
            name = unicodedata.name(character, "OTHER")
            counts[next((script for script in _SCRIPTS if name.startswith(script)), "OTHER")] += 1
    return counts.most_common(1)[0][0].lower() if counts else "none"


def _column(benchmark: Benchmark, names: tuple[str, ...]) -> dict[str, int]:
    for name in names:
        values = Counter(canonical_value(example.metadata.get(name)) for example in benchmark)
        values.pop(None, None)
        if values:
            return {str(key): count for key, count in values.most_common(12)}
    return {}


# How the release order is structured: this decides which order tests are valid later.


_ALPHA = 0.01  # of calling a random order structured, over all properties together
_WEAK = 0.02  # strengths below this do not matter at any realistic size


def order_facts(benchmark: Benchmark) -> list[OrderFact]:
    """Grouping by cluster and by every category; trends of lengths, cluster by cluster."""
    cluster = "image" if benchmark.cluster_key == "image" else "cluster"
    groupings = [(cluster, "grouping", order_grouping(benchmark.clusters))]
    for column, values in _categories(benchmark):
        groupings.append((column, "grouping", order_grouping(values)))
    if any(example.answer for example in benchmark):
        lengths = [len(example.answer or "") for example in benchmark]
        groupings.append(("answer length", "trend", order_trend(lengths, benchmark.clusters)))
        groupings.append(("answer length", "grouping", order_grouping(lengths)))
    if any(example.question for example in benchmark):
        lengths = [len(example.question or "") for example in benchmark]
        groupings.append(("question length", "trend", order_trend(lengths, benchmark.clusters)))
    adjusted = holm([grouping.p for _, _, grouping in groupings])
    return [
        OrderFact(
            property=name,
            kind=kind,  # type: ignore[arg-type]
            strength=round(grouping.strength, 4),
            z=round(grouping.z, 3),
            p=grouping.p,
            p_adjusted=p,
        )
        for (name, kind, grouping), p in zip(groupings, adjusted, strict=True)
    ]


def order_rules(benchmark: Benchmark, facts: list[OrderFact]) -> Iterator[Problem]:
    strong = [f for f in facts if f.p_adjusted < _ALPHA and abs(f.strength) > _WEAK]
    if not strong:
        return
    strong.sort(key=lambda fact: -abs(fact.strength))
    kinds = {"grouping": "grouped by", "trend": "rising or falling with"}
    message = "; ".join(
        f"{words} {', '.join(f'{f.property} {f.strength:+.2f}' for f in strong if f.kind == kind)}"
        for kind, words in kinds.items()
        if any(f.kind == kind for f in strong)
    )
    blocks = [f.property for f in strong if f.kind == "grouping"]
    trends = [f.property for f in strong if f.kind == "trend"]
    advice = []
    if blocks:
        advice.append(
            f"order tests must shuffle whole groups, or within groups, of equal {', '.join(blocks)}"
        )
    if trends:
        advice.append(f"tests of position must compare items of similar {', '.join(trends)}")
    yield problem(
        "structured-order",
        "note",
        f"the release order is not random (strength from -1 to +1): {message}",
        "; ".join(advice) + "; shuffling freely would mistake this order for memory",
        [f.property for f in strong],
        len(facts),
        "properties",
    )


def _categories(benchmark: Benchmark) -> Iterator[tuple[str, list[str]]]:
    """Metadata columns that sort items into a handful of kinds: topic, modality, answer type."""
    n = len(benchmark)
    columns = list(dict.fromkeys(key for example in benchmark for key in example.metadata))
    for column in columns:
        values = [canonical_value(example.metadata.get(column)) or "" for example in benchmark]
        kinds = len(set(values))
        if 2 <= kinds <= max(2, min(60, n // 8)):
            yield column, values
