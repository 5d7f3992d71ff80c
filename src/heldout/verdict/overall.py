"""The verdict of a whole audit: one status per benchmark × corpus and benchmark × model, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from heldout.benchmark import is_unread
from heldout.detect import Cell, rate_interval
from heldout.errors import counted, percent
from heldout.evidence import (
    LABEL_CONFLICTS,
    OPEN,
    PEOPLE,
    PICTURED,
    PROVEN,
    REGISTRATION,
    Rung,
    leaks,
)
from heldout.stats import Interval
from heldout.store import Run
from heldout.verdict.claim import ACTIONS, Claim, Status
from heldout.verdict.required import settled_by
from heldout.verdict.rules import COHORT, COPIES, RULES, SOURCES, rule_id
from heldout.verdict.text_claims import WITHIN_REACH

# Recommendations: sentences derived from claims, each with those claims.


Advice = dict[str, Any]
REPLACE = "use another benchmark"  # what to do where all of it leaked


def recommend(benchmarks: Sequence[BenchmarkVerdict]) -> list[Advice]:
    """In the order in which they are worth doing."""
    advice: list[Advice] = []
    for benchmark in benchmarks:
        advice += [*_items(benchmark), *_models(benchmark), *_scores(benchmark)]
    return [*advice, *_safer(benchmarks), *_cohorts(benchmarks), *_controls(benchmarks)]


def _advice(
    kind: str, sentence: str, claims: Sequence[str], benchmark: str | None = None
) -> Advice:
    return {"kind": kind, "benchmark": benchmark, "sentence": sentence, "claims": list(claims)}


def _items(verdict: BenchmarkVerdict) -> Iterator[Advice]:
    highest: dict[str, Rung] = {}
    for identifier, rung in verdict.leaks.select("benchmark_id", "rung").iter_rows():
        if rung in ACTIONS:
            highest[identifier] = max(Rung(rung), highest.get(identifier, Rung(rung)))
    counts = Counter(highest.values())
    claims = [c.id for cell in verdict.cells for c in cell.claims if cell.cell.corpus is not None]
    record = {
        Rung.FULL: "Remove {} of {} that leaked with picture and answer",
        Rung.TEXT: "Remove {} of {} whose question and answer leaked without the picture",
        Rung.COPY: f"Leave out {{}} of {{}} whose picture leaked{_without_answer(verdict)}, or report "
        "scores with and without them",
        Rung.UNDECIDED: "Have people judge the undecided pairs of {} of {} (heldout review)",
        Rung.UNCOMPARED: "Make the pictures of {} of {} readable, here and in the corpus, and audit "
        "again: the corpus has question and answer with pictures that could not be compared",
        Rung.BESIDE_ANOTHER: "Read {} of {} whose question and answer are in the corpus with another "
        "picture: no leak, unless they can be answered without their own picture",
        Rung.SOURCE_OVERLAP: "Report scores with and without {} of {} that name the same source as the corpus "
        "(article, study, patient or file)",
        Rung.LOOK_ALIKE: "Look at the look-alikes of {} of {}: none is a proven copy, but one that could not be "
        "aligned may be a copy (heldout review)",
        Rung.WORDING: "Read the texts of {} of {} whose question is in the corpus without the answer (heldout review "
        "RUN --kind texts)",
        Rung.SIMILAR: "Read the texts of {} of {} with similar words in the corpus: a rewording, or another question "
        "(heldout review RUN --kind texts)",
    }
    proven = sum(count for rung, count in counts.items() if rung in PROVEN)
    items_in_all = max((cell.leak.items for cell in verdict.cells if cell.leak), default=0)
    if proven and proven == items_in_all:
        # Nothing would be left: what leaked of them is said, and not that they are to be removed.
        record[Rung.FULL] = "{} of {} leaked with picture and answer"
        record[Rung.TEXT] = "The question and answer of {} of {} leaked without the picture"
        record[Rung.COPY] = f"The picture of {{}} of {{}} leaked{_without_answer(verdict)}"
        left = (
            f"{'The only item' if proven == 1 else f'All {proven:,} items'} of {verdict.benchmark} leaked: a split "
            f"without leaked items would be empty. Use new items (heldout synth), perturbed twins (heldout twin), or "
            f"another benchmark. Where the corpus is another split of the same "
            f"data, heldout sanitize --resplit makes splits that share no picture."
        )
        told_all = _advice("items", left, claims, verdict.benchmark)
        yield {**told_all, "action": REPLACE, "items": proven}
    asked = all(cell.asked for cell in verdict.cells)
    for rung in sorted(counts, reverse=True):
        items = counted(counts[rung], "item", "items")
        action = record[rung] if asked else record[rung].replace("answer", "label")
        sentence = f"{action.format(items, verdict.benchmark)}; they are listed in actions.jsonl."
        yield {
            **_advice("items", sentence, claims, verdict.benchmark),
            "action": ACTIONS[rung],
            "items": counts[rung],
        }


def _without_answer(verdict: BenchmarkVerdict) -> str:
    compared = {cell.answers_compared for cell in verdict.cells if cell.evidence.get(Rung.COPY)}
    if compared == {False}:
        return " (answers were not compared)"
    return " without the answer" + (
        ", or with one that was not compared" if False in compared else ""
    )


def _models(verdict: BenchmarkVerdict) -> Iterator[Advice]:
    """One short sentence per model: numbers and controls are in the claims that it names."""
    single = [cell for cell in verdict.cells if cell.cell.model is not None and not cell.pair]
    for cell in single:
        stood = [claim for claim in cell.claims if claim.status == "survives"]
        if stood:
            tests = ", ".join(claim.id.partition("/")[0] for claim in stood)
            message = (
                f"Wherever you report {cell.cell.model} on {verdict.benchmark}, say that it has seen "
                f"the benchmark: {counted(len(stood), 'test', 'tests')} passed every control ({tests}). A score that "
                f"counts needs perturbed twins (heldout twin) or another benchmark."
            )
            yield _advice("model", message, [claim.id for claim in stood], verdict.benchmark)
    for cell in single:
        moved = [claim for claim in cell.claims if claim.status == "re-attributed"]
        for claim in moved:
            message = f"Do not read the order effect of {cell.cell.model} on {verdict.benchmark} as memory"
            because = f": {_because(claim)}" if _because(claim) else ""
            yield _advice("model", f"{message}{because}.", [claim.id], verdict.benchmark)


def _because(claim: Claim) -> str:
    """The table's own words for the row that decided."""
    return next(
        (rule.reason for rule in RULES for kind in rule.kinds if rule_id(kind, rule) == claim.rule),
        "",
    )


