"""A benchmark's questions with their answers, and which items ask one of them and give its answer.

Every item is compared with every question: in the same words, edited, or reworded (by a text encoder). A
generator can always write another item, so doubtful items are removed. A question that the benchmark
itself asks of many images is a stock question: asking it is not copying it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from heldout.benchmark import Benchmark, normal, script_of
from heldout.overlap import (
    EDITED,
    RENUMBERED,
    SAME,
    TEMPLATE,
    bare_options,
    compare_wording,
    loose,
    mask,
    open_text_encoder,
)
from heldout.synth.draft import (
    CLINICAL_SUBTYPES,
    LETTERS,
    Draft,
    PaperFigure,
    labels_of_caption,
    split_labels,
)

FEW_IMAGES = 3  # a question asked of more is a stock question
REWORDED = 0.70  # cosine of two questions with the same telling answer; measured in docs/synth.md
# Used where the answer says little ("yes", "CT"), or where nearly equal texts differ in one word.
NEARLY_THE_SAME = 0.88
_STOCK_ANSWER = 0.01  # share of the questions with one answer, above which that answer says little
_OPTIONS = 0.5  # share of the benchmark's options that a reworded item has, too
_BLOCK = 2_048
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
# Words whose exchange hardly changes an embedding but changes the question.
_OPPOSITES = (
    ("left", "right"),
    ("anterior", "posterior"),
    ("ventral", "dorsal"),
    ("proximal", "distal"),
    ("upper", "lower"),
    ("superior", "inferior"),
    ("above", "below"),
    ("medial", "lateral"),
    ("before", "after"),
    ("with", "without"),
    ("t1", "t2"),
    ("arterial", "venous"),
    ("male", "female"),
    ("increased", "decreased"),
)
_Words = tuple[str, tuple[str, ...]]  # the words alone, and their numbers

WHOLE_ITEM = "same question, options and answer"
WORDS = "same question and answer"
EDITED_WORDS = "edited question and answer"
REWORDED_WORDS = "reworded question and answer"
_GRAVEST = (WHOLE_ITEM, WORDS, EDITED_WORDS, REWORDED_WORDS)


@dataclass(frozen=True)
class QuestionMatch:
    """An item that asks a question of the benchmark and gives its answer. ``stock``: the benchmark asks it
    of many images, and the item is kept."""

    item: str
    example: str
    relation: str
    similarity: float
    stock: bool
    question: str = ""  # the benchmark's


class BenchmarkQuestions:
    """Every distinct question of a benchmark. Without an encoder rewordings are not looked for.

    ``reworded``: the cosine from which on a question with the same telling answer is a rewording.
    """

    def __init__(
        self, benchmark: Benchmark, encoder: str | None, reworded: float = REWORDED
    ) -> None:
        self._threshold = reworded
        self._examples = [example for example in benchmark if (example.question or "").strip()]
        # By question, the first example of every answer and list of options.
        having: dict[str, dict[tuple[str, ...], int]] = {}
        for place, example in enumerate(self._examples):
            messages = (normal(example.answer), *example.options)
            having.setdefault(normal(example.question), {}).setdefault(messages, place)
        self._texts = list(having)
        self._places = [list(places.values()) for places in having.values()]
        clusters = dict(zip((example.id for example in benchmark), benchmark.clusters, strict=True))
        self._asked: dict[_Words, set[tuple[str, str]]] = {}  # images and answers
        for example in self._examples:
            asked = self._asked.setdefault(_words(example.question or ""), set())
            asked.add((clusters[example.id], normal(example.answer)))
        self._kin: dict[int, set[int]] = {}  # questions that differ in one word or in numbers
        for number, text in enumerate(self._texts):
            for key in _templates(text):
                self._kin.setdefault(key, set()).add(number)
        answers = Counter(
            answer
            for places in self._places
            for answer in {normal(self._examples[place].answer) for place in places}
        )
        most = max(FEW_IMAGES, _STOCK_ANSWER * len(self._texts))
        self._stock_answers = {answer for answer, count in answers.items() if count > most}
        self._model = open_text_encoder(encoder) if encoder is not None else None
        self._rows = self._embed(self._texts)
        self._stock: dict[tuple[int, str, float], bool] = {}

    def compare(self, items: Sequence[Draft]) -> Iterator[QuestionMatch]:
        """One match for every item that has any; one that removes it, if possible."""
        for matches in self.matches(items).values():
            yield matches[0]

    def matches(self, items: Sequence[Draft]) -> dict[str, list[QuestionMatch]]:
        """By item all questions that it asks and answers, the gravest first."""
        ours = [normal(item.question) for item in items]
        rows = self._embed(ours)
        matches: dict[str, list[QuestionMatch]] = {}
        for start in range(0, len(self._texts), _BLOCK):
            for place, text, cosine in self._near(ours, rows, start):
                for match in self._agreeing(items[place], text, cosine):
                    matches.setdefault(match.item, []).append(match)
        return {item: sorted(listed, key=_gravity) for item, listed in matches.items()}

    def counts(self, item_scripts: Collection[str]) -> dict[str, Any]:
        """How many questions there are, and how many could be found in items of these scripts."""
        scripts = Counter(script_of(example.question or "") for example in self._examples)
        readable = [
            example
            for example in self._examples
            if script_of(example.question or "") in item_scripts
        ]
        answered = [example for example in readable if normal(example.answer)]
        number = {text: place for place, text in enumerate(self._texts)}
        rare = [
            example
            for example in answered
            if not self._is_stock(
                number[normal(example.question)], example.answer or "", NEARLY_THE_SAME
            )
        ]
        return {
            "questions": len(self._examples),
            "scripts": dict(scripts.most_common()),
            "other_script": len(self._examples) - len(readable),
            "without_answer": len(readable) - len(answered),
            "stock": len(answered) - len(rare),
            "findable": len(rare),
        }

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        return None if self._model is None else self._model.embed([mask(text) for text in texts])

    def _near(
        self, ours: Sequence[str], rows: NDArray[np.float32] | None, start: int
    ) -> Iterator[tuple[int, int, float]]:
        """(item, question, cosine) of one block that is near by letters or by meaning."""
        texts = self._texts[start : start + _BLOCK]
        letters = process.cdist(
            ours,
            texts,
            scorer=Levenshtein.normalized_similarity,
            score_cutoff=TEMPLATE,
            dtype=np.float32,
        )
        cosine = np.zeros_like(letters)
        if rows is not None and self._rows is not None:
            cosine = rows @ self._rows[start : start + len(texts)].T
        for place, text in np.argwhere(
            (letters >= TEMPLATE) | (cosine >= self._threshold)
        ).tolist():
            yield place, start + text, float(cosine[place, text])

    def _agreeing(self, item: Draft, text: int, cosine: float) -> Iterator[QuestionMatch]:
        right = item.options[LETTERS.index(item.answer)]
        for place in self._places[text]:
            example = self._examples[place]
            if not _same_answer(example.answer or "", right):
                continue
            wording = compare_wording(example.question or "", item.question)
            if wording != SAME and _opposite(example.question or "", item.question):
                continue
            shared = _shared_options(example.options, item.options)
            similarity = cosine
            if wording in (SAME, EDITED) and shared == 1.0:
                relation, similarity = WHOLE_ITEM, 1.0
            elif wording in (SAME, EDITED):
                relation = WORDS if wording == SAME else EDITED_WORDS
                similarity = Levenshtein.normalized_similarity(
                    self._texts[text], normal(item.question)
                )
            elif (
                wording != RENUMBERED
                and (shared is None or shared >= _OPTIONS)
                and self._reworded(example.answer, text, item, cosine)
            ):
                relation = REWORDED_WORDS
            else:
                continue
            stock = relation != WHOLE_ITEM and self._is_stock(
                text, right, min(cosine or 1.0, NEARLY_THE_SAME)
            )
            yield QuestionMatch(
                item.id, example.id, relation, similarity, stock, example.question or ""
            )

    def _is_stock(self, text: int, answer: str, cosine: float) -> bool:
        key = (text, normal(answer), cosine)
        if key not in self._stock:
            self._stock[key] = self._asked_of_many(*key)
        return self._stock[key]

    def _asked_of_many(self, text: int, answer: str, cosine: float) -> bool:
        """Asked of many images in these words; or of many in much the same words, this answer fitting more
        than one of them. Then an item is no nearer to it than other questions of its kind."""
        own = self._asked[_words(self._texts[text])]
        if len({image for image, _ in own}) > FEW_IMAGES:
            return True
        kin = set().union(*(self._kin[key] for key in _templates(self._texts[text])))
        if self._rows is not None:
            kin.update(np.flatnonzero(self._rows @ self._rows[text] >= cosine).tolist())
        asked = own.union(*(self._asked[_words(self._texts[neighbour])] for neighbour in kin))
        fitting = {image for image, key in asked if key == answer}
        return len({image for image, _ in asked}) > FEW_IMAGES and len(fitting) > 1

    def _reworded(self, answer: str | None, text: int, item: Draft, cosine: float) -> bool:
        # "… of the left femur?" and "… of the right femur?": nearly the same letters, and another word.
        theirs, ours = mask(self._texts[text]), mask(normal(item.question))
        template = Levenshtein.normalized_similarity(theirs, ours) >= TEMPLATE
        stock = normal(answer) in self._stock_answers
        if template and stock:
            return False
        return cosine >= (NEARLY_THE_SAME if template or stock else self._threshold)


def _opposite(theirs: str, ours: str) -> bool:
    """Whether one says "left" where the other says "right"."""
    first, second = (set(_WORD.findall(normal(text))) for text in (theirs, ours))
    only, other = first - second, second - first
    return any(
        {left, right} <= only | other and (left in only) != (right in only)
        for left, right in _OPPOSITES
    )


def _words(text: str) -> _Words:
    return loose(text), tuple(_NUMBER.findall(text))


def _templates(text: str) -> Iterator[int]:
    """Keys that the text shares with those that have another word, or other numbers."""
    words = loose(text).split()
    yield hash(tuple(words))
    for place in range(len(words)):
        yield hash((place, *words[:place], *words[place + 1 :]))


def _gravity(match: QuestionMatch) -> tuple[bool, int, float]:
    return match.stock, _GRAVEST.index(match.relation), -match.similarity


def _same_answer(theirs: str, ours: str) -> bool:
    if not normal(theirs):
        return False
    return normal(theirs) == normal(ours) or compare_wording(theirs, ours) in (SAME, EDITED)


def _shared_options(theirs: Sequence[str], ours: Sequence[str]) -> float | None:
    """The share of the benchmark's options that the item has, too; None where it has none."""
    if len(theirs) < 2:
        return None
    known = {normal(option) for option in bare_options(ours)}
    options = {normal(option) for option in bare_options(theirs)}
    return len(options & known) / len(options)


