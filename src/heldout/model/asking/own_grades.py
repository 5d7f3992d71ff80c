"""What a file says of its own answers, beside what strict grading says of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from heldout.errors import counted
from heldout.model.asking.recorded import RecordedAnswers

SHOWN = 5  # ids that are named; JSON has as many


@dataclass(frozen=True)
class OwnGrades:
    """Two grades of the same rows. ``file_only`` and ``heldout_only`` count rows that one of them alone
    calls right; ``partial`` those that the file calls neither right nor wrong (a score of 0.6)."""

    column: str
    rows: int
    file_accuracy: float
    heldout_accuracy: float
    file_only: int
    heldout_only: int
    partial: int
    file_only_ids: list[str] = field(default_factory=list)
    heldout_only_ids: list[str] = field(default_factory=list)
    #: why the two are not compared, where they are not
    not_compared: str = ""

    @property
    def disagree(self) -> int:
        """Rows on which the two differ."""
        return self.file_only + self.heldout_only + self.partial

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "disagree": self.disagree, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """For people: how many rows, which way, which ones, and both accuracies."""
        head = f"the file's own grade (column '{self.column}')"
        if self.not_compared:
            return f"{head} was not compared: {self.not_compared}"
        both = f"{self.file_accuracy:.1%} by the file, {self.heldout_accuracy:.1%} by heldout"
        if not self.disagree:
            return f"{head} agrees on all {self.rows:,} rows"
        ways = [
            f"{count:,} right for {who} alone ({_named(ids, count)})"
            for count, who, ids in (
                (self.heldout_only, "heldout", self.heldout_only_ids),
                (self.file_only, "the file", self.file_only_ids),
            )
            if count
        ]
        if self.partial:
            ways.append(f"{self.partial:,} with a part of the credit in the file")
        return (
            f"{head} disagrees on {self.disagree:,} of {self.rows:,} rows: {', '.join(ways)}; "
            f"accuracy {both}"
        )


def compare_grades(column: str, grades: Iterable[tuple[str, bool, float]]) -> OwnGrades | None:
    """``grades``: id, right by heldout, the file's grade. None where there is nothing to compare."""
    listed = list(grades)
    if not listed:
        return None
    theirs = [own for _, _, own in listed]
    low, high = min(theirs), max(theirs)
    if low < 0 or high > 1:
        reason = f"its values run from {low:g} to {high:g}; 0 to 1 would be a grade"
        return OwnGrades(column, len(listed), 0.0, 0.0, 0, 0, 0, not_compared=reason)
    by_file = [name for name, right, own in listed if own == 1 and not right]
    by_us = [name for name, right, own in listed if own == 0 and right]
    return OwnGrades(
        column,
        len(listed),
        sum(theirs) / len(listed),
        sum(right for _, right, _ in listed) / len(listed),
        len(by_file),
        len(by_us),
        sum(0 < own < 1 for own in theirs),
        by_file[:SHOWN],
        by_us[:SHOWN],
    )


def own_grades_of(answers: RecordedAnswers, rows: Sequence[Mapping[str, Any]]) -> OwnGrades | None:
    """``rows`` are the graded ones of ``answers.pairs``, in their order."""
    if answers.graded_by is None:
        return None
    return compare_grades(
        answers.graded_by,
        [
            (question.benchmark_id, row["outcome"] == "right", answers.own_grades[question.id])
            for (question, _), row in zip(answers.pairs, rows, strict=True)
            if question.id in answers.own_grades
        ],
    )


def recorded_remarks(own: OwnGrades | None, empty: Sequence[str]) -> list[str]:
    """What is to be known of a file of predictions, as sentences."""
    remarks = [own.sentence] if own is not None else []
    if empty:
        what = counted(
            len(empty), "prediction is empty and counts", "predictions are empty and count"
        )
        remarks.append(f"{what} as not right: {_named(empty[:SHOWN], len(empty))}")
    return remarks


def _named(ids: Sequence[str], count: int) -> str:
    return ", ".join(ids) + (" …" if count > len(ids) else "")
