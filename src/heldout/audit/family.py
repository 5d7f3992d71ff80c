"""The family of tests, fixed before anything runs: which detector on which cell, and why not others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from heldout.audit.audit_file import AuditFile
from heldout.audit.cases import Case, Recording
from heldout.detect import CLAIMING, detectors
from heldout.verdict import ANSWERS, FAMILIES, ONE_FORM

_UNSEEN = ("loss", "min-k", "min-k++", "zlib", "max-renyi-k", "perplexity-ratio", "blind")
_VOCABULARY = ("min-k++", "max-renyi-k")


@dataclass(frozen=True)
class Test:
    """One detector on one model (or pair of models) of one benchmark. ``lacks``: why it cannot be made."""

    benchmark: str
    model: str
    detector: str
    family: str
    lacks: str = ""

    @property
    def claim(self) -> str:
        return f"{self.family}/{self.model}"


def family_of_tests(cases: Sequence[Case], file: AuditFile) -> list[Test]:
    return [test for case in cases for test in _of_case(case, file)]


def planned_claims(tests: Sequence[Test], benchmark: str) -> list[str]:
    """Claims of one benchmark that can be tested: each is one member of the corrected family."""
    mine = [test.claim for test in tests if test.benchmark == benchmark and not test.lacks]
    return list(dict.fromkeys(mine))


def _of_case(case: Case, file: AuditFile) -> Iterator[Test]:
    made = list(_candidates(case, file))
    yield from made
    tried = {name for test in made for name in test.model.split(" & ")}
    for recording in case.recordings:
        if recording.name not in {*tried, *file.baselines}:
            yield Test(case.name, recording.name, ANSWERS, ANSWERS, ONE_FORM)


def _candidates(case: Case, file: AuditFile) -> Iterator[Test]:
    baselines = set(file.baselines)
    scored = sorted(recording.name for recording in case.recordings if recording.scored)
    for name, detector in detectors().items():
        if (file.detectors and name not in file.detectors) or detector.family not in FAMILIES:
            continue
        if name == "top-k-overlap":
            for pair in combinations(scored, 2):
                if not baselines & set(pair):
                    yield Test(case.name, " & ".join(pair), name, detector.family)
            continue
        for recording in case.recordings:
            has = recording.scored if detector.needs == "scores" else recording.answered
            if recording.name in baselines or not has:
                continue
            lacks = _lacks(name, recording, case, file, scored)
            if lacks and detector.family in CLAIMING and name not in file.detectors:
                continue  # a form nobody asked a model about is no gap in the audit
            yield Test(case.name, recording.name, name, detector.family, lacks)


def _lacks(
    detector: str, recording: Recording, case: Case, file: AuditFile, scored: Sequence[str]
) -> str:
    shown = recording.shown
    if detector in _UNSEEN and not file.clean_references.items:
        return "no items that nobody can have seen: clean_references.items"
    if detector in _VOCABULARY and not recording.moments:
        return "no mean and spread over the vocabulary: only a local model gives them, or a file"
    if detector == "perplexity-ratio" and not (file.clean_references.model or file.baselines):
        return "no reference model: clean_references.model, or baselines"
    if detector == "order-joint" and not ("scores" in recording.live and file.budget.order_tokens):
        return "needs a model that runs, and budget.order_tokens"
    if detector == "order-neighbour" and "scores" not in recording.live:
        return "needs a model that runs: documents are not in a recorded file"
    if detector == "tail-enrichment" and len(scored) < 3:
        return "a cohort needs three models with scores"
    wanted = {
        "twin-drop": any(name.startswith("twin") for name in shown),
        "option-order": any(name.startswith(("shuffle", "rotation")) for name in shown),
        "circular": any(name.startswith("rotation") for name in shown),
        "choice-confusion": "confused-choices" in shown,
        "multimodal-leakage": "no-image" in shown and recording.entry.base is not None,
        "slot-guess": "slot" in shown and "slot-paraphrase" in shown,
    }
    return "" if wanted.get(detector, True) else "no answers in that form (twins, variants)"
