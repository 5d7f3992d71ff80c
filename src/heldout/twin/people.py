"""What people said of twins, and that it was said of the pictures that are there now."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping

from heldout.store import TWIN, Judgement, Run, append, current, write_json
from heldout.twin.ledger import folder

KEEP, REJECT, TIE = "keep", "reject", "tie"


def said_by_people(run: Run) -> dict[str, str]:
    """By item: the majority of its raters; as many for as against is a tie, which keeps nothing."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for (subject, _), judgement in current(run.path, TWIN).items():
        if judgement.verdict in (KEEP, REJECT):
            votes[subject][judgement.verdict] += 1
    return {
        subject: KEEP
        if counts[KEEP] > counts[REJECT]
        else TIE
        if counts[KEEP] == counts[REJECT]
        else REJECT
        for subject, counts in votes.items()
    }


def withdraw_of_changed(run: Run, pictures: Mapping[str, str]) -> None:
    """A judgement of a picture says nothing of the one that took its place: it is taken back."""
    path = folder(run) / "shown.json"
    shown: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    changed = {name for name, picture in pictures.items() if shown.get(name, picture) != picture}
    for (subject, rater), judgement in current(run.path, TWIN).items():
        if subject in changed and judgement.verdict is not None:
            append(run.path, Judgement(rater, TWIN, subject, None, "its picture was drawn anew"))
    if any(shown.get(name) != picture for name, picture in pictures.items()):
        write_json(path, {**shown, **pictures})