def _scores(verdict: BenchmarkVerdict) -> Iterator[Advice]:
    """Where leaks were proven: the clean score beside the full one, and whether they differ."""
    claims = [claim.id for claim in verdict.survives if claim.cell.corpus is not None]
    scored = [m for m in verdict.corrected.get("models", []) if m["metric"] == "accuracy"]
    if scored and all(_lines(model)["non-leaked"]["value"] is None for model in scored):
        message = (
            f"No item of {verdict.benchmark} is clean, so no score on it can be corrected: report another "
            f"benchmark, or perturbed twins (heldout twin)."
        )
        yield _advice("score", message, claims, verdict.benchmark)
        return
    seen = _seen(verdict)
    for model in scored:
        lines = _lines(model)
        if model["model"] in seen:
            continue  # advice about the model says what to report instead
        full, clean, leaked = lines["original"], lines["non-leaked"], lines["leaked"]
        if not leaked["items"]:
            continue
        if clean["value"] is None:
            continue
        message = (
            f"Report {model['model']} on {verdict.benchmark} as {percent(clean['value'])}{_interval(clean)} on "
            f"{counted(clean['items'], 'clean item', 'clean items')}{_trust(verdict.corrected)}, beside "
            f"{percent(full['value'])}{_interval(full)} on all {full['items']:,}{_difference(model)}."
        )
        yield _advice("score", message, claims, verdict.benchmark)


