"""One model under several names: it is no reference for itself, and three times the same one are not three families.

Two models that are not the same never agree to the letter: in every reply, among them many wrong ones, or in every
log-probability. Models that are right about everything agree, too, and are not told apart from one model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import polars as pl

from heldout.detect import DetectSettings, ScoreTables
from heldout.verdict._model_claims import BASELINE
from heldout.verdict.claim import Control
from heldout.verdict.controls.behaviour import SPREAD

LEAST_ALIKE = 10  # wrong replies, or different scores, below which agreement may be chance
_REPLY = ("benchmark_id", "variant", "draw", "outcome", "parsed")


def same_models(tables: ScoreTables) -> dict[str, str]:
    """By model the name of the first one with the very same replies or scores, where there is another."""
    groups: dict[str, str] = {}
    same: dict[str, str] = {}
    for model in sorted({*tables.models, *tables.answering}):
        marks = [mark for mark in (_of_answers(tables, model), _of_scores(tables, model)) if mark]
        first = next((groups[mark] for mark in marks if mark in groups), model)
        for mark in marks:
            groups.setdefault(mark, first)
        if first != model:
            same[model] = same[first] = first
    return same


def _of_answers(tables: ScoreTables, model: str) -> str:
    if tables.answers is None or not set(_REPLY) <= set(tables.answers.columns):
        return ""
    mine = tables.answers.filter(pl.col("model") == model).select(_REPLY)
    wrong = (pl.col("outcome") == "wrong") & (pl.col("parsed").fill_null("") != "")
    return _digest("replies", mine) if len(mine.filter(wrong)) >= LEAST_ALIKE else ""


def _of_scores(tables: ScoreTables, model: str) -> str:
    mine = tables.scores.filter(pl.col("model") == model).select("benchmark_id", "sum_logprob")
    return _digest("scores", mine) if mine["sum_logprob"].n_unique() >= LEAST_ALIKE else ""


def _digest(kind: str, rows: pl.DataFrame) -> str:
    return f"{kind} {hashlib.sha256(rows.hash_rows().sort().to_numpy().tobytes()).hexdigest()}"


def as_one_family(settings: DetectSettings, same: Mapping[str, str]) -> DetectSettings:
    """The same settings, in which all names of a model are of one family."""
    families = dict(settings.families)
    for first in set(same.values()):
        names = sorted(name for name in same if same[name] == first)
        named = [family for name in names if (family := settings.family_of(name))]
        families |= dict.fromkeys(names, named[0]) if named else {}
    return settings.model_copy(update={"families": tuple(families.items())})


def without_itself(
    controls: Sequence[Control],
    model: str,
    settings: DetectSettings,
    same: Mapping[str, str],
    asked: bool,
) -> list[Control]:
    """Controls in which the model itself, under another name, was a reference; ``asked``: the claim needs one."""
    itself = [
        name
        for name in settings.baselines
        if name != model and same.get(name, name) == same.get(model)
    ]
    labels = {f"{BASELINE} {name}" for name in itself}
    kept = [_said(control, settings, same) for control in controls if control.name not in labels]
    missing = [
        Control(
            name=f"{BASELINE} {name}",
            outcome="missing",
            reason=f"{name} has the very replies or scores of {model}: it is the same model, and no reference",
        )
        for name in itself
        if asked
    ]
    return [*missing, *kept]


def _said(control: Control, settings: DetectSettings, same: Mapping[str, str]) -> Control:
    groups = {
        first: [name for name in settings.baselines if same.get(name) == first]
        for first in dict.fromkeys(same.values())
    }
    several = [" and ".join(dict.fromkeys(names)) for names in groups.values() if len(names) > 1]
    if control.name != SPREAD or control.outcome == "passed" or not several:
        return control
    reason = (
        f"{control.reason}; {'; '.join(several)} have the very same replies or scores: one model"
    )
    return control.model_copy(update={"reason": reason})
