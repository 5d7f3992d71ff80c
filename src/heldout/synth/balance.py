"""Balance: letters in equal shares, and an order in which every prefix is as mixed as the whole allows."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from typing import Any

from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.ledger import StageWriter, read_rows
from heldout.synth.question_labels import anatomy_of, archetype_of, modality_of
from heldout.synth.settings import SynthStage
from heldout.synth.verify import draft_batches

STAGE = "balance"
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def _balance(context: StageContext, writer: StageWriter) -> None:
    kept = {row["id"]: row["flagged"] for row in read_rows(context.run, SynthStage.SHORTCUT)}
    rng = random.Random(f"{context.settings.seed}/balance")
    letters: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for batch in draft_batches(context):  # the letters that cannot be chosen come first
        for draft, _ in batch:
            if draft.id in kept and (fixed := ascending(draft)) is not None:
                letters[fixed[1]] += 1
    for batch in draft_batches(context):
        for draft, figure in batch:
            if draft.id in kept:
                rows.append(_row(draft, figure, letters, rng))
    for rank, row in enumerate(mixed(rows, rng, kept)):
        writer.keep({**row, "rank": rank})


BALANCE = StageWork(
    SynthStage.BALANCE,
    _balance,
    ("seed",),
    (SynthStage.SELECT, SynthStage.GENERATE, SynthStage.SHORTCUT),
)


def _row(
    draft: Draft, figure: PaperFigure, letters: Counter[str], rng: random.Random
) -> dict[str, Any]:
    fixed = ascending(draft)
    options, answer = fixed if fixed is not None else reordered(draft, letters, rng)
    if fixed is None:
        letters[answer] += 1
    return {
        "id": draft.id,
        "options": list(options),
        "answer": answer,
        "archetype": archetype_of(draft),
        "modality": modality_of(figure),
        "anatomy": anatomy_of(draft, figure),
    }


def ascending(draft: Draft) -> tuple[tuple[str, ...], str] | None:
    """Options that are numbers in ascending order, as a reader expects them, and the letter that the
    right one has there; None for other options."""
    values = [_NUMBER.findall(option) for option in draft.options]
    if not all(len(found) == 1 for found in values):
        return None
    right = LETTERS.index(draft.answer)
    order = sorted(range(len(values)), key=lambda place: float(values[place][0]))
    return tuple(draft.options[place] for place in order), LETTERS[order.index(right)]


def reordered(
    draft: Draft, letters: Counter[str], rng: random.Random
) -> tuple[tuple[str, ...], str]:
    """The options in a new order, with the right one under the letter that was rarest so far."""
    right = draft.options[LETTERS.index(draft.answer)]
    fewest = min(letters[letter] for letter in LETTERS)
    place = LETTERS.index(rng.choice([letter for letter in LETTERS if letters[letter] == fewest]))
    others = [
        option for at, option in enumerate(draft.options) if at != LETTERS.index(draft.answer)
    ]
    rng.shuffle(others)
    others.insert(place, right)
    return tuple(others), LETTERS[place]


def mixed(
    rows: list[dict[str, Any]], rng: random.Random, flagged: dict[str, bool]
) -> list[dict[str, Any]]:
    """Items without a shortcut first; among those, buckets of modality and kind of question take
    turns, so that a subset of any size is the start of every larger one and mixed like it."""
    ordered: list[dict[str, Any]] = []
    for has_shortcut in (False, True):
        buckets: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if flagged[row["id"]] is has_shortcut:
                buckets[row["modality"], row["archetype"]].append(row)
        for bucket in buckets.values():
            rng.shuffle(bucket)
        places = [
            ((number + 0.5) / len(bucket), key, row)
            for key, bucket in sorted(buckets.items())
            for number, row in enumerate(bucket)
        ]
        ordered += [row for _, _, row in sorted(places, key=lambda place: place[:2])]
    return ordered
