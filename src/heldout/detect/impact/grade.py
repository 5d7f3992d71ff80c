"""Right or wrong, strictly: whole answers are compared, never parts of them."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmark.grading.choice import read_whole
from heldout.benchmark.grading.clean import same


def is_correct(prediction: str, answer: str, options: Sequence[str] = ()) -> bool:
    """Equal after case, spacing, articles and closing punctuation; among options also by letter.

    "no" in "not sure" is not an answer, and neither is one right option among several. What is a whole
    option is read by the rules of `heldout ask`; sentences that lead to one are not, since a file of
    predictions holds answers, and whoever extracted them has read the sentences.
    """
    if same(prediction) == same(answer):
        return True
    chosen, right = _place(prediction, options), _place(answer, options)
    return chosen is not None and chosen == right


def _place(text: str, options: Sequence[str]) -> int | None:
    """The option a text means: its words, its letter, or 'B. its words'."""
    found = read_whole(text, options) if options else None
    return found.place if found is not None else None
