"""Claims about exact overlap: what the counts are worth, and what they cannot say.

| leaked images | controls                          | status       |
|---------------|-----------------------------------|--------------|
| any           | identity and coverage passed      | survives     |
| any           | coverage failed                   | survives (a lower bound) |
| none          | coverage passed                   | clean, for exact copies  |
| none          | coverage failed                   | qualified    |
| –             | nothing could be compared         | not testable |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.detect import Finding
from heldout.verdict.claim import Claim, Control, Status

# Unread corpus items above this share make "none found" a statement about the readable part only.
COVERAGE = 0.01


def overlap_claims(findings: Sequence[Finding], scanned: Mapping[str, Any]) -> list[Claim]:
    """One claim per corpus; ``scanned`` is the manifest's record of that corpus' scan."""
    images, questions, *rest = findings
    answers = rest[0] if rest else None
    cell = images.cell
    controls = [_identity(images), _coverage(scanned)]
    status, why = _status(images, controls)
    return [
        Claim(
            id=f"overlap/{cell.corpus}",
            cell=cell,
            sentence=_sentence(images, questions, answers),
            status=status,
            why=why,
            findings=[finding.id for finding in findings],
            controls=controls,
            next_step=_next_step(status, answers),
        )
    ]


def _identity(images: Finding) -> Control:
    methods = images.details["by_method"]
    told = ", ".join(f"{count:,} by {method}" for method, count in methods.items()) or "no match"
    reason = (
        f"matches rest on SHA-256 of original bytes or of native pixels ({told}); flat pictures, "
        f"which all look alike, are kept out"
    )
    return Control(name="identity", outcome="passed", reason=reason)


def _coverage(scanned: Mapping[str, Any]) -> Control:
    counts, failed = scanned["counts"], scanned["failed"]
    dropped, read = counts.get("dropped", 0), counts.get("items", 0)
    total = dropped + read
    share = dropped / total if total else 1.0
    told = f"{read:,} corpus items read, {dropped:,} dropped with a reason ({share:.2%})"
    if failed:
        told += f", {len(failed)} of {scanned['shards']} shards failed"
    outcome = "failed" if failed or share > COVERAGE else "passed"
    return Control(name="coverage", outcome=outcome, reason=told)  # type: ignore[arg-type]


def _status(images: Finding, controls: Sequence[Control]) -> tuple[Status, str]:
    covered = all(control.outcome == "passed" for control in controls)
    if images.n == 0:
        return "not testable", "no image of the benchmark could be read"
    if images.details["corpus_images_compared"] == 0:
        return "not testable", "no image of the corpus could be read"
    if images.statistic.value > 0:
        why = "identical bytes or pixels are the same image; no control speaks against it"
        return (
            "survives",
            why
            if covered
            else f"{why}, and parts of the corpus are unread: at least this much leaked",
        )
    bound = images.effect.high
    why = f"no exact copy among {images.n:,} images (95 % upper limit of the rate {bound:.1%})"
    if not covered:
        return "qualified", f"{why}, but part of the corpus could not be read"
    return "clean", f"{why}; blind to {'; '.join(images.blind_to)}"


def _sentence(images: Finding, questions: Finding, answers: Finding | None) -> str:
    benchmark, corpus = images.cell.benchmark, images.cell.corpus
    if images.statistic.value == 0:
        return f"No image of {benchmark} is in {corpus} as an exact copy."
    effect = images.effect
    told = "the corpus carries no answers that could have leaked with them"
    if answers is not None:
        told = f"{int(answers.statistic.value):,} of them leaked together with their answer"
    return (
        f"{int(images.statistic.value):,} of {images.n:,} images of {benchmark} "
        f"({effect.value:.1%} [{effect.low:.1%}, {effect.high:.1%}]) are in {corpus} as exact copies; "
        f"they carry {int(questions.statistic.value):,} of {questions.n:,} questions "
        f"({questions.effect.value:.1%}); {told}."
    )


def _next_step(status: Status, answers: Finding | None) -> str:
    if status == "survives" and answers is not None and answers.statistic.value > 0:
        return "remove the leaked items before reporting a score; those with their answer first"
    if status == "survives":
        return "report the score with and without the leaked images"
    if status == "qualified":
        return "make the dropped part of the corpus readable (see the dropped table) and run again"
    if status == "not testable":
        return "run heldout check on the benchmark, and look at the dropped table"
    return "exact copies are the narrowest kind of leak: near-duplicates were not looked for"
