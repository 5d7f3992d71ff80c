"""Which programs reword which: pairs that are each other's nearest.

Programs of one benchmark are as near to each other in wording as a rewritten program is to its original, so
that nearness proves nothing. What tells is that a rewriting and its original find each other: each is the
nearest of the other, by words and by statements together, once it is taken into account how near the other
texts come to either of the two. So do some different programs. Parts of the benchmark, which holds no item
twice, show how many and how nearly; pairs of a corpus are cut where the share of different programs among
them would exceed ``fdr`` (Storey 2002).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.images.encoder import Floats, unit
from heldout.overlap.texts._chances import ParaphraseCandidate
from heldout.overlap.texts._questions import is_program, statements

FEWEST = 30  # programs of a benchmark whose parts say anything
MOST = 4  # times as many programs in a corpus as in the benchmark: of more the nearest are nearer than parts show
_PARTS = 10  # times the benchmark is divided
_STATEMENTS = 0.2  # of the likeness of two programs; the rest is wording
_HALF = 0.5  # chances above it are those of different programs (Storey's lambda)
# Rewordings that do not find each other are taken for different programs. Where no more than a third can be
# different, the estimate is far too high, and so many times ``fdr`` are allowed.
_MOSTLY_REWORDED, _ALLOWED = 1 / 3, 5.0
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
        self.null = 0  # different programs that could have found each other
        texts = list(dict.fromkeys(asked.values()))
        if len(texts) < FEWEST or not 2 <= len(others) <= MOST * len(texts):
            return
        rows = _rows([*texts, *others])
        ours, theirs = rows[: len(texts)], rows[len(texts) :]
        mutual = _finding_each_other(_likeness(wording(texts, others), ours @ theirs.T))
        among = wording(texts, texts), ours @ ours.T
        scores, self.null = _between_parts(*among, len(others) / len(texts))
        chances = np.array(
            [(1 + (scores >= score).sum()) / (1 + self.null) for score, _, _ in mutual]
        )
        cut = _cut(chances, min(len(texts), len(others)), fdr)
        for chance, (_, text, other) in zip(chances.tolist(), mutual, strict=True):
            if chance <= cut:
                self._pairs[texts[text], others[other]] = chance

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


def _finding_each_other(likeness: Scores) -> list[tuple[float, int, int]]:
    """(score, row, column) of pairs that are nearest to each other; a score says how near, and how much nearer than
    the next ones."""
    pairs = []
    backwards = likeness.argmax(axis=0)
    for row, column in enumerate(likeness.argmax(axis=1).tolist()):
        if backwards[column] == row:
            score = float(likeness[row, column])
            beside = np.delete(likeness[row], column), np.delete(likeness[:, column], row)
            pairs.append((2 * score - max(float(some.max()) for some in beside), row, column))
    return pairs


def _between_parts(wording: Floats, built: Floats, ratio: float) -> tuple[Scores, int]:
    """Scores of different programs that find each other, and how many could have: parts of the benchmark that are
    to each other as benchmark and corpus are in size."""
    count = len(wording)
    draw = np.random.default_rng(0)
    first = min(count // 2, max(round(count / (1 + ratio)), count // (1 + MOST)))
    second = min(count - first, max(2, round(first * ratio)))
    scores: list[float] = []
    for _ in range(_PARTS):
        order = draw.permutation(count)
        block = np.ix_(order[:first], order[first : first + second])
        mutual = _finding_each_other(_likeness(wording[block], built[block]))
        scores += [score for score, _, _ in mutual]
    return np.asarray(scores), _PARTS * min(first, second)


def _cut(chances: Scores, possible: int, fdr: float) -> float:
    """The largest chance at which the share of different programs among what counts stays below ``fdr``; of
    ``possible`` pairs those without a chance did not find each other."""
    ordered = np.sort(chances)
    unlikely = possible - len(ordered) + int((ordered > _HALF).sum())
    different = min(1.0, (1 + unlikely) / (_HALF * possible))
    false = different * possible * ordered / np.arange(1, len(ordered) + 1)
    allowed = fdr * (_ALLOWED if different <= _MOSTLY_REWORDED else 1.0)
    passing = np.flatnonzero(false <= allowed)
    return float(ordered[passing[-1]]) if len(passing) else 0.0


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
