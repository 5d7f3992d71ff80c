"""The family of tests, fixed before anything runs: which detector on which cell, and why not others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from heldout.audit.audit_file import AuditFile
from heldout.audit.cases import AuditCase, Recording
from heldout.detect import Detector, Need, detectors
from heldout.store import Run, write_atomic
from heldout.verdict import ANSWERS, ONE_FORM, CorrectedScores, actions, correct_scores

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
            has = recording.scored if detector.needs == "scores" else recording.answered
            if recording.name in baselines or not has:
                continue
            lacks = _lacks(detector, recording, file, scored)
            if lacks and detector.needs == "answers" and name not in file.detectors:
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
    }
    reasons = [
        reason
        for need, reason in _LACKING.items()
        if need in detector.requires and not present[need]
    ]
    if reasons:
        return "; ".join(reasons)
    if detector.lacks_variants(recording.shown):
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
