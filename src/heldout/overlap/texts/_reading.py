"""Which paraphrase candidates are rewordings: read again, and judged in the light of picture and answer.

How near two different texts come depends on what a benchmark is about, so nothing is a rewording for its
cosine alone. What counts is how far a candidate stands out from the next-nearest texts of both sides, held
against a null: neighbours within the benchmark that are about another picture and have another answer. That
a different text stands out as much is then weighed with how likely it has the item's answer, options and
numbers by chance, and the candidates of a corpus are cut where the share of false ones among them would
exceed ``fdr`` (Storey 2002). Beside a copy of the item's own picture the null is what else is asked
there, and far less likeness is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.overlap.relations import COPIES
from heldout.overlap.texts._chances import (
    ALONE_ALPHA,
    ALONE_LIKENESS,
    FEW,
    OWN_ALPHA,
    OWN_LIKENESS,
    Chances,
    OtherItems,
    ParaphraseCandidate,
    ParaphraseNull,
    counts,
    likeliest_chances,
    read_together,
    storey_cut,
)
from heldout.overlap.texts._prior import SmallNull
from heldout.overlap.texts._programs import RewordedPrograms
from heldout.overlap.texts._questions import (
    names_the_same,
    other_subject,
    same_amounts,
    same_content,
    states,
    varied,
)
from heldout.overlap.texts._wording import ReadTexts, asked, asked_texts
from heldout.overlap.texts.encoders import (
    DEFAULT,
    READER,
)
from heldout.overlap.texts.index import TextIndex
from heldout.overlap.texts.normalise import loose
from heldout.overlap.texts.relation import DOUBTFUL_REWORDING, PARAPHRASE, SHOWN

_LISTED = 5.0  # candidates are listed up to so many times the chance that counts
_NEXT = 3  # next-nearest texts of either side, of which the middle one is what a candidate stands out from
_TRIED = (
    5  # neighbours among which one is looked for that is about something else in words of its own
)
_BATCH = 512  # texts between two steps of the progress bar
_FEWEST_WORDS = 3  # "15" rewords nothing
_SHORTER = 0.25  # nor does a text of a quarter of the words
_NEARER = (
    0.15  # a text that much nearer to another text of the benchmark is a variation of that one
)
#: cosines from which on texts count where no null is large enough: alone, and, as possible rewordings, beside the
#: own picture
SETTLED: Mapping[str, tuple[float, float]] = {READER: (0.90, 0.72), DEFAULT: (0.85, 0.50)}
#: beside the own picture, of a text that the benchmark asks of it as well: mostly another question
ASKED_TOO: Mapping[str, float] = {READER: 0.85}
_ANY = (0.88, 0.75)  # of another encoder, of which nobody measured more than was published


def settle_rewordings(
    matches: pl.DataFrame, pictures: pl.DataFrame, index: TextIndex, *, quiet: bool = False
) -> tuple[pl.DataFrame, dict[str, dict[str, Any]]]:
    """``matches`` with the degree of every paraphrase candidate settled, and per corpus how.

    Candidates that are nowhere near counting are left out of the table.
    """
    place = pl.int_range(pl.len()).alias("place")
    numbered = matches.with_columns(place)
    chosen = (pl.col("method") == "embedding") & (pl.col("relation") == PARAPHRASE)
    own = set(
        pictures.filter(pl.col("relation").is_in(COPIES))
        .select("benchmark_id", "corpus", "corpus_id")
        .iter_rows()
    )
    candidates = [
        ParaphraseCandidate(
            row,
            json.loads(row["evidence"]),
            (row["benchmark_id"], row["corpus"], row["corpus_id"]) in own,
        )
        for row in numbered.filter(chosen).to_dicts()
    ]
    if not candidates:
        return (
            matches,
            {},
        )  # a corpus without words, or with none like the benchmark's: nothing to read
    reading = ReadTexts.of(candidates, index, quiet)
    records: dict[str, dict[str, Any]] = {}
    kept: list[dict[str, Any]] = []
    for corpus in dict.fromkeys(matches["corpus"].to_list()):
        here = [entry for entry in candidates if entry.row["corpus"] == corpus]
        records[corpus] = _settle(here, reading, index)
        kept += [_settled_row(entry) for entry in here if entry.row["degree"] != "dropped"]
    schema = numbered.schema
    frame = pl.DataFrame(kept, schema=schema) if kept else numbered.clear()
    joined = pl.concat([numbered.filter(~chosen), frame]).sort("place").drop("place")
    return joined, records


def _settle(
    candidates: Sequence[ParaphraseCandidate], reading: ReadTexts, index: TextIndex
) -> dict[str, Any]:
    """Give every candidate of one corpus its chance and its degree."""
    search = index.search
    settled = SETTLED.get(reading.name, _ANY)
    among = _Neighbours(reading, index)
    alone = ParaphraseNull(among.margins, settled)
    unanswered = ParaphraseNull(among.unvaried, settled)
    # Two questions that many pictures have in common are one pair, however often a corpus repeats them.
    apart = {e.texts: e.score for e in candidates if e.own and e.answer == "different"}
    contradicting = list(apart.values())
    beside = ParaphraseNull(contradicting if len(contradicting) >= FEW else among.together, settled)
    few = SmallNull([*contradicting, *among.together], reading.name, settled)
    chances = Chances(candidates, index)
    best_item = _nearest_items(candidates)
    margins = among.stand_out(candidates)
    others = OtherItems(index)
    asked_too = search.threshold or ASKED_TOO.get(reading.name, settled[0])
    documents = len({entry.document for entry in candidates if not entry.own})
    fewer = min(1.0, documents / max(1, len(alone)))
    programs = RewordedPrograms.of(candidates, among.of_items, reading.of_programs, search.fdr)
    for entry, margin in zip(candidates, margins, strict=True):
        if entry.own and beside.known:
            entry.judge_beside(beside, chances.of(entry))
        elif entry.own:
            entry.p = few.p(entry)
        elif programs.judges(entry):
            entry.p = programs.chance(entry) or 1.0
            entry.similarity = float(reading.of_programs(*([text] for text in entry.texts))[0, 0])
        else:
            # The nearest of a few texts is less near than that of many: those with the item's answer, and
            # those of a corpus smaller than the benchmark.
            null = alone if entry.answer == "same" else unanswered
            chance = null.p(margin, entry.similarity)
            unlike = null.known and chance > ALONE_LIKENESS and chances.by_answer_alone(entry)
            entry.p = 1.0 if unlike else 1.0 - (1.0 - chance) ** (fewer * chances.of(entry))
        if entry.answer == "same" and same_content(*entry.texts):
            entry.p, entry.likeness = (
                min(entry.p, ALONE_ALPHA),
                0.0,
            )  # counts as the same words would
        nearest = among.nearest[entry.evidence["corpus_text"]]
        entry.possible = (
            not others.has(entry, asked_too)
            and may_count(entry, chances.tells(entry))
            and (entry.own or programs.judges(entry) or is_nearest(entry, best_item, nearest))
        )
    likeliest = likeliest_chances([e for e in candidates if not programs.judges(e)])
    beside_own = likeliest_chances(candidates, own=True)
    cut = max(ALONE_ALPHA, _cut(likeliest, search.fdr, min(len(index.ids), documents)))
    standing: set[str] = set()  # items with a text that counts, or that people have to read
    for entry in candidates:
        limit = OWN_ALPHA if entry.own else cut
        sure = counts(entry, beside_own if entry.own else likeliest, cut)
        if programs.judges(entry):
            sure = entry.possible and programs.chance(entry) is not None
        near = entry.own and not beside.known and entry.similarity >= settled[1]
        counted = sure or (near and entry.possible)
        sure = sure and entry.likeness <= OWN_LIKENESS[0]
        # Where there is no null people have to read what may be one.
        unsettled = not entry.own and not alone.known and entry.possible and entry.p < 1.0
        listed = (
            counted
            or unsettled
            or (entry.p <= max(_LISTED * limit, search.fdr) and entry.answer != "different")
        )
        if counted or unsettled:
            standing.add(entry.item)
        _keep(entry, counted, listed, doubtful=counted and not sure)
    if search.threshold is not None:
        for entry in candidates:
            near = entry.similarity >= search.threshold
            listed = entry.row["degree"] == "soft" or (near and entry.answer != "different")
            _keep(entry, near and entry.possible, listed)
        standing -= {entry.item for entry in candidates if entry.row["degree"] == "soft"}
    record = read_together(candidates, reading.cross, among.different) if reading.cross else {}
    return {
        "reader": reading.identity,
        **record,
        "fdr": search.fdr,
        "threshold": search.threshold,
        "below_threshold": 0 if search.threshold is None else len(standing),
        "read": len(candidates),
        "counted": sum(entry.row["degree"] == "soft" for entry in candidates),
        "doubtful": sum(DOUBTFUL_REWORDING in entry.evidence["reading"] for entry in candidates),
        "cut": cut,
        "too_few": documents > 0 and not alone.known and search.threshold is None,
        "null": {
            "alone": len(alone),
            "beside the own picture": len(beside if beside.known else few),
            **({"programs": programs.null} if programs.null else {}),
        },
    }


def _keep(
    entry: ParaphraseCandidate, counted: bool, listed: bool, *, doubtful: bool = False
) -> None:
    entry.row["degree"] = "soft" if counted else "none" if listed else "dropped"
    entry.evidence["reading"] = {
        "similarity": round(entry.similarity, 4),
        "chance": float(f"{entry.p:.2g}"),
        "own_picture": entry.own,
        **({DOUBTFUL_REWORDING: True} if doubtful else {}),
    }


def _cut(best: Mapping[str, float], fdr: float, items: int) -> float:
    """The largest chance at which the share of false ones among what counts stays below ``fdr``."""
    chances = np.sort(np.fromiter(best.values(), np.float64))
    chances = chances[: max(1, items)]  # a document rewords no more than one text
    return storey_cut(chances, items, fdr)


def _nearest_items(candidates: Sequence[ParaphraseCandidate]) -> dict[tuple[str, str, str], float]:
    """Per document the score of the item it is nearest to, of those it does not contradict."""
    best: dict[tuple[str, str, str], float] = {}
    for entry in candidates:
        if entry.answer != "different":
            best[entry.document] = max(best.get(entry.document, -1.0), entry.score)
    return best


class _Neighbours:
    """Texts of the benchmark among each other: what nearness says about texts known to be different."""

    def __init__(self, reading: ReadTexts, index: TextIndex) -> None:
        self._reading, self._index = reading, index
        self._asked = asked(index)
        self._texts = asked_texts(index)
        self.of_items = {  # one text of each
            index.ids[item]: text
            for k, text in zip(reversed(self._asked), reversed(self._texts), strict=True)
            for item in index.entries[k].items
        }
        self._place = {text: place for place, text in enumerate(self._texts)}
        self._clusters = [
            {index.clusters[item] for item in index.entries[k].items} for k in self._asked
        ]
        self.different: list[tuple[str, str]] = []  # every text with that nearest one
        self.margins: list[float] = []  # of every text's nearest that is known to be different
        self.unvaried: list[float] = []  # of the nearest that could count without its answer
        self.together: list[float] = []  # of pairs about one picture with different answers
        self._own_next: list[NDArray[np.float64]] = []  # per text its nearest about other pictures
        self.nearest: dict[str, float] = {}  # per text of the corpus the highest score of any text
        self._compare()

    def _compare(self) -> None:
        having: dict[str, list[int]] = {}
        for place, names in enumerate(self._clusters):
            for name in names:
                having.setdefault(name, []).append(place)
        answers = [self._index.answers[k] for k in self._asked]
        by_answer: dict[str, list[int]] = {}
        for place, known in enumerate(answers):
            for answer in known:
                by_answer.setdefault(answer, []).append(place)
        scores = self._reading.scores(self._texts, self._texts)
        nearest: list[list[tuple[int, float]]] = []
        for place, known in enumerate(answers):
            same = [other for answer in known for other in by_answer[answer]]
            beside = [other for name in self._clusters[place] for other in having[name]]
            if known:
                others = set(beside) - {place, *same}
                self.together += [float(scores[place, other]) for other in others if other > place]
            scores[place, beside] = -1.0
            self._own_next.append(_highest(scores[place], _NEXT + 1))
            contradicting = scores[place].copy()
            contradicting[[place, *same]] = -1.0
            nearest.append(self._ordered(contradicting))
        for place, around in enumerate(nearest):
            margins = [self._margin(place, other, score) for other, score in around]
            if margins:
                self.different.append((self._texts[place], self._texts[around[0][0]]))
                self.margins.append(margins[0])
            text = self._texts[place]
            self.unvaried += [
                margin
                for (other, _), margin in zip(around, margins, strict=True)
                if not varied(text, self._texts[other])
            ][:1]

    @staticmethod
    def _ordered(scores: NDArray[np.float64]) -> list[tuple[int, float]]:
        """The nearest texts and their scores; -1 stands for what is no neighbour."""
        first = np.argsort(-scores, kind="stable")[:_TRIED]
        return [(int(k), float(scores[k])) for k in first if scores[k] > -1.0]

    def _margin(self, place: int, other: int, score: float) -> float:
        own, theirs = (_without(self._own_next[k], score) for k in (place, other))
        return score - max(_middle(own), _middle(theirs))

    def stand_out(self, candidates: Sequence[ParaphraseCandidate]) -> list[float]:
        """How much nearer a candidate is than the next-nearest texts of either side."""
        # A row that a corpus repeats is one text, and several rewordings of an item, with its answer, do not hide
        # each other.
        around: dict[str, dict[str, float]] = {}  # per text of the benchmark, scores of candidates
        agreeing: dict[str, set[str]] = {}
        for entry in candidates:
            ours, other = entry.texts
            around.setdefault(ours, {})[other] = entry.score
            if entry.answer == "same":
                agreeing.setdefault(ours, set()).add(other)
        theirs: dict[str, NDArray[np.float64]] = {}
        texts = list(dict.fromkeys(entry.evidence["corpus_text"] for entry in candidates))
        for first in range(0, len(texts), _BATCH):
            batch = texts[first : first + _BATCH]
            for text, scores in zip(batch, self._reading.scores(batch, self._texts), strict=True):
                theirs[text] = _highest(scores, _NEXT + 1)
                self.nearest[text] = float(scores.max(initial=-1.0))
        margins = []
        for entry in candidates:
            text, other = entry.texts
            place = self._place.get(text)
            near = self._own_next[place] if place is not None else np.empty(0)
            hidden = agreeing[text] if entry.answer == "same" else {other}
            beside = [score for each, score in around[text].items() if each not in hidden]
            near = _highest(np.append(near, beside), _NEXT)
            beyond = _without(theirs[entry.evidence["corpus_text"]], entry.score)
            margins.append(entry.score - max(_middle(near), _middle(beyond)))
        return margins


def _highest(scores: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.sort(scores)[::-1][:count]


def _without(scores: NDArray[np.float64], score: float) -> NDArray[np.float64]:
    """All but the one that is this score, which is the pair's own."""
    if not len(scores):
        return scores
    place = int(np.abs(scores - score).argmin())
    if abs(float(scores[place]) - score) > _EQUAL:
        return scores
    return np.delete(scores, place)


