"""Which programs reword which: all of them matched at once, one to one.

Programs of one benchmark are as near to each other in wording as a rewritten program is to its original, so
that nearness proves nothing. What tells is whom a program is left to: of all ways to give every item at most one
program of the corpus the one is taken in which they are most alike together, by words and statements, in
standard deviations of how near the other texts come to either of the two. Different programs are matched, too.
Parts of the benchmark, which holds no item twice, show how like each other they are then; pairs
of a corpus are cut where the share of different programs among them would exceed ``fdr`` (Storey 2002), and pairs that
might as well have been matched otherwise do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from heldout.overlap.images.encoder import Floats, unit
from heldout.overlap.texts._chances import ParaphraseCandidate, different_share, storey_cut
from heldout.overlap.texts._questions import is_program, statements

FEWEST = 30  # programs of a benchmark whose parts say anything
MOST = 4  # times as many programs in a corpus as in the benchmark: of more the nearest are nearer than parts show
_PARTS = 10  # times the benchmark is divided
_STATEMENTS = 0.2  # of the likeness of two programs; the rest is wording
_SETTLED = 0.3  # likeness that a matching loses at least without a pair that counts
# Rewordings of which the matching is no better than that of different programs are taken for such. Where no more
# than a third can be different, the estimate is far too high, and so many times ``fdr`` are allowed.
_MOSTLY_REWORDED, _ALLOWED = 1 / 3, 4.0
_TOKEN = re.compile(
    r"\.\s*[a-z_]\w*|[A-Za-z_]\w*(?=\s*\()|\b(?:for|while|if|elif|else|return|lambda|in|not|and|or|is|break|continue|yield|"
    r"try|except|None|True|False)\b|\d+\.?\d*|==|!=|<=|>=|<<|>>|//|\*\*|[-+*/%&|^]=?|[<>]"
)
Scores = NDArray[np.float64]
Wording = Callable[[Sequence[str], Sequence[str]], Floats]  # cosines of texts with other texts


class RewordedPrograms:
    """Pairs of programs of a benchmark and a corpus that count as rewordings."""

    def __init__(
        self, asked: Mapping[str, str], others: Sequence[str], wording: Wording, fdr: float
    ) -> None:
        """``asked``: a text of each item."""
        self._asked = asked
        self._pairs: dict[tuple[str, str], float] = {}  # with the chance of different programs
        self.null = 0  # pairs of different programs that pairs are held against
        texts = list(dict.fromkeys(asked.values()))
        if len(texts) < FEWEST or not 2 <= len(others) <= MOST * len(texts):
            return
        rows = _rows([*texts, *others])
        ours, theirs = rows[: len(texts)], rows[len(texts) :]
        pairs = _matched(_likeness(wording(texts, others), ours @ theirs.T))
        among = wording(texts, texts), ours @ ours.T
        null = _between_parts(*among, len(others) / len(texts))
        self.null = len(null)
        chances = np.array([(1 + (null >= pair.score).sum()) / (1 + len(null)) for pair in pairs])
        cut = _cut(chances, fdr)
        for chance, pair in zip(chances.tolist(), pairs, strict=True):
            if chance <= cut and pair.loss >= _SETTLED:
                self._pairs[texts[pair.row], others[pair.column]] = chance

    @classmethod
    def of(
        cls,
        candidates: Sequence[ParaphraseCandidate],
        asked: Mapping[str, str],
        wording: Wording,
        fdr: float,
    ) -> RewordedPrograms:
        programs = {item: text for item, text in asked.items() if is_program(text)}
        others = dict.fromkeys(entry.texts[1] for entry in candidates if _between_programs(entry))
        return cls(programs, list(others), wording, fdr)

    def judges(self, entry: ParaphraseCandidate) -> bool:
        return self.null > 0 and _between_programs(entry)

    def chance(self, entry: ParaphraseCandidate) -> float | None:
        """Of a pair that counts; None of others."""
        return self._pairs.get((self._asked.get(entry.item, ""), entry.texts[1]))


def _between_programs(entry: ParaphraseCandidate) -> bool:
    return not entry.own and all(map(is_program, entry.texts))


def _likeness(wording: Floats, built: Floats) -> Scores:
    """How much nearer two programs are than either is to the others, in standard deviations."""
    return (1 - _STATEMENTS) * _standardised(wording) + _STATEMENTS * _standardised(built)


def _standardised(cosines: Floats) -> Scores:
    scores: Scores = np.zeros(cosines.shape)
    for axis in (0, 1):
        spread = np.maximum(cosines.std(axis=axis, keepdims=True), 1e-6)
        scores += (cosines - cosines.mean(axis=axis, keepdims=True)) / spread / 2
    return scores


class _Pair(NamedTuple):
    row: int
    column: int
    score: float  # how alike the two are
    loss: float  # of likeness in the next best matching without them, of those that change two pairs at most


def _matched(likeness: Scores) -> list[_Pair]:
    """The one-to-one pairs that are most alike together."""
    rows, columns = linear_sum_assignment(-likeness)
    score = likeness[rows, columns]
    crossed = likeness[np.ix_(rows, columns)]
    traded = score[:, None] + score - crossed - crossed.T
    np.fill_diagonal(traded, np.inf)
    losses = [traded.min(axis=1)]
    free = (
        np.delete(likeness, columns, axis=1)[rows],
        np.delete(likeness, rows, axis=0)[:, columns].T,
    )
    losses += [score - others.max(axis=1) for others in free if others.size]
    loss = np.minimum.reduce(losses)
    places = (some.tolist() for some in (rows, columns, score, loss))
    return [_Pair(*place) for place in zip(*places, strict=True)]


def _between_parts(wording: Floats, built: Floats, ratio: float) -> Scores:
    """Scores of different programs: parts of the benchmark that are to each other as benchmark and corpus are in
    size."""
    count = len(wording)
    draw = np.random.default_rng(0)
    first = min(count // 2, max(round(count / (1 + ratio)), count // (1 + MOST)))
    second = min(count - first, max(2, round(first * ratio)))
    scores: list[float] = []
    for _ in range(_PARTS):
        order = draw.permutation(count)
        block = np.ix_(order[:first], order[first : first + second])
        scores += [pair.score for pair in _matched(_likeness(wording[block], built[block]))]
    # The best of many is better than the best of few: the largest of n normal deviates grows as the root of log n.
    larger = np.log([count, ratio * count]) / np.log([first, second])
    return np.asarray(scores) * float(np.mean(larger**0.5))


def _cut(chances: Scores, fdr: float) -> float:
    """The largest chance at which the share of different programs among what counts stays below ``fdr``."""
    ordered, count = np.sort(chances), len(chances)
    mostly = different_share(ordered, count) <= _MOSTLY_REWORDED
    return storey_cut(ordered, count, fdr * (_ALLOWED if mostly else 1.0))


def _rows(texts: Sequence[str]) -> Floats:
    """Unit rows of what programs are built of: keywords, operators, numbers and what is called, without docstrings."""
    counts = [
        Counter("".join(token.split()) for token in _TOKEN.findall(statements(text)))
        for text in texts
    ]
    having = Counter(token for counted in counts for token in counted)
    place = {
        token: column for column, token in enumerate(sorted(t for t in having if having[t] > 1))
    }
    rows = np.zeros((len(texts), max(1, len(place))), np.float32)
    for row, counted in enumerate(counts):
        for token, count in counted.items():
            if token in place:
                rarity = np.log((1 + len(texts)) / (1 + having[token]))
                rows[row, place[token]] = np.log1p(1 + 0.3 * np.log(count)) * rarity
    return unit(rows)
