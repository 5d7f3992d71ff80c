"""Cross-check of rewordings: a model that reads both questions decides which items have to go.

An encoder finds questions that are near; whether they ask the same, it cannot tell. With a judge, pairs
that are less near are looked at, too: those that it calls the same remove their item, those that it calls
different do not. Where it is unsure, the encoder decides as without a judge.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heldout.overlap import ModelJudge
from heldout.synth._benchmark_questions import REWORDED, REWORDED_WORDS, QuestionMatch
from heldout.synth.context import StageContext, StageModel
from heldout.synth.draft import Draft

READ = 0.40  # cosine from which on the judge reads a pair; measured in docs/synth.md
_MOST = 3  # pairs of one item that it reads, the nearest


class QuestionPair(NamedTuple):
    """Two texts under the names by which a judge of ``overlap`` reads them."""

    benchmark_text: str
    corpus_text: str


class RewordingJudge:
    """``lost``: items of which a pair was not answered; the same command requests it again."""

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._counts: Counter[str] = Counter()
        self.lost: set[str] = set()

    def counts(self) -> dict[str, Any]:
        """Verdicts by their name, since the last call."""
        counts, self._counts = dict(self._counts), Counter()
        return {"model": self._judge.identity["model"], **counts}

    def decide(
        self, items: Sequence[Draft], matches: Mapping[str, Sequence[QuestionMatch]]
    ) -> Iterator[QuestionMatch]:
        """One match for every item that has to go, or asks a stock question. ``matches``: by item all that
        it has, the gravest first."""
        questions = {item.id: item.question for item in items}
        pairs = {
            (match.item, match.example): QuestionPair(match.question, questions[match.item])
            for listed in matches.values()
            for match in _read(listed)
        }
        unique: list[Any] = list(dict.fromkeys(pairs.values()))
        opinions: Any = self._judge.compare(unique)
        if opinions.ended is not None:
            raise opinions.ended
        for listed in matches.values():
            if not (readable := _read(listed)):
                yield listed[0]
                continue
            decided = next(
                (
                    match
                    for match in readable
                    if self._removes(match, opinions.by_pair[pairs[match.item, match.example]])
                ),
                None,
            )
            if last := decided or next((match for match in listed if match.stock), None):
                yield last

    def _removes(self, match: QuestionMatch, opinion: Any) -> bool:
        self._counts[opinion.verdict] += 1
        if opinion.lost:
            self.lost.add(match.item)
        unsure = opinion.verdict == "unsure" and match.similarity >= REWORDED
        return opinion.verdict == "same" or unsure


def _read(listed: Sequence[QuestionMatch]) -> list[QuestionMatch]:
    """The pairs for the judge; none where something graver than a rewording decides."""
    if listed[0].stock or listed[0].relation != REWORDED_WORDS:
        return []
    return [match for match in listed if match.relation == REWORDED_WORDS and not match.stock][
        :_MOST
    ]


@contextlib.contextmanager
def rewording_judge(context: StageContext, stage: str) -> Iterator[RewordingJudge | None]:
    """The judge of the settings; None where there is none."""
    settings = context.settings.judge
    if settings is None:
        yield None
        return
    model = StageModel(context, "judge", settings, stage, {})
    judge = model.as_judge()
    with model:
        yield RewordingJudge(judge)