def _middle(scores: NDArray[np.float64]) -> float:
    known = scores[scores > -1.0][:_NEXT]
    return float(np.median(known)) if len(known) else 0.0


_EQUAL = 1e-4  # rounding of one product computed twice


def may_count(entry: ParaphraseCandidate, tells: bool = False) -> bool:
    """What no likeness makes up for. ``tells``: more than the words identifies the item."""
    texts = entry.texts
    if (
        entry.answer == "different"
        or _too_short(entry)
        or _captions(entry)
        or other_subject(*texts)
        or not same_amounts(*texts)
    ):
        return False
    if entry.own:
        return True
    if entry.answer != "same" and not names_the_same(*texts):
        return False
    if entry.evidence["generic"] and not tells:
        return False  # asked of several pictures: it identifies none
    return entry.answer == "same" or not (entry.evidence["short"] or varied(*texts))


def is_nearest(
    entry: ParaphraseCandidate,
    best_item: Mapping[tuple[str, str, str], float],
    nearest: float,
) -> bool:
    """Is no other item meant? ``nearest``: the score of the benchmark's nearest text, whatever its answer: a
    question with "not" put in varies that item, though another one may have its answer."""
    return entry.score >= max(best_item.get(entry.document, -1.0), nearest - _NEARER)


def _captions(entry: ParaphraseCandidate) -> bool:
    """Free text that states something, held against a question: it may tell the answer, and asks nothing."""
    ours, theirs = entry.evidence["benchmark_text"], entry.evidence["corpus_text"]
    return entry.row["corpus_field"] in ("text", "picture") and states(theirs) and not states(ours)


def _too_short(entry: ParaphraseCandidate) -> bool:
    ours, theirs = (
        len(loose(entry.evidence[side]).split()) for side in ("benchmark_text", "corpus_text")
    )
    return theirs < _FEWEST_WORDS or theirs < _SHORTER * ours


def _settled_row(entry: ParaphraseCandidate) -> dict[str, Any]:
    evidence = {
        **entry.evidence,
        "benchmark_text": entry.evidence["benchmark_text"][:SHOWN],
        "corpus_text": entry.evidence["corpus_text"][:SHOWN],
    }
    return {
        **entry.row,
        "similarity": entry.similarity,
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }
