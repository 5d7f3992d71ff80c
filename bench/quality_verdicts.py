"""Verdicts in the quality table: how often `heldout detect` is wrong on recordings of models whose memory is known.

The recipes are those of shared quality/verdicts and of verdict_recipes.py. Seeds of one parity settle, the others are
reported. ``REPLICATES`` of each; half of them where these settle it, twice as many where the bound is near.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality_figures import HIGHER, LOWER, Figure, interval, share

REPLICATES = 40
BOUND = 0.05  # of wrong verdicts
CONVICTED, CLEARED = (
    ("survives", "confirmed"),
    ("clean", "nothing found"),
)  # before and in the second edition


@dataclass(frozen=True)
class Case:
    """A recipe with its changes. ``every``: all claims count, not the one the recipe names."""

    name: str
    recipe: str
    asks: str  # clean: may not be convicted; cleared: may not be cleared; power: is to be convicted
    changes: Mapping[str, Any] = field(default_factory=dict)
    every: bool = False
    most: int = 80  # replicates


TWINS = ("twin-drop", "twin-memory")
CASES = (
    Case("knows facts, by answers", "knowledge", "clean", most=20),  # six seconds each
    Case(
        "trained on the train split",
        "train_split",
        "clean",
        {"prior": 0.2, "detectors": TWINS},
        True,
    ),
    Case("usual answer of open questions", "open_prior", "clean"),
    Case("plausible option when unsure", "option_prior", "clean"),
    Case("prior of a nat for the usual answer", "language_prior", "clean"),
    Case("natural orders in other languages", "foreign_order", "clean"),
    Case("hedges on edited pictures", "hedges", "clean"),
    Case("reads fine print", "fine_print", "clean"),
    Case("knows names, by scores", "knowledge_scores", "clean"),
    Case("twins asked later, five draws", "draws", "clean"),
    Case("says yes", "skewed_yes", "clean"),
    Case("few pictures, many questions", "clusters", "clean"),
    Case("families far apart", "heavy_tail", "clean"),
    Case("one model, its scores alone", "solo_scores", "cleared"),
    Case("rotations alone, 30 %", "default_path", "cleared", {"known": 0.3, "twins": False}),
    Case("references remember the same", "leaked", "cleared", {"known": 0.1, "ref_known": 0.1}),
    Case("a popular tenth", "leaked", "cleared", {"category": 0.1}),
    Case("near the printed effect", "leaked", "cleared", {"known": 0.14, "spread": 0.37}),
    Case("remembers 10 %", "leaked", "power", {"known": 0.10}),
    Case("remembers 15 %", "leaked", "power", {"known": 0.15}),
    Case("remembers 20 %", "leaked", "power", {"known": 0.20}),
)
COUNTS = {
    "clean": ("clean, called confirmed", LOWER),
    "cleared": ("contaminated, nothing found", LOWER),
    "power": ("contaminated, confirmed", HIGHER),
}


def recipes(shared: Path) -> Mapping[str, Any]:
    folder = str(shared / "quality/verdicts")
    if folder not in sys.path:
        sys.path.append(folder)
    from recipes import RECIPES  # type: ignore[import-not-found]

    return dict(RECIPES)


def outcome(case: Case, seed: int, shared: Path) -> bool:
    """Was it called what is counted?"""
    from heldout.verdict import judge, look

    recording = recipes(shared)[case.recipe](seed, **case.changes)
    ((detectors, settings),) = recording.looks
    claims = judge(look(recording.tables, detectors, settings), recording.others).claims
    statuses = [claim.status for claim in claims if case.every or recording.claim in ("", claim.id)]
    return is_counted(case, statuses)


def is_counted(case: Case, statuses: Sequence[str]) -> bool:
    """Somebody who reads the claims is told that the model is contaminated, or that nothing was found."""
    convicted = any(status in CONVICTED for status in statuses)
    if case.asks == "cleared":
        return not convicted and any(status in CLEARED for status in statuses)
    return convicted


def figure_of(case: Case, outcomes: list[bool]) -> Figure:
    name, better = COUNTS[case.asks]
    return share("verdicts", case.name, name, outcomes, better)


def measure(shared: Path, half: int, name: str) -> list[Figure]:
    case = next(case for case in CASES if case.name == name)
    outcomes: list[bool] = []
    for turn in range(case.most):
        if turn >= enough(case, outcomes):
            break
        outcomes.append(outcome(case, 2 * turn + half, shared))
    return [figure_of(case, outcomes)]


def enough(case: Case, outcomes: Sequence[bool]) -> int:
    """Half of the replicates where they show that the bound is passed, twice as many where a mistake was seen and the
    interval still holds it."""
    low, _ = interval(sum(outcomes), len(outcomes)) if outcomes else (0.0, 1.0)
    if case.asks == "power":
        return REPLICATES
    if low > BOUND and len(outcomes) >= REPLICATES // 2:
        return REPLICATES // 2
    return 2 * REPLICATES if any(outcomes) and low <= BOUND else REPLICATES
