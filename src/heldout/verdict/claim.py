"""Claim: a sentence, the findings it rests on, the controls they went through, and a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from heldout.detect import Cell
from heldout.evidence import Rung, leaks
from heldout.store import Run
from heldout.verdict.measured import FiringCount

Status = Literal["survives", "qualified", "re-attributed", "collapses", "clean", "not testable"]
#: what people read in place of the stored status
PLAIN: dict[str, str] = {
    "survives": "confirmed",
    "qualified": "possible, not confirmed",
    "re-attributed": "explained by something else",
    "collapses": "refuted",
    "clean": "nothing found",
    "not testable": "not testable",
}
NOTHING_TO_COMPARE = "something to compare"  # the control that is missing where a side is empty
CORPUS_COVERAGE = "corpus coverage"  # the control that fails where too much of it could not be read
WHOLE_CORPUS = "whole corpus"  # the control that fails where only the first items were read

LIMIT = "limit of the search"  # in place of an outcome, where a claim need not pass the control


class FalseAlarms(BaseModel):
    """How often a detector fired on models that were trained without the benchmark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    detector: str
    clean: FiringCount


class Control(BaseModel):
    """One challenge to a finding and how it ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    outcome: Literal["passed", "failed", "missing"]
    reason: str
    # what the reason says in words, where the control compares with lab models
    false_alarms: FalseAlarms | None = None


class Claim(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    cell: Cell
    sentence: str
    status: Status
    why: str  # the reasons in one sentence
    rule: str = ""  # the row of the verdict's table that decided: verdict/rules.py
    findings: list[str]
    controls: list[Control] = Field(default_factory=list)
    next_step: str = ""  # what would settle it, or what to do about it
    #: corrected over all claims that were planned together; None where nothing was tested
    corrected_p: float | None = None

    def ended(self, control: Control) -> str:
        """How a control ended. What a claim does not depend on, such as unread parts beside a proven copy,
        limits the search and is not a control of that claim."""
        limit = self.status == "survives" and control.outcome != "passed"
        return LIMIT if limit else control.outcome

    @property
    def idle(self) -> bool:
        """True if one side has nothing of the kind that this claim is about: then there is nothing to
        settle."""
        return any(control.name == NOTHING_TO_COMPARE for control in self.controls)


# What to do about an item, by its rung.


_TOLD = {
    Rung.COPY: "copy of the picture, without the answer",
    Rung.FULL: "copy of the picture, with the answer",
    Rung.UNDECIDED: "undecided picture",
    Rung.UNCOMPARED: "undecided: question and answer, pictures that could not be compared",
}
#: from the highest rung down
ACTIONS: dict[Rung, str] = {
    Rung.FULL: "remove",
    Rung.COPY: "leave out, or report with and without",
    Rung.TEXT: "remove",
    Rung.UNDECIDED: "have people judge it",
    Rung.UNCOMPARED: "make its pictures readable, and compare them",
    Rung.BESIDE_ANOTHER: "keep; read whether it can be answered without its picture",
    Rung.SOURCE_OVERLAP: "report with and without; one source with the corpus",
    Rung.LOOK_ALIKE: "look at it; a copy that could not be aligned is not ruled out",
    Rung.WORDING: "read its texts; many people may ask the same",
    Rung.SIMILAR: "read its texts; they may be a rewording or another question",
}


def rung_words(rung: str, *, answers_compared: bool = True) -> str:
    """A rung in plain words. A copy is the same image or a transformed one."""
    if Rung(rung) is Rung.COPY and not answers_compared:
        return "copy of the picture, answer not compared"
    return _TOLD.get(Rung(rung), str(rung))


def actions(run: Run) -> Iterator[dict[str, Any]]:
    """What to do about each item, as one row per item and corpus, in the order of the items."""
    position = {row["benchmark_id"]: row["position"] for row in run.read_table("items").to_pylist()}
    rows = [row for row in leaks(run).to_dicts() if row["rung"] in ACTIONS]
    for row in sorted(rows, key=lambda row: (position.get(row["benchmark_id"], -1), row["corpus"])):
        yield {
            "benchmark_id": row["benchmark_id"],
            "action": ACTIONS[Rung(row["rung"])],
            "evidence": row["rung"],
            "corpus": row["corpus"],
            "corpus_id": row["corpus_id"],
        }
