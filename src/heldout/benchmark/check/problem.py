"""What a check returns: facts, problems with examples and advice, and the order table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Severity = Literal["error", "warning", "note"]
EXAMPLES_KEPT = 1000  # a JSON reader wants all of them; a table shows three


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

    @property
    def ok(self) -> bool:
        """False if anything was found that makes scores on this benchmark wrong."""
        return not any(problem.severity == "error" for problem in self.problems)


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
        examples=affected[:EXAMPLES_KEPT],
    )
