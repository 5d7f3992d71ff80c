"""One model under several names: it is no reference for itself, and three times the same one are not three families.

Two models that are not the same never agree to the letter: in every reply, among them many wrong ones, or in every
log-probability. Models that are right about everything agree, too, and are not told apart from one model. References
that share nine in ten of their wrong replies are of one family, whatever they are called: one checkpoint in two
backends differs in a few of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import polars as pl

from heldout.detect import DetectSettings, ScoreTables
from heldout.model import named_sentence
from heldout.verdict._model_claims import BASELINE
from heldout.verdict.claim import Control
from heldout.verdict.controls.behaviour import SPREAD

LEAST_ALIKE = 10  # wrong replies, or different scores, below which agreement may be chance
NEARLY = 0.9  # of the wrong replies that either of two models gives, those that both give
_REPLY = ("benchmark_id", "variant", "draw", "outcome", "parsed")
_WRONG = (pl.col("outcome") == "wrong") & (pl.col("parsed").fill_null("") != "")


def same_models(tables: ScoreTables) -> dict[str, str]:
    """By model the name of the first one with the very same replies or scores, where there is another."""
    groups: dict[str, str] = {}
    same: dict[str, str] = {}
    for model in sorted({*tables.models, *tables.answering}):
        marks = [mark(tables, model) for mark in (_of_answers, _of_letters, _of_scores)]
        marks = [mark for mark in marks if mark]
        first = next((groups[mark] for mark in marks if mark in groups), model)
        for mark in marks:
            groups.setdefault(mark, first)
        if first != model:
            same[model] = same[first] = first
    return same


def one_family(
    tables: ScoreTables, baselines: Sequence[str], same: Mapping[str, str]
) -> dict[str, str]:
    """By baseline the first one that is the same model or nearly so, where there is another; and ``same``."""
    alike = dict(same)
    replies = {name: _wrong(tables, name) for name in dict.fromkeys(baselines)}
    firsts: list[str] = []
    for name, mine in replies.items():
        first = next((other for other in firsts if _nearly(replies[other], mine)), None)
        if first is None:
            firsts.append(name)
        else:
            alike[name] = alike[first] = alike.get(first, first)
    return alike


def _nearly(first: frozenset[int], second: frozenset[int]) -> bool:
    """Of two models' wrong replies."""
    shared, either = len(first & second), len(first | second)
    return shared >= LEAST_ALIKE and shared >= NEARLY * either


def _wrong(tables: ScoreTables, model: str) -> frozenset[int]:
    """Its wrong replies, as numbers."""
    if tables.answers is None or not set(_REPLY) <= set(tables.answers.columns):
        return frozenset()
    mine = tables.answers.filter((pl.col("model") == model) & _WRONG).select(_REPLY)
    return frozenset(mine.hash_rows().to_list())


def _of_letters(tables: ScoreTables, model: str) -> str:
    """Log-probabilities of options, which say more than replies that are all right."""
    names = ("benchmark_id", "variant", "draw", "choice_logprobs")
    if tables.answers is None or not set(names) <= set(tables.answers.columns):
        return ""
    mine = tables.answers.filter(
        (pl.col("model") == model) & pl.col("choice_logprobs").is_not_null()
    ).select(names)
    values = mine["choice_logprobs"].list.first()
    return _digest("letters", mine) if values.n_unique() >= LEAST_ALIKE else ""


def _of_answers(tables: ScoreTables, model: str) -> str:
    if tables.answers is None or not set(_REPLY) <= set(tables.answers.columns):
        return ""
    mine = tables.answers.filter(pl.col("model") == model).select(_REPLY)
    return _digest("replies", mine) if len(mine.filter(_WRONG)) >= LEAST_ALIKE else ""


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
    alike: Mapping[str, str],
    asked: bool,
) -> list[Control]:
    """Controls in which the model itself, under another name, was a reference; ``alike``: those of one family;
    ``asked``: the claim needs one."""
    itself = [
        name
        for name in settings.baselines
        if name != model and same.get(name, name) == same.get(model)
    ]
    labels = {f"{BASELINE} {name}" for name in itself}
    kept = [_said(control, settings, alike) for control in controls if control.name not in labels]
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


SERVED = "one model in all replies"


def served_as_one(tables: ScoreTables, models: Sequence[str]) -> list[Control]:
    """A control that fails where a server named several models while it was asked about one of these."""
    told = {name: named_sentence(tables.identities.get(name, {})) for name in models}
    reasons = [f"{name}: {sentence}" for name, sentence in told.items() if sentence]
    return [Control(name=SERVED, outcome="failed", reason="; ".join(reasons))] if reasons else []


def _said(control: Control, settings: DetectSettings, alike: Mapping[str, str]) -> Control:
    groups = {
        first: [name for name in settings.baselines if alike.get(name) == first]
        for first in dict.fromkeys(alike.values())
    }
    several = [" and ".join(dict.fromkeys(names)) for names in groups.values() if len(names) > 1]
    if control.name != SPREAD or control.outcome == "passed" or not several:
        return control
    reason = f"{control.reason}; {'; '.join(several)} have the very same replies or scores, or nearly: one model"
    return control.model_copy(update={"reason": reason})
