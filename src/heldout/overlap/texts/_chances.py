"""Paraphrase candidates, and how likely they agree with an item by chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.texts._answers import gist
from heldout.overlap.texts._questions import amounts, same_content, same_details, telling_words
from heldout.overlap.texts.encoders import CrossEncoder
from heldout.overlap.texts.index import TextIndex
from heldout.overlap.texts.normalise import loose

FEW = 30  # different texts below which a null says nothing
ALONE_ALPHA = 0.005  # chance from which on a candidate counts whatever else is there
# Texts with the same answer are mostly about the same things, and nearer than any two: where nothing but an answer in
# words agrees, half of all different neighbours may not stand out as much, and it is worth no more than that.
ALONE_LIKENESS, _TOPICAL = 0.5, 0.1
# chance that another question beside the own picture, with its answer, passes: for an item's likeliest text
# there, and for any other
OWN_ALPHA, OWN_OTHERS = 0.07, 0.03
# chance that another question there is so like it, whatever its answer: above the first a rewording is possible
# only, above the second there is none. A rare answer does not make up for words that have nothing to do with it.
OWN_LIKENESS = (0.2, 0.5)
_FEWEST_IN_TAIL = 10  # texts by which a null's tail is judged
_BEYOND = 0.05  # of the least chance that a null can show: so far its tail is trusted
_SURE, _LIKELY = (
    0.001,
    0.3,
)  # taken for granted above the first and the second cosine where there is no null
_TWO = ("yes", "no")
_HALF = 0.5  # chances above it are those of different texts (Storey's lambda)
_PAIRS = 200  # pairs of the benchmark that a cross-encoder reads
_COMMON = 1 / 8  # share of the benchmark's texts from which on a word tells none of them


@dataclass
class ParaphraseCandidate:
    """One row of text_matches that may be a rewording."""

    row: dict[str, Any]
    evidence: dict[str, Any]
    own: bool  # beside a copy of the item's picture
    similarity: float = 0.0  # cosine
    score: float = 0.0  # the same with the words that both have
    p: float = 1.0
    likeness: float = 0.0  # beside the own picture, the chance by wording alone where it is known
    possible: bool = True

    def judge_beside(self, null: ParaphraseNull, agreeing: float) -> None:
        """By what else is asked of the picture; ``agreeing``: the chance that such a question has the answer."""
        self.likeness = null.p(self.score, self.similarity)
        unlike = self.likeness > OWN_LIKENESS[1]
        self.p = 1.0 if unlike else null.p(self.score, self.similarity, agreeing)

    @property
    def item(self) -> str:
        return str(self.row["benchmark_id"])

    @property
    def document(self) -> tuple[str, str, str]:
        return str(self.row["corpus"]), str(self.row["corpus_id"]), self.evidence["corpus_text"]

    @property
    def texts(self) -> tuple[str, str]:
        return self.evidence["benchmark_text"], self.evidence["corpus_text"]

    @property
    def answer(self) -> str:
        return str(self.row["answer_relation"])


class Chances:
    """How likely answer, options and numbers agree by chance, from what candidates are like."""

    def __init__(self, candidates: Sequence[ParaphraseCandidate], index: TextIndex) -> None:
        self._index = index
        self._place = {identifier: place for place, identifier in enumerate(index.ids)}
        self._answers: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._documents = {True: 0, False: 0}
        texts = {index.entries[k].text for k in index.whole}
        having = Counter(word for text in texts for word in telling_words(text))
        most = max(2.0, _COMMON * len(texts))
        self._vocabulary = frozenset(word for word, count in having.items() if count <= most)
        different = {"numbers": 0, "words": 0}
        agreeing = {"numbers": 0, "words": 0}
        for entry in candidates:
            # Chosen for their answer, they say nothing about how common it is.
            if entry.evidence["near"] and entry.evidence["corpus_answers"]:
                self._answers[entry.own].update(set(map(gist, entry.evidence["corpus_answers"])))
                self._documents[entry.own] += 1
            if entry.answer == "different" and not entry.own:
                for name, agrees in self._told(entry).items():
                    different[name] += agrees is not None
                    agreeing[name] += bool(agrees)
        self._by_chance = {
            name: (1 + agreeing[name]) / (1 + max(FEW, count)) for name, count in different.items()
        }
        self._options = Counter(texts.options for texts in index.items if texts.options)
        self._asked: dict[tuple[str, str, str], set[str]] = {}  # (words, options, answer): clusters
        for k in index.whole:
            words = loose(index.entries[k].text)
            for item in index.entries[k].items if index.entries[k].generic else ():
                key = words, index.items[item].options, index.items[item].answer
                self._asked.setdefault(key, set()).add(index.clusters[item])

    def by_answer_alone(self, entry: ParaphraseCandidate) -> bool:
        """Is an answer in words all that agrees besides the wording?"""
        answer = self._index.items[self._place[entry.item]].answer
        agrees = bool(entry.evidence.get("options")) or any(self._told(entry).values())
        return entry.answer == "same" and is_topical(answer) and not agrees

    def tells(self, entry: ParaphraseCandidate) -> bool:
        """Of the pictures that a question is asked of, do options and answer, or numbers, tell this one?"""
        texts = self._index.items[self._place[entry.item]]
        words = loose(entry.evidence["benchmark_text"])
        asked = self._asked.get((words, texts.options, texts.answer), set())
        alone = bool(entry.evidence.get("options")) and len(asked) <= 1
        return entry.answer == "same" and (alone or bool(told_by_numbers(entry)))

    def of(self, entry: ParaphraseCandidate) -> float:
        texts = self._index.items[self._place[entry.item]]
        chance = 1.0
        if entry.answer == "same":
            chance *= self._same_answer(texts.answer, entry.own)
        if entry.evidence.get("options"):
            chance *= (1 + self._options[texts.options]) / (2 + self._options.total())
        for name, agrees in self._told(entry).items():
            chance *= self._by_chance[name] if agrees and not entry.own else 1.0
        return chance

    def _same_answer(self, answer: str, own: bool) -> float:
        """Of the texts that could be meant, how many have this answer.

        Beside the own picture a yes agrees with every other question that is answered yes, however seldom
        a corpus asks such questions: it says as much as one of two answers can.
        """
        known, answer = self._answers[own], gist(answer)
        chance = min(1.0, (1 + known[answer]) / (1 + max(FEW, self._documents[own])))
        if not own:
            return max(chance, _TOPICAL) if is_topical(answer) else chance
        if answer not in _TWO:
            return chance
        return max(chance, (1 + known[answer]) / (2 + sum(known[each] for each in _TWO)))

    def _told(self, entry: ParaphraseCandidate) -> dict[str, bool | None]:
        return {"numbers": told_by_numbers(entry), "words": self._told_by_words(entry)}

    def _told_by_words(self, entry: ParaphraseCandidate) -> bool | None:
        """Are the words that tell items of this benchmark apart the same, two or more? None where a text
        has fewer."""
        ours, theirs = (
            telling_words(entry.evidence[side]) & self._vocabulary
            for side in ("benchmark_text", "corpus_text")
        )
        return ours == theirs if len(ours) > 1 else None


def is_topical(answer: str) -> bool:
    """Numbers agree by chance whatever texts are about."""
    return not any(map(str.isdigit, answer))


class OtherItems:
    """What the benchmark itself asks of each picture.

    A corpus that holds one of its questions word for word holds that item. Another question about the picture that
    has the same answer is mostly another one: "Is there a blue diamond?", "Is the black diamond above the blue
    diamond?". Some benchmarks ask the same in other words, though, so that such texts may count: if they are
    nearer than others have to be, and name the same colours and the same relation.
    """

    def __init__(self, index: TextIndex) -> None:
        self._cluster = dict(zip(index.ids, index.clusters, strict=True))
        self._asked = {
            (index.clusters[item], loose(index.entries[k].text))
            for k in index.whole
            for item in index.entries[k].items
        }

    def has(self, entry: ParaphraseCandidate, least: float) -> bool:
        """``least``: the cosine from which on such a text may be a rewording."""
        text, other = entry.evidence["benchmark_text"], entry.evidence["corpus_text"]
        if not entry.own or (self._cluster[entry.item], loose(other)) not in self._asked:
            return False
        near = entry.similarity >= least and same_details(text, other)
        return not near and not same_content(text, other)


def told_by_numbers(entry: ParaphraseCandidate) -> bool | None:
    """Do both name the same numbers, two or more? None where they do not name so many."""
    ours, theirs = (amounts(entry.evidence[side]) for side in ("benchmark_text", "corpus_text"))
    if min(len(ours), len(theirs)) < 2:
        return None
    return ours == theirs


class ParaphraseNull:
    """Scores of texts known to be different; too few of them give no chances.

    Beyond the highest of them chances fall as their tail does (exponentially, by the mean excess over its
    beginning), to a twentieth of what their number can show and no further: of forty programs none is in two
    hundred, and yet a rewording may stand out four times as far as any of them.
    """

    def __init__(self, scores: Iterable[float], settled: tuple[float, float]) -> None:
        self._scores = np.sort(np.fromiter(scores, np.float64))
        self._settled = settled
        tail = self._scores[-max(_FEWEST_IN_TAIL, len(self._scores) // 5) :]
        # Of few excesses the mean is uncertain: two more than there are, as long as the longest.
        excess = tail - tail[0] if len(tail) else tail
        self._scale = float((excess.sum() + 2 * excess.max(initial=0.0)) / (len(tail) + 2))

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def known(self) -> bool:
        return len(self) >= FEW

    def p(self, score: float, cosine: float, agreeing: float = 1.0) -> float:
        """How often a different text scores as high, and agrees by chance in what is not its wording; without a
        null, by the cosine alone: a rare answer does not make up for one below the fixed cosines."""
        if not self.known:
            if cosine < self._settled[1]:
                return 1.0
            return agreeing * (_SURE if cosine >= self._settled[0] else _LIKELY)
        above = len(self) - int(np.searchsorted(self._scores, score, side="left"))
        chance = agreeing * (1 + above) / (2 + len(self))
        beyond = float(score - self._scores[-1])
        if beyond <= 0:
            return chance
        return chance * max(_BEYOND, float(np.exp(-beyond / max(self._scale, 1e-6))))


def counts(entry: ParaphraseCandidate, likeliest: Mapping[str, float], cut: float) -> bool:
    """The likeliest text of an item by ``cut``, or beside the own picture by its chance there.

    An item's other texts are many, and were not counted when the cut was made: in a corpus with a copy of
    every item it is so wide that some of them pass by chance. Nor are all questions about one picture, with a
    yes or no in common, rewordings of one that is reworded there.
    """
    first = entry.p <= likeliest.get(entry.item, 0.0)
    likely, others = (OWN_ALPHA, OWN_OTHERS) if entry.own else (cut, ALONE_ALPHA)
    return entry.possible and entry.p <= (likely if first else others)


def likeliest_chances(
    candidates: Sequence[ParaphraseCandidate], *, own: bool = False
) -> dict[str, float]:
    """Per item the smallest chance of a text beside another picture or none, or beside its ``own``; 1 where
    none may count."""
    best: dict[str, float] = {}
    for entry in candidates:
        if entry.own == own:
            chance = entry.p if entry.possible else 1.0
            best[entry.item] = min(best.get(entry.item, 1.0), chance)
    return best


def read_together(
    candidates: Sequence[ParaphraseCandidate],
    cross: CrossEncoder,
    different: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """A second reader of what counts: what it finds no nearer than most neighbours of the benchmark that are
    known to be different counts no longer. Beside the own picture the question is another, and it is not asked."""
    counted = [e for e in candidates if e.row["degree"] == "soft" and not e.own]
    sample = different[:: -(-len(different) // _PAIRS) or 1]
    known = len(different) >= FEW and bool(counted)
    typical = float(np.median(cross.compare(sample))) if known else -np.inf
    pairs = [entry.texts for entry in counted]
    for entry, logit in zip(counted, cross.compare(pairs), strict=True):
        entry.evidence["reading"]["together"] = round(float(logit), 2)
        if logit < typical:
            entry.row["degree"] = "none"
    lowered = sum(entry.row["degree"] == "none" for entry in counted)
    return {"second_reader": cross.identity, "second_read": len(counted), "lowered": lowered}


def different_share(chances: NDArray[np.float64], items: int) -> float:
    """Of ``items`` the share without a rewording, those without a chance among them (Storey 2002)."""
    different = max(0, items - len(chances)) + int((chances > _HALF).sum())
    return min(1.0, (1 + different) / (_HALF * max(1, items)))


def storey_cut(chances: NDArray[np.float64], items: int, fdr: float) -> float:
    """The largest of ``chances``, in order, at which the share of false ones among what counts stays below ``fdr``."""
    false = different_share(chances, items) * items * chances / np.arange(1, len(chances) + 1)
    passing = np.flatnonzero(false <= fdr)
    return float(chances[passing[-1]]) if len(passing) else 0.0
