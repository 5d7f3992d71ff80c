"""One case per benchmark: what it is compared with, what each model records for it, and the family of tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from heldout.audit.audit_file import AuditFile, BenchmarkEntry, ModelEntry
from heldout.audit.reader import Audit
from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import Corpus, MixtureSource, is_recipe, open_corpus, open_recipe
from heldout.detect import TWIN_SCORES, Detector, Need, detectors
from heldout.errors import InputError
from heldout.evidence import LeakLabels, read_leak_labels
from heldout.model import (
    Variant,
    default_variants,
    expand,
    parse_variants,
    read_answers,
    read_recorded,
)
from heldout.overlap import ControlSet
from heldout.store import Run, write_atomic
from heldout.verdict import ANSWERS, ONE_FORM, CorrectedScores, actions, correct_scores


@dataclass(frozen=True)
class Recording:
    """What one model gives for one benchmark, known before anything runs."""

    entry: ModelEntry
    scores: Path | None = None  # a recorded file
    answers: Path | None = None
    live: frozenset[str] = frozenset()  # "scores", "answers": made by this audit
    moments: bool = False  # mean and spread of log p over the vocabulary
    variants: tuple[Variant, ...] = ()  # to be asked
    shown: frozenset[str] = frozenset()  # names of variants that will have answers
    questions: int = 0  # how many are asked live
    twins: tuple[str, ...] = ()  # sets of twins to be scored
    letters: bool = False  # log-probabilities of options are recorded with the answers

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def scored(self) -> bool:
        return self.scores is not None or "scores" in self.live

    @property
    def answered(self) -> bool:
        return self.answers is not None or "answers" in self.live


@dataclass
class AuditCase:
    entry: BenchmarkEntry
    benchmark: Benchmark
    folder: Path
    corpora: list[Corpus] = field(default_factory=list)
    twins: dict[str, Benchmark] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)
    labels: LeakLabels | None = None  # made elsewhere
    mixed: bool = False  # some corpora are the sources of a training mixture

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def weights(self) -> list[tuple[str, float]]:
        """How often training sees each row of the sources of a mixture."""
        return [
            (corpus.name, corpus.weight)
            for corpus in self.corpora
            if self.mixed and isinstance(corpus, MixtureSource)
        ]


def open_cases(audit: Audit) -> list[AuditCase]:
    """Mistakes in the inputs are reported here, before any work is done."""
    cases: list[AuditCase] = []
    places = {corpus_entry.name: place for place, corpus_entry in enumerate(audit.file.corpora)}
    for number, entry in enumerate(audit.file.benchmarks):
        folder = audit.output / folder_name(entry.name)
        if any(case.folder == folder for case in cases):
            raise InputError(
                f"{audit.path}: two benchmarks would share the run folder {folder}: give them different names"
            )
        with audit.at("benchmarks", number, "source"):
            benchmark = read_benchmark(
                audit.located(entry.source),
                preset=entry.preset,
                mapping=dict(entry.map),
                images=audit.located(entry.images) if entry.images else None,
                reader=entry.reader,
                name=entry.name,
            )
        wanted = [
            corpus_entry
            for corpus_entry in audit.file.corpora
            if entry.against is None or corpus_entry.name in entry.against
        ]
        corpora: list[Corpus] = []
        for corpus_entry in wanted:
            with audit.at("corpora", places[corpus_entry.name], "source"):
                opened = _opened(audit.located(corpus_entry.source), corpus_entry.name)
                _refuse_repeated(corpora, opened)
                corpora += opened
        twins = {}
        for name, source in entry.twins.items():
            with audit.at("benchmarks", number, "twins", name):
                twins[name] = read_benchmark(audit.located(source))
        labels = None
        if entry.leaks is not None:
            with audit.at("benchmarks", number, "leaks"):
                ids = [example.id for example in benchmark]
                labels = read_leak_labels(audit.located(entry.leaks), ids)
        mixed = any(is_recipe(corpus_entry.source) for corpus_entry in wanted)
        case = AuditCase(entry, benchmark, folder, corpora, twins, labels=labels, mixed=mixed)
        for place, model in enumerate(audit.file.models):
            recording = _recording(audit, case, model, place)
            if recording.scored or recording.answered:
                case.recordings.append(recording)
        cases.append(case)
    return cases


def _opened(source: str, name: str) -> list[Corpus]:
    """One corpus, or the sources of a training mixture, whose names begin with that of the mixture."""
    return (
        open_recipe(source, f"{name}-") if is_recipe(source) else [open_corpus(source, name=name)]
    )


def _refuse_repeated(corpora: Sequence[Corpus], opened: Sequence[Corpus]) -> None:
    known = {corpus.name for corpus in corpora}
    for corpus in opened:
        if corpus.name in known:
            raise InputError(f"two corpora would be called {corpus.name}: rename one of them")


def open_controls(audit: Audit) -> tuple[Corpus | None, tuple[ControlSet, ...]]:
    """Pictures known to be clean: a null of nearness, and the controls of either domain."""
    pictures = audit.file.clean_references.pictures
    null = None
    if pictures:
        with audit.at("clean_references", "pictures"):
            null = open_corpus(audit.located(pictures), name="clean references")
    controls = []
    for place, control in enumerate(audit.file.controls):
        with audit.at("controls", place, "source"):
            opened = open_corpus(audit.located(control.source), name=control.name)
        inside = control.domain == "in-domain"
        controls.append(ControlSet(opened, "in domain" if inside else "out of domain"))
    return null, tuple(controls)


def folder_name(name: str) -> str:
    """A benchmark's name as the name of a folder, without parts that lead elsewhere."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "benchmark"


