"""Claim: a sentence, the findings it rests on, the controls they went through, and a status."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from heldout.detect import Cell

Status = Literal["survives", "qualified", "re-attributed", "collapses", "clean", "not testable"]
NOTHING_TO_COMPARE = "something to compare"  # the control that is missing where a side is empty

LIMIT = "limit of the search"  # in the place of an outcome, where a claim need not meet the control


class Control(BaseModel):
    """One challenge to a finding and how it ended."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    outcome: Literal["passed", "failed", "missing"]
    reason: str


class Claim(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    cell: Cell
    sentence: str
    status: Status
    why: str  # the reason trail in one sentence
    rule: str = ""  # the row of the verdict's table that decided: verdict/rules.py
    findings: list[str]
    controls: list[Control] = Field(default_factory=list)
    next_step: str = ""  # what would settle it, or what to do about it

    def ended(self, control: Control) -> str:
        """How a control ended. What a claim stands without, such as parts that nobody read beside a proven
        copy, limits the search and is no control of that claim."""
        limit = self.status == "survives" and control.outcome != "passed"
        return LIMIT if limit else control.outcome

    @property
    def idle(self) -> bool:
        """True if a side has nothing of the kind this claim is about: it settles nothing, and need not."""
        return any(control.name == NOTHING_TO_COMPARE for control in self.controls)