def _seen(verdict: BenchmarkVerdict) -> dict[str, list[str]]:
    """Models that have seen the benchmark, with the claims that say so: what a corpus holds of it does not
    measure what they know."""
    return {
        cell.cell.model: [claim.id for claim in cell.claims if claim.status == "survives"]
        for cell in verdict.cells
        if cell.cell.model is not None and not cell.pair and cell.status == "survives"
    }


def _lines(model: Mapping[str, Any]) -> dict[str, Any]:
    return {line["subset"]: line for line in model["lines"]}


def _trust(corrected: Mapping[str, Any]) -> str:
    """Who decided what is clean, if it was not heldout alone."""
    labels = corrected.get("labels")
    if labels is None:
        return ""
    if "confirmed" not in labels:
        return " (by labels made elsewhere, not verified)"
    return (
        f" (by the search and by labels made elsewhere, {labels['confirmed']:,} of "
        f"{labels['leaked']:,} confirmed)"
    )


def _interval(line: Mapping[str, Any]) -> str:
    interval = line["interval"]
    return f" [{percent(interval['low'])}, {percent(interval['high'])}]" if interval else ""


def _difference(model: Mapping[str, Any]) -> str:
    if not model["owed"]:
        return ""
    owed = model["owed"][0]
    if owed["p_adjusted"] is None:
        return "; too few clusters to say whether they differ"
    sure = "they differ" if owed["p_adjusted"] <= 0.05 else "the difference may be chance"
    points = f"{100 * owed['value']:+.1f} points with leaks".replace("-", "\N{MINUS SIGN}")
    full = _lines(model)["original"]["items"]
    # Undecided items are in the full score and on neither side of the test: its difference is another.
    if owed["compared"] < full:
        points += f" among the {owed['compared']:,} items that are leaked or clean"
    return f" ({points}, corrected p = {owed['p_adjusted']:.2g}: {sure})"


def _safer(benchmarks: Sequence[BenchmarkVerdict]) -> Iterator[Advice]:
    """Only if one of them was searched and has no surviving claim, and another has one."""
    safe = [
        benchmark
        for benchmark in benchmarks
        if not benchmark.survives and any(cell.status == "clean" for cell in benchmark.cells)
    ]
    worse = [benchmark for benchmark in benchmarks if benchmark.survives]
    if not safe or not worse:
        return
    names = ", ".join(verdict.benchmark for verdict in safe)
    others = ", ".join(verdict.benchmark for verdict in worse)
    open_ = sum(cell.status == "qualified" for verdict in safe for cell in verdict.cells)
    message = f"Prefer {names} over {others}: no claim against it survives"
    if open_:
        message += f", though {counted(open_, 'cell is', 'cells are')} not settled"
    claims = [claim.id for verdict in worse for claim in verdict.survives]
    yield _advice("safer benchmark", f"{message}.", claims)


def _cohorts(benchmarks: Sequence[BenchmarkVerdict]) -> Iterator[Advice]:
    fallen = [
        claim
        for claim in _claims(benchmarks)
        if claim.rule.startswith(f"{COHORT}/") and claim.status == "collapses"
    ]
    if fallen:
        yield _advice(
            "method",
            "Do not use cohort-relative scores or top-k overlaps as evidence by themselves: a model that "
            "cannot have seen the benchmark shows them, too.",
            [claim.id for claim in fallen],
        )


def _controls(benchmarks: Sequence[BenchmarkVerdict]) -> Iterator[Advice]:
    """Which missing control would settle how many claims."""
    by_control: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        for cell in benchmark.cells:
            compared = any(_compared_pictures(claim) for claim in cell.claims)
            for claim in cell.claims:
                for sentence in settled_by(claim, cell.audited):
                    # Where pictures were compared, too few identifying words need no further control.
                    if not (compared and sentence.startswith(WITHIN_REACH)):
                        by_control.setdefault(sentence, []).append(claim.id)
    for sentence, claims in sorted(by_control.items(), key=lambda entry: -len(entry[1])):
        control, _, supply = sentence.partition(": ")
        number = counted(len(claims), "claim", "claims")
        message = f"To settle {number} ({control}): {supply}."
        yield _advice("control", message, claims)