def _recording(audit: Audit, case: AuditCase, model: ModelEntry, place: int) -> Recording:
    if model.local is None and model.endpoint is None:
        return _recorded(audit, case, model, place)
    wanted = model.record or (["scores", "answers"] if model.local else ["answers"])
    with audit.at("models", place):
        chosen = model.ask_settings(audit.file)
        model.score_settings(audit.file)
    variants: list[Variant] = []
    shown: set[str] = set()
    count = 0
    if "answers" in wanted:
        variants = (
            chosen.parsed_variants
            if model.variants is not None
            else default_variants(case.benchmark)
        )
        named = {variant.name for variant in variants}
        needed = _for_detectors(audit)
        variants = [*variants, *(variant for variant in needed if variant.name not in named)]
        asked = {variant.name for variant in variants}
        variants += [
            Variant(name, source=str(twin.source))
            for name, twin in case.twins.items()
            if name not in asked
        ]
        questions = expand(
            case.benchmark,
            case.benchmark.examples[: audit.file.budget.items],
            variants,
            twins=_twins(variants, case),
            seed=audit.file.seed,
        )
        shown = {question.variant for question in questions.questions}
        count = len(questions.questions)
    return Recording(
        model,
        live=frozenset(wanted),
        moments=model.local is not None,
        variants=tuple(dict.fromkeys(variants)),
        shown=frozenset(shown),
        questions=count,
        twins=tuple(case.twins) if "scores" in wanted and audit.file.reads_twin_scores else (),
        letters="answers" in wanted and audit.file.reads_choices,
    )


def _for_detectors(audit: Audit) -> list[Variant]:
    """Variants that a detector needs which the audit file names."""
    named = [detector for name, detector in detectors().items() if name in audit.file.detectors]
    texts = [detector.asks for detector in named if detector.asks]
    return [variant for text in texts for variant in parse_variants(text)]


def _twins(variants: list[Variant], case: AuditCase) -> Mapping[str, Benchmark]:
    return {
        variant.name: case.twins[variant.name] for variant in variants if variant.name in case.twins
    }


def _recorded(audit: Audit, case: AuditCase, model: ModelEntry, place: int) -> Recording:
    files: dict[str, Path | None] = {}
    for kind in ("scores", "answers"):
        by_benchmark: Any = getattr(model, kind)
        source = by_benchmark.get(case.name) if isinstance(by_benchmark, dict) else by_benchmark
        files[kind] = Path(audit.located(source)) if source else None
    moments = False
    if (scores := files["scores"]) is not None:
        with audit.at("models", place, "scores", case.name):
            recorded = read_recorded(
                scores,
                [example.id for example in case.benchmark],
                model=model.name,
                allow_missing=model.allow_missing,
            )
            _named_there(scores, model.name, list(recorded.models))
        moments = all(row["mu"] for row in recorded.rows if row["model"] == model.name)
    shown: set[str] = set()
    if (answers := files["answers"]) is not None:
        with audit.at("models", place, "answers", case.name):
            recorded_answers = read_answers(
                answers, case.benchmark, model=model.name, mapping=dict(model.map)
            )
            _named_there(answers, model.name, list(recorded_answers))
        shown = {question.variant for question, _ in recorded_answers[model.name].pairs}
    return Recording(model, scores, answers, moments=moments, shown=frozenset(shown))


def _named_there(path: Path, name: str, models: list[str]) -> None:
    if name not in models:
        raise InputError(
            f"{path} holds {', '.join(models)}, and the audit file calls this model '{name}': give it "
            f"the name it has in the file"
        )


# The family of tests, fixed before anything runs: which detector on which cell, and why not others.


