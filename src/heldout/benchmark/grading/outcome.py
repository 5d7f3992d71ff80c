"""What became of a reply."""

from __future__ import annotations

from typing import NamedTuple

OUTCOMES = ("right", "wrong", "unparsed", "refused")


class Grade(NamedTuple):
    """``parsed`` is the letter chosen, or an open answer's text; empty where no rule read one."""

    outcome: str
    parsed: str
    rule: str