def _compared_pictures(claim: Claim) -> bool:
    return claim.rule.startswith(f"{COPIES}/") and claim.status != "not testable"


def _claims(benchmarks: Sequence[BenchmarkVerdict]) -> list[Claim]:
    return [claim for benchmark in benchmarks for cell in benchmark.cells for claim in cell.claims]


#: the most pressing first: what a cell is called is the first that one of its claims has
PRESSING: tuple[Status, ...] = (
    "survives",
    "qualified",
    "re-attributed",
    "collapses",
    "clean",
    "not testable",
)
NEARNESS = "nearness/"
#: why a model without any claim could not be tested
ONE_FORM = "answers in one form alone show accuracy, not memory: add twins or variants"


@dataclass(frozen=True)
class LeakRate:
    """Items with a proven leak, of all items; the interval is by cluster. ``possible``: with every undecided
    item counted as leaked."""

    leaked: int
    items: int
    interval: Interval
    possible: LeakRate | None = None  # None where nothing is undecided
    uncompared: int = (
        0  # of the items, those whose picture could not be compared: nobody knows of them
    )

    @property
    def value(self) -> float:
        return self.leaked / self.items if self.items else 0.0

    def as_json(self) -> dict[str, Any]:
        record = {
            "leaked": self.leaked,
            "items": self.items,
            "value": self.value,
            "interval": self.interval._asdict(),
        }
        if self.uncompared:
            record["uncompared"] = self.uncompared
        return record if self.possible is None else {**record, "possible": self.possible.as_json()}


@dataclass(frozen=True)
class CellVerdict:
    cell: Cell
    status: Status
    claims: list[Claim]
    leak: LeakRate | None = None  # of corpora
    evidence: dict[str, int] = field(default_factory=dict)  # items by rung, of corpora
    by_people: int = 0  # leaked items that are leaked by people's judgement alone
    by_registration: int = 0  # leaked items by registration alone, without equal bytes or pixels
    audited: bool = True  # an audit file made the run: advice names its keys
    answers_compared: bool = (
        True  # False: it is not known whether a leaked picture has its answer there
    )
    rendered: bool = False  # heldout drew the benchmark's pictures: rates of its lab hold for them
    asked: bool = True  # items have questions; else their answers are labels
    label_conflicts: int = 0  # items whose copy has another answer or label

    @property
    def pair(self) -> bool:
        """Whether the cell is about two models together: what they share, not what one of them has seen."""
        return self.cell.model is not None and " & " in self.cell.model

    @property
    def on(self) -> str:
        return str(self.cell.corpus if self.cell.corpus is not None else self.cell.model)

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.cell.benchmark,
            "corpus": self.cell.corpus,
            "model": self.cell.model,
            "status": self.status,
            "leak_rate": self.leak.as_json() if self.leak is not None else None,
            "evidence": self.evidence,
            "by_people": self.by_people,
            "by_registration": self.by_registration,
            "answers_compared": self.answers_compared,
            "rendered": self.rendered,
            "asked": self.asked,
            "label_conflicts": self.label_conflicts,
            "claims": [
                {**claim.model_dump(mode="json"), "settled_by": settled_by(claim, self.audited)}
                for claim in self.claims
            ],
        }


@dataclass(frozen=True)
class BenchmarkVerdict:
    benchmark: str
    run: str
    cells: list[CellVerdict]
    leaks: pl.DataFrame  # evidence.leaks of the run
    corrected: Mapping[str, Any]

    @property
    def survives(self) -> list[Claim]:
        return [
            c for cell in self.cells for c in cell.claims if is_leak(c) and c.status == "survives"
        ]


@dataclass(frozen=True)
class Overall:
    benchmarks: list[BenchmarkVerdict]
    recommendations: list[dict[str, Any]]
    family: Mapping[str, Any]

    @property
    def cells(self) -> list[CellVerdict]:
        return [cell for benchmark in self.benchmarks for cell in benchmark.cells]

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "cells": [cell.as_json() for cell in self.cells],
            "recommendations": self.recommendations,
            "corrected": {
                benchmark.benchmark: benchmark.corrected for benchmark in self.benchmarks
            },
            "family": self.family,
        }


