"""Checks of a model's scores before any test: a score that cannot be trusted makes nothing testable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heldout.detect.tables import ModelScores, ScoreTables
from heldout.stats import tie_runs

# Log-probabilities are continuous: unless a model is certain (log p = 0), equal ones are an accident.
TIED = 0.01
FEW_TIES = 5
BAD_SPANS = 0.01
FEW_ITEMS = 20


class SelfCheck(NamedTuple):
    """``passed`` is None where nothing could be checked: no reason to doubt the scores, and none to
    trust them."""

    name: str
    passed: bool | None
    reason: str

    @property
    def failed(self) -> bool:
        return self.passed is False

    @property
    def outcome(self) -> str:
        return {True: "passed", False: "failed", None: "not checked"}[self.passed]


def self_checks(tables: ScoreTables, model: str) -> list[SelfCheck]:
    scored = tables.scored(model)
    made = [
        _coverage(tables, scored),
        _finite(scored),
        _spans(scored),
        _answers(scored),
        _constant(scored),
        _ties(scored),
    ]
    return [*made, *_recorded(tables, model, {check.name for check in made})]


def _recorded(tables: ScoreTables, model: str, made: set[str]) -> list[SelfCheck]:
    """What only scoring could check, because it needs the model: does it look, was a prompt cut?"""
    known = tables.identities.get(model, {})
    kept = known.get("self_checks") or ()
    if not kept and str(known.get("backend", "")).startswith("recorded"):
        message = "recorded scores come without the model: whether it looks is not known"
        return [SelfCheck("ablation", None, message)]
    return [
        SelfCheck(str(one["name"]), one["passed"], str(one["reason"]))
        for one in kept
        if one["name"] not in made
    ]


def _coverage(tables: ScoreTables, scored: ModelScores) -> SelfCheck:
    message = f"{len(scored):,} of {len(tables.items):,} items have a score"
    return SelfCheck("coverage", len(scored) >= FEW_ITEMS, message)


def _finite(scored: ModelScores) -> SelfCheck:
    bad = int((~np.isfinite(scored.totals)).sum()) + int((scored.counts < 1).sum())
    return SelfCheck("finite", bad == 0, f"{bad:,} scores are NaN, infinite or of no token")


def _spans(scored: ModelScores) -> SelfCheck:
    rows = scored.frame.select("span_ok", "tokens", "answer").rows()
    spelled = [_spells(tokens or [], answer or "") if ok else False for ok, tokens, answer in rows]
    bad, unknown = spelled.count(False), spelled.count(None)
    message = f"in {bad:,} of {len(rows):,} items the scored span is not the answer alone"
    if unknown:
        message += f"; {unknown:,} have no tokens to compare with it, or none that can be read back"
    if bad > BAD_SPANS * len(rows):
        return SelfCheck("span", False, message)
    return SelfCheck("span", None if rows and unknown == len(rows) else True, message)


def _spells(tokens: Sequence[str], answer: str) -> bool | None:
    """Do the letters of the tokens spell the answer? None without tokens; pieces of other alphabets
    cannot be read back."""
    written = "".join(tokens)
    if not written or not answer.isascii():
        return None
    letters = [
        "".join(c for c in text if c.isascii() and c.isalnum()) for text in (written, answer)
    ]
    return letters[0] == letters[1]


def _answers(scored: ModelScores) -> SelfCheck:
    answers = [(answer or "").strip() for answer in scored.frame["answer"]]
    empty = sum(not answer for answer in answers)
    if empty > 0.01 * max(len(answers), 1):
        return SelfCheck("answers", False, f"{empty:,} of {len(answers):,} answers are empty")
    if len(answers) > 1 and len(set(answers)) == 1:
        return SelfCheck("answers", False, f"every answer is {answers[0][:40]!r}: nothing to tell")
    return SelfCheck("answers", True, f"{len(set(answers)):,} different answers, {empty} empty")


def _constant(scored: ModelScores) -> SelfCheck:
    different = len(np.unique(scored.means))
    message = f"{different:,} different scores among {len(scored):,}"
    return SelfCheck("variation", different > 1, message)


def _ties(scored: ModelScores) -> SelfCheck:
    frame = scored.frame
    asked = list(zip(frame["question"], frame["answer"], frame["cluster"], strict=True))
    certain = scored.means > -1e-9  # a model sure of two answers gives both log p = 0
    values = np.where(certain, -np.arange(len(scored), dtype=np.float64) - 1e6, scored.means)
    runs = tie_runs(values, asked)
    message = (
        f"{runs.tied:,} of {runs.pairs:,} neighbouring items with another question, answer or image "
        f"have the same score to the last digit (longest run {runs.longest})"
    )
    broken = runs.tied >= FEW_TIES and runs.rate > TIED
    if broken:
        message += ": the adapter drops what tells them apart"
    return SelfCheck("ties", not broken, message)
