"""Confused choices: the wrong options are replaced by right answers of other items.

A model that knows the item finds it easier; one that remembers right answers meets several of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from heldout.benchmark.grading.clean import same
from heldout.model.asking.orders import item_random
from heldout.model.asking.question import Question


class RightAnswers:
    """Right options of a whole benchmark, to be drawn from for items of other clusters."""

    def __init__(self, questions: Sequence[Question], clusters: Sequence[str]) -> None:
        self._cluster = {
            q.benchmark_id: cluster for q, cluster in zip(questions, clusters, strict=True)
        }
        self._pool = sorted(
            {(q.options[ord(q.gold) - ord("A")], self._cluster[q.benchmark_id]) for q in questions}
        )

    def confuse(self, question: Question, seed: int) -> Question | None:
        """None where the others' answers are too few to fill this item's options."""
        gold = ord(question.gold) - ord("A")
        taken = {same(option) for option in question.options}
        own = self._cluster[question.benchmark_id]
        random = item_random(seed, "confused-choices", question.benchmark_id)
        found: list[str] = []
        for place in random.permutation(len(self._pool)):
            text, cluster = self._pool[int(place)]
            if cluster != own and same(text) not in taken:
                taken.add(same(text))
                found.append(text)
            if len(found) == len(question.options) - 1:
                break
        else:
            return None
        options = [*found[:gold], question.options[gold], *found[gold:]]
        order = [place if place == gold else -1 for place in range(len(options))]
        return dataclasses.replace(
            question, variant="confused-choices", options=tuple(options), order=tuple(order)
        )