# What an item is about, by rules over its words and its figure's labels: kind of question,
# modality, anatomy.


OTHER = "other"
# The first rule that applies decides.
_ARCHETYPES: Mapping[str, str] = {
    "next-step": r"next (?:best )?step|best next|most appropriate (?:management|treatment"
    r"|investigation|test)|"
    r"should be (?:done|performed|given)",
    "grading": r"\bgrade\b|\bstage\b|severity|\bscore\b|classification",
    "diagnosis": r"diagnos|most likely (?:cause|explanation|condition|disease)|which (?:disease"
    r"|condition|disorder)",
    "modality": r"modality|imaging (?:technique|method)|\bsequence\b|which stain\b"
    r"|staining (?:method|technique)|"
    r"type of (?:image|imaging|microscop)|\btechnique\b",
    "localisation": r"\bwhere\b|which (?:\w+ )?(?:structure|region|lobe|organ|area|segment|side"
    r"|layer|compartment|"
    r"location|quadrant|panel|position)|located",
    "finding": r"finding|abnormalit|what is (?:seen|shown|visible)|is (?:seen|present|visible)"
    r"|lesion|feature",
}
_MODALITIES: Mapping[str, str] = {
    "x-ray radiography": "X-ray",
    "computerized tomography": "CT",
    "magnetic resonance": "MRI",
    "functional magnetic resonance": "MRI",
    "ultrasound": "ultrasound",
    "mammography": "mammography",
    "angiography": "angiography",
    "endoscopy": "endoscopy",
    "laryngoscopy": "endoscopy",
    "optical coherence tomography": "OCT",
    "electrocardiography": "ECG",
    "eye": "fundus photography",
    "light microscopy": "light microscopy",
    "electron microscopy": "electron microscopy",
    "fluorescence microscopy": "fluorescence microscopy",
    "immunohistochemistry": "immunohistochemistry",
    "microscopy": "microscopy",
    "unspecified microscopy": "microscopy",
    "intraoral imaging": "dental imaging",
    "teeth": "dental imaging",
    "skin lesion": "photograph",
    "patient photo": "photograph",
    "specimen": "photograph",
    "intraoperative image": "photograph",
    "surgical procedure": "photograph",
    "procedural image": "photograph",
    "plot": "plot",
    "diagram": "diagram",
    "map": "map",
    "immunoblot": "blot",
    "scene": "rendered scene",
}
_ANATOMY: Mapping[str, str] = {
    "brain": r"\bbrain|cerebr|cortex|cortical|cerebell|hippocamp|neuron|intracranial|thalam",
    "spine": r"\bspin(?:e|al)|vertebra|lumbar|cervical spine|disc\b",
    "eye": r"\beye|retina|cornea|optic nerve|macula|fundus",
    "teeth and jaw": r"\bteeth|\btooth|dental|mandib|maxill|molar|periodont",
    "head and neck": r"\bneck|larynx|pharyn|thyroid|sinus|\bskull|orbit",
    "heart and vessels": r"\bheart|cardia|coronar|aort|ventric|arter|vein|vascul|atri(?:um|al)",
    "lung and chest": r"\blung|pulmon|chest|thora|pleura|bronch|trachea",
    "breast": r"\bbreast|mammar",
    "liver and biliary": r"\bliver|hepat|biliary|gallbladder|bile",
    "gastrointestinal": r"stomach|gastr|bowel|colon|intestin|esophag|oesophag|rect(?:um|al)|duoden|append",
    "pancreas and spleen": r"pancrea|spleen",
    "kidney and urinary": r"kidney|renal|ureter|bladder|urinar",
    "reproductive": r"uter|ovar|prostat|testic|placent|f(?:o|oe)tal|fetus|cervix",
    "bone and joint": r"\bbone|fractur|femur|femoral|tibia|humer|\bhip\b|knee|shoulder|pelvi|joint|osteo",
    "skin": r"\bskin|derm|epiderm|melano",
    "blood and lymph": r"lymph|blood smear|leuk|erythrocyte|marrow",
    "cells": r"\bcell|mitochond|nucle(?:us|ar)|membrane|synap",
}
_COMPILED = {
    table: {name: re.compile(rule, re.IGNORECASE) for name, rule in rules.items()}
    for table, rules in (("archetype", _ARCHETYPES), ("anatomy", _ANATOMY))
}


def archetype_of(draft: Draft) -> str:
    """The kind of question; ``attribute`` where no rule applies."""
    if draft.archetype:
        return draft.archetype
    return _first("archetype", draft.question) or "attribute"


def modality_of(figure: PaperFigure) -> str:
    for label in (*split_labels(figure.secondary), labels_of_caption(figure.caption)[1]):
        if label in _MODALITIES:
            return _MODALITIES[label]
    return OTHER


def anatomy_of(draft: Draft, figure: PaperFigure) -> str:
    """By the question and its right option, else by the caption, else by the figure's label."""
    if figure.primary == "rendered":  # a drawn heart is not anatomy
        return OTHER
    right = draft.options[LETTERS.index(draft.answer)]
    for text in (f"{draft.question} {right}", figure.caption):
        name = _first("anatomy", text)
        if name:
            return name
    label = next(
        (label for label in split_labels(figure.secondary) if label in CLINICAL_SUBTYPES), ""
    )
    return {"brain": "brain", "skull": "head and neck", "eye": "eye", "teeth": "teeth and jaw"}.get(
        label, OTHER
    )


def _first(table: str, text: str) -> str:
    return next((name for name, rule in _COMPILED[table].items() if rule.search(text)), "")