_LACKING = {
    Need.UNSEEN: "needs items that no model can have seen: clean_references.items",
    Need.VOCABULARY: (
        "no mean and spread over the vocabulary: only a local model gives them, or a file"
    ),
    Need.REFERENCE: "no reference model: clean_references.model, or baselines",
    Need.DOCUMENTS: "needs a model that runs: documents are not in a recorded file",
    Need.BUDGET: "needs budget.order_tokens",
    Need.COHORT: "a cohort needs three models with scores",
    Need.BASE: "no base model: name it under base",
    Need.ENTROPIES: (
        "needs a local checkpoint or an ONNX folder, and the detector's name under detectors: entropies are read "
        "on request"
    ),
    Need.CHOICES: "log-probabilities of options are recorded for detectors that are named: detectors",
}


@dataclass(frozen=True)
class Test:
    """One detector on one model (or pair of models) of one benchmark. ``lacks``: why it cannot be run."""

    benchmark: str
    model: str
    detector: str
    family: str
    lacks: str = ""

    @property
    def claim(self) -> str:
        return f"{self.family}/{self.model}"


def family_of_tests(cases: Sequence[AuditCase], file: AuditFile) -> list[Test]:
    return [test for case in cases for test in _of_case(case, file)]


def planned_claims(tests: Sequence[Test], benchmark: str) -> list[str]:
    """Claims of one benchmark that can be tested: each is one member of the corrected family."""
    mine = [test.claim for test in tests if test.benchmark == benchmark and not test.lacks]
    return list(dict.fromkeys(mine))


def _of_case(case: AuditCase, file: AuditFile) -> Iterator[Test]:
    candidates = list(_candidates(case, file))
    yield from candidates
    tried = {name for test in candidates for name in test.model.split(" & ")}
    for recording in case.recordings:
        if recording.name not in {*tried, *file.baselines}:
            yield Test(case.name, recording.name, ANSWERS, ANSWERS, ONE_FORM)


def _candidates(case: AuditCase, file: AuditFile) -> Iterator[Test]:
    baselines = set(file.baselines)
    scored = sorted(recording.name for recording in case.recordings if recording.scored)
    for name, detector in detectors().items():
        if (file.detectors and name not in file.detectors) or not detector.claims:
            continue
        if detector.of == "pair":
            for pair in combinations(scored, 2):
                if not baselines & set(pair):
                    yield Test(case.name, " & ".join(pair), name, detector.family)
            continue
        for recording in case.recordings:
            twins = recording.twins if TWIN_SCORES in detector.also else ()
            has = recording.scored if detector.needs == "scores" else recording.answered or twins
            if recording.name in baselines or not has:
                continue
            lacks = _lacks(detector, recording, file, scored)
            requested = detector.needs == "answers" or Need.ENTROPIES in detector.requires
            if lacks and requested and name not in file.detectors:
                continue  # a variant that was not asked is no gap in the audit
            yield Test(case.name, recording.name, name, detector.family, lacks)


def _lacks(detector: Detector, recording: Recording, file: AuditFile, scored: Sequence[str]) -> str:
    present = {
        Need.UNSEEN: bool(file.clean_references.items),
        Need.VOCABULARY: recording.moments,
        Need.REFERENCE: bool(file.clean_references.model or file.baselines),
        Need.DOCUMENTS: "scores" in recording.live,
        Need.BUDGET: bool(file.budget.order_tokens),
        Need.COHORT: len(scored) >= 3,
        Need.BASE: recording.entry.base is not None,
        Need.CHOICES: file.reads_choices,
        Need.ENTROPIES: file.reads_entropies
        and "scores" in recording.live
        and recording.entry.local is not None,
    }
    reasons = [
        reason
        for need, reason in _LACKING.items()
        if need in detector.requires and not present[need]
    ]
    if reasons:
        return "; ".join(reasons)
    scored_on = ("original", *recording.twins) if TWIN_SCORES in detector.also else ()
    if detector.lacks_variants({*recording.shown, *scored_on}):
        return "no answers in that form (twins, variants)"
    return ""


# What an audit writes beside its claims: corrected scores, and what to do with each item.


CORRECTED = "corrected.json"


def write_corrections(run: Run, models: Sequence[str], *, seed: int) -> CorrectedScores:
    corrected = correct_scores(run, models, seed=seed)
    run.write_json(CORRECTED, corrected.as_json())
    rows = "".join(json.dumps(row) + "\n" for row in actions(run))
    write_atomic(run.path / "actions.jsonl", rows)
    return corrected


def renew_corrections(run: Run) -> None:
    """Compute the corrections again for the models of the audit that made this run: people may have judged
    since."""
    if (run.path / CORRECTED).exists():
        models = [model["model"] for model in run.read_json(CORRECTED)["models"]]
        write_corrections(run, list(dict.fromkeys(models)), seed=run.manifest()["seed"])