def compared_answers(claims: Sequence[Claim]) -> bool:
    """Whether claims about a corpus rest on a count of leaked answers; True where they are of none."""
    pictured = [claim for claim in claims if claim.id.startswith("overlap/") and claim.findings]
    return not pictured or any(
        finding.endswith("/answers") for claim in pictured for finding in claim.findings
    )


def is_leak(claim: Claim) -> bool:
    """Nearness is never a leak, whatever its status, nor is a source that both sides name."""
    return not (claim.id.startswith(NEARNESS) or claim.rule.startswith(f"{SOURCES}/"))


def benchmark_verdict(
    run: Run, name: str, corrected: Mapping[str, Any], models: Sequence[str] = ()
) -> BenchmarkVerdict:
    """Cells of one run: claims of one corpus, or of one model, together.

    ``models``: those that were to be tested; one without any claim becomes a cell that is not testable.
    """
    claims = run.entries("claims", Claim)
    leaked = leaks(run)
    items = run.read_table("items").to_pylist()
    clusters = {row["benchmark_id"]: row["cluster"] for row in items}
    asked = all(row["question"] for row in items)
    unread = {
        row["benchmark_id"] for row in items if any(map(is_unread, row["image_digests"] or ()))
    }
    groups: dict[tuple[str | None, str | None], list[Claim]] = {}
    for claim in claims:
        groups.setdefault((claim.cell.corpus, claim.cell.model), []).append(claim)
    for tried in models:
        groups.setdefault((None, tried), [])
    cells = []
    audited = (run.path / "audit.yaml").exists()
    rendered = bool(run.manifest()["inputs"].get("benchmark", {}).get("rendered", False))
    for (corpus, model), mine in groups.items():
        leak, evidence, how, conflicts = None, {}, Counter[str | None](), 0
        if corpus is not None:
            there = leaked.filter(pl.col("corpus") == corpus)
            leak = _rate(dict(there.select("benchmark_id", "rung").iter_rows()), clusters, unread)
            counts, how = Counter(there["rung"]), Counter(there["shown_by"])
            evidence = {rung.value: counts[rung] for rung in ACTIONS if counts[rung]}
            other = pl.col("label_relation").is_in(LABEL_CONFLICTS) & pl.col("rung").is_in(PICTURED)
            conflicts = len(there.filter(other))
        cell = Cell(benchmark=name, corpus=corpus, model=model)
        cells.append(
            CellVerdict(
                cell,
                cell_status(mine),
                mine,
                leak,
                evidence,
                how[PEOPLE],
                how[REGISTRATION],
                audited,
                compared_answers(mine),
                rendered,
                asked,
                conflicts,
            )
        )
    return BenchmarkVerdict(name, str(run.path), cells, leaked, corrected)


def cell_status(claims: Sequence[Claim]) -> Status:
    """The most pressing status; nearness, and claims that had nothing to compare, do not count."""
    speaking = [claim for claim in claims if is_leak(claim) and not claim.idle]
    statuses = {claim.status for claim in speaking or claims}
    return next((status for status in PRESSING if status in statuses), "not testable")


def overall_verdict(benchmarks: Sequence[BenchmarkVerdict], family: Mapping[str, Any]) -> Overall:
    return Overall(list(benchmarks), recommend(benchmarks), family)


def _rate(
    there: Mapping[str, Any], clusters: Mapping[str, str], unread: Collection[str]
) -> LeakRate:
    def rate(rungs: frozenset[Rung]) -> LeakRate:
        marks = [float(there.get(item) in rungs) for item in clusters]
        interval = rate_interval(marks, list(clusters.values()))
        return LeakRate(int(sum(marks)), len(marks), interval)

    proven, possible = rate(PROVEN), rate(PROVEN | OPEN)
    lost = sum(there.get(item) not in PROVEN | OPEN for item in unread)
    proven = replace(proven, uncompared=lost)
    return proven if possible.leaked == proven.leaked else replace(proven, possible=possible)
