"""What an audit will do and cost, worked out from its inputs alone: no picture is decoded and no model is
asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from heldout.audit.audit_file import AuditFile, Budget
from heldout.audit.cases import AuditCase, Recording, Test, family_of_tests, planned_claims
from heldout.benchmark import Example
from heldout.corpus import Corpus, CorpusItem
from heldout.detect import ALPHA, detectors
from heldout.errors import InputError
from heldout.model import SAMPLE, offer_both

RATIO = "perplexity-ratio"
COUNTED = 2_000  # corpus items looked at to say how many there are
CHARACTERS_PER_TOKEN = 4
PICTURE_TOKENS = 600  # tokens of one picture in common vision-language models
TWIN_REQUESTS = (
    3  # new answer on the original, both on the twin; the old one on the original is scored anyway
)
READINGS = 3  # of order-neighbour: after its predecessor and after two others
ABLATIONS = 4  # without picture, with another; without question, with another
# What time is estimated with; a local model is not timed before it runs.
REQUEST_SECONDS = 2.0  # of a short reply
PICTURES_PER_SECOND = 250.0  # read, decoded and hashed on one core
FAMILIES = 3  # of baselines: fewer do not show how far clean models differ


@dataclass(frozen=True)
class PlanStep:
    """One stage on one cell. Costs are estimates, and upper bounds where something may be reused."""

    benchmark: str  # or the dataset that synth makes
    stage: str  # overlap, labels, scores, answers, tests, synth
    on: str
    items: int = 0
    pictures: int = 0
    requests: int = 0
    forward_tokens: int = 0
    note: str = ""
    seconds: float | None = 0.0  # None: not known before it runs
    price: float = 0.0  # in the currency of the endpoint's prices


@dataclass(frozen=True)
class Plan:
    steps: list[PlanStep] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    claims: dict[str, list[str]] = field(default_factory=dict)  # by benchmark
    nearness: int = 0  # most tests of nearness, corrected together by Holm
    over: list[str] = field(default_factory=list)  # what the budget does not allow
    permutations: int = 0
    warnings: list[str] = field(default_factory=list)  # what will limit the claims to *qualified*

    @property
    def permutations_needed(self) -> int:
        """Permutations with which a single claim can be significant after correction over the family."""
        harmonic = sum(1 / rank for rank in range(1, self.family + 1))
        return max(0, math.ceil(self.family * harmonic / ALPHA) - 1)

    @property
    def family(self) -> int:
        """How many claims about models are corrected together."""
        return sum(len(claim) for claim in self.claims.values())

    def total(self, what: str) -> int:
        return sum(int(getattr(step, what)) for step in self.steps)

    @property
    def seconds(self) -> float:
        """Of the steps whose time can be estimated."""
        return sum(step.seconds or 0.0 for step in self.steps)

    @property
    def untimed(self) -> list[str]:
        """Models that run here: how fast they are is not known before."""
        return list(dict.fromkeys(step.on for step in self.steps if step.seconds is None))

    @property
    def price(self) -> float:
        return sum(step.price for step in self.steps)

    def as_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "steps": [asdict(step) for step in self.steps],
            "total": {
                **{what: self.total(what) for what in ("pictures", "requests", "forward_tokens")},
                "seconds": round(self.seconds),
                "untimed": self.untimed,
                "price": round(self.price, 4),
            },
            "family": {
                "claims": self.claims,
                "size": self.family,
                "correction": "Holm within a claim, Benjamini-Yekutieli over all claims",
                "permutations": self.permutations,
                "permutations_needed": self.permutations_needed,
                "nearness_tests": self.nearness,
                "tests": [asdict(test) for test in self.tests],
            },
            "over_budget": self.over,
            "warnings": self.warnings,
        }


def make_plan(
    cases: Sequence[AuditCase], file: AuditFile, further: Sequence[PlanStep] = ()
) -> Plan:
    """``further``: steps that belong to no single benchmark, such as making fresh items."""
    tests = family_of_tests(cases, file)
    claims = {case.name: planned_claims(tests, case.name) for case in cases}
    steps = [*(step for case in cases for step in _steps(case, file, tests)), *further]
    named = file.search.calibrated_encoder
    encoders = {named, *file.search.second_encoders} if named else set()
    # Each is tested twice: all pictures, and those without a proven copy.
    nearness = 2 * len(encoders) * sum(len(case.corpora) for case in cases)
    plan = Plan(
        steps,
        tests,
        claims,
        nearness,
        permutations=file.permutations,
        warnings=_warnings(tests, file),
    )
    return replace(plan, over=_over(plan, file.budget))


def refuse_over_budget(plan: Plan) -> None:
    if plan.over:
        raise InputError(
            f"nothing was run: {'; '.join(plan.over)}. Raise the budget, or audit less "
            f"(budget.items, fewer variants, corpora or models)"
        )


def _warnings(tests: Sequence[Test], file: AuditFile) -> list[str]:
    warnings = _without_references(tests, file)
    reference = file.clean_references.model or next(iter(file.baselines), None)
    ratios = [test for test in tests if test.detector == RATIO and not test.lacks]
    if not ratios or reference not in file.baselines:
        return warnings
    return [
        *warnings,
        f"{reference} is a baseline and the reference model of {RATIO}. It has no ratio to itself, so this "
        f"control will be missing: a claim that rests on {RATIO} can be qualified (possible) "
        f"but cannot survive. Name another model that cannot have seen the benchmark as "
        f"clean_references.model, or as the baseline",
    ]


def _without_references(tests: Sequence[Test], file: AuditFile) -> list[str]:
    """Without a model that cannot have seen the benchmark, no claim about a model can be confirmed."""
    known = detectors()
    testable = [test for test in tests if not test.lacks and known[test.detector].of != "benchmark"]
    if not testable:
        return []
    if not file.baselines:
        return [
            "no baselines are named: whatever is found about a model is at most qualified (possible, not "
            "confirmed). Name models under baselines that cannot have seen the benchmark"
        ]
    lineage = {model.name: model.family or model.name for model in file.models}
    families = {lineage.get(name, name) for name in file.baselines}
    asked = [test for test in testable if known[test.detector].needs == "answers"]
    if asked and len(families) < FAMILIES:
        return [
            f"baselines of {len(families)} {'family' if len(families) == 1 else 'families'} are named: a claim "
            f"from answers needs {FAMILIES}, which show how far clean models differ; with fewer it is at most "
            f"qualified (possible, not confirmed)"
        ]
    return []


def _over(plan: Plan, budget: Budget) -> list[str]:
    return [
        f"{plan.total(what):,} {what.replace('_', ' ')} are planned, and the budget allows {most:,}"
        for what in ("pictures", "requests", "forward_tokens")
        if (most := getattr(budget, what)) is not None and plan.total(what) > most
    ]


def _steps(case: AuditCase, file: AuditFile, tests: Sequence[Test]) -> list[PlanStep]:
    steps = []
    for corpus in case.corpora:
        count, message = corpus_size(corpus)
        ways = ["bytes", "pixels", *([] if file.search.exact else ["hashes"])]
        near = file.search.near_encoder
        ways += [f"the encoder {near}"] if near else []
        ways += ["words"] if file.search.text else []
        ways += ["a judge of paraphrases"] if file.search.judge is not None else []
        steps.append(
            PlanStep(
                case.name,
                "overlap",
                corpus.name,
                len(case.benchmark),
                len(case.benchmark.images) + count,
                note=f"{message}; by {', '.join(ways)}",
                seconds=(len(case.benchmark.images) + count) / PICTURES_PER_SECOND,
            )
        )
    if (labels := case.labels) is not None:
        message = f"made elsewhere: {len(labels.leaked):,} leaked, {len(labels.clean):,} clean"
        steps.append(
            PlanStep(case.name, "labels", Path(labels.source).name, len(labels.kinds), note=message)
        )
    for recording in case.recordings:
        steps += _recorded(case, recording) if not recording.live else _live(case, recording, file)
    mine = [test for test in tests if test.benchmark == case.name]
    if case.recordings:
        testable = sum(not test.lacks for test in mine)
        note = f"{testable} tests, up to {file.permutations:,} permutations each"
        note = note if testable else "none: see below"
        steps.append(
            PlanStep(case.name, "tests", "recorded tables", len(case.benchmark), note=note)
        )
    return steps


def _recorded(case: AuditCase, recording: Recording) -> list[PlanStep]:
    files = {"scores": recording.scores, "answers": recording.answers}
    return [
        PlanStep(
            case.name, kind, recording.name, len(case.benchmark), note=f"recorded: {path.name}"
        )
        for kind, path in files.items()
        if path is not None
    ]


def _live(case: AuditCase, recording: Recording, file: AuditFile) -> list[PlanStep]:
    examples = case.benchmark.examples[: file.budget.items]
    words, pictures = _tokens(examples), PICTURE_TOKENS * len(_pictures(examples))
    server = recording.entry.endpoint
    where = "endpoint" if server else "local"
    steps = []

    def cost(requests: int, read: int, written: int) -> dict[str, Any]:
        """Time and price of requests to a server."""
        if server is None:
            return {"seconds": None}
        seconds = requests * REQUEST_SECONDS / server.concurrency
        if server.requests_per_second is not None:
            seconds = max(seconds, requests / server.requests_per_second)
        price = (read * server.price_in + written * server.price_out) / 1e6
        return {"seconds": seconds, "price": price}

    if "scores" in recording.live:
        checks = min(SAMPLE, len(examples)) * ABLATIONS
        requests, tokens, note = len(examples) + checks, words + pictures, [where]
        per_item = (words + pictures) // max(len(examples), 1)
        tokens += checks * per_item
        for name in recording.twins:
            twins = {example.id: example for example in case.twins[name]}
            pairs = [(example, twins[example.id]) for example in examples if example.id in twins]
            more = sum(not (recording.letters and offer_both(*pair)) for pair in pairs)
            requests += TWIN_REQUESTS * more
            tokens += TWIN_REQUESTS * more * per_item
            note.append(f"both answers on original and {name}")
        if wants(file, "order-neighbour"):
            requests += READINGS * len(examples)
            tokens += READINGS * 2 * words
            note.append("order-neighbour")
        if wants(file, "order-joint") and file.budget.order_tokens:
            tokens += file.budget.order_tokens
            note.append("order-joint")
        steps.append(
            PlanStep(
                case.name,
                "scores",
                recording.name,
                len(examples),
                len(_pictures(examples)),
                requests,
                tokens,
                ", ".join(note),
                **cost(requests, tokens, 0),
            )
        )
    if "answers" in recording.live:
        share = recording.questions / max(len(examples), 1)
        read = round(share * (words + PICTURE_TOKENS * len(examples)))
        written = recording.questions * recording.entry.max_new_tokens
        variants = ", ".join(variant.name for variant in recording.variants)
        steps.append(
            PlanStep(
                case.name,
                "answers",
                recording.name,
                len(examples),
                len(_pictures(examples)),
                recording.questions,
                read + written,
                f"{where}; {variants}",
                **cost(recording.questions, read, written),
            )
        )
    return steps


def wants(file: AuditFile, detector: str) -> bool:
    """Whether the audit names this detector, one that reads the same table, or none at all."""
    known = detectors()
    return not file.detectors or any(
        known[name].table == known[detector].table for name in file.detectors if name in known
    )


def corpus_size(corpus: Corpus) -> tuple[int, str]:
    """Items of a corpus with a picture: counted where it is small, else estimated from its first shards.

    Items may share pictures; each is read with its item.
    """
    pictures = items = read = 0
    for shard in corpus.shards():
        if items >= COUNTED:
            break
        for item in corpus.read(shard):
            items += 1
            pictures += isinstance(item, CorpusItem) and item.image is not None
        read += 1
    else:
        return pictures, f"{pictures:,} of {items:,} items with a picture"
    shards = corpus.count_shards()
    if shards is None:
        return pictures, f"more than {pictures:,} items with a picture"
    about = round(pictures * shards / max(read, 1))
    return about, f"about {about:,} items with a picture (estimated from {items:,} of its items)"


def _tokens(examples: Sequence[Example]) -> int:
    texts = (
        len(example.question or "") + len(example.answer or "") + sum(map(len, example.options))
        for example in examples
    )
    return sum(texts) // CHARACTERS_PER_TOKEN


def _pictures(examples: Sequence[Example]) -> set[Any]:
    return {ref for example in examples for ref in example.images}
