"""Questions and answers in one text are read as if they had columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_corpus import LONG, bench, corpus, matches, scan_all

from heldout.corpus import CorpusItem
from heldout.overlap.texts._fields import document_texts
from heldout.overlap.texts._labelled import labelled_texts

ASKED = "Which pet rests on the couch?"


@pytest.mark.parametrize(
    "text",
    [
        f"Question: {ASKED}\nAnswer: dog",
        f"Question 12: {ASKED} Answer: dog",
        f"Q: {ASKED}\nA: dog",
        f"User: {ASKED}\nAssistant: dog",
        f"human: {ASKED}\n\nassistant: dog",
        f"### Instruction:\n{ASKED}\n\n### Response:\ndog",
        f"**Problem:** {ASKED}\n**Solution:** dog",
        f"Q: {ASKED}\nAnswer: B) dog",
    ],
)
def test_labels_part_question_and_answer(text: str) -> None:
    assert labelled_texts(text) == (((ASKED, "dog"),), "", ())


@pytest.mark.parametrize(
    "text",
    [
        f"Q: {ASKED} A: dog B: cat",
        f"Question: {ASKED}\nA: dog\nB: cat",
        f"Question: {ASKED}",
        f"Question: {ASKED}\nAnswer:",
        "Answer: dog",
        "The problem with an answer: there is none. A solution was found.",
    ],
)
def test_without_a_question_and_its_answer_nothing_is_parted(text: str) -> None:
    assert labelled_texts(text).pairs == ()


def test_what_stands_around_the_pairs_is_kept() -> None:
    page = "Exercises of the third week, for all who missed it."
    text = f"{page}\nQ: {ASKED}\nA: dog\nQ: Who?\nInput: two cats\nA: nobody"
    parted = labelled_texts(text)
    assert parted.pairs == ((ASKED, "dog"), ("Who?\ntwo cats", "nobody"))
    assert parted.rest == page
    documents = [(d.field, d.answers) for d in document_texts(CorpusItem("a", None, text))]
    assert documents == [("question", ("dog",)), ("question", ("nobody",)), ("text", ())]


def test_another_answer_in_the_text_contradicts_as_a_column_does(tmp_path: Path) -> None:
    item = {"question": LONG, "answer": "basilar artery"}
    rows = [
        {"id": "labelled", "text": f"User: {LONG}\nAssistant: carotid artery"},
        {"id": "columns", "question": LONG, "answer": "carotid artery"},
        {"id": "same", "text": f"Question: {LONG}\nAnswer: basilar artery"},
        {"id": "page", "text": f"A page that says more.\nQ: {LONG.lower()}\nA: Basilar artery"},
    ]
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "exact")
    assert {row["corpus_id"]: (row["relation"], row["degree"]) for row in listed} == {
        "labelled": ("same question", "soft"),
        "columns": ("same question", "soft"),
        "same": ("same item", "hard"),
        "page": ("same item", "hard"),
    }


@pytest.mark.parametrize(
    ("after", "answer"),
    [
        (" dog", "dog"),
        ("\nA small white dog.", "A small white dog"),
        (" Please answer with one word.", ""),
        (" Answer the question using a single word or phrase.", ""),
        (" dog or cat", ""),
        (" A dog. More words follow.", ""),
        ("\nA. dog\nB. cat", ""),
        (" And who feeds it?", ""),
        (" It is the one that the neighbours brought along with them on Sunday.", ""),
        ("", ""),
    ],
)
def test_a_few_words_after_a_question_are_its_answer(after: str, answer: str) -> None:
    text = f"{ASKED}{after}"
    assert labelled_texts(text) == ((), text, (answer,) if answer else ())


def test_words_without_a_label_contradict_no_question_in_its_own_words(tmp_path: Path) -> None:
    item = {"question": LONG, "answer": "basilar artery"}
    rows = [
        {"id": "remark", "text": f"{LONG} Great question!"},
        {"id": "answer", "text": f"{LONG} Basilar artery."},
        {"id": "labelled", "text": f"A page of theirs.\nQ: {LONG}\nA: carotid artery"},
    ]
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "ngram")
    assert {row["corpus_id"]: row["answer_relation"] for row in listed} == {
        "remark": "unknown",
        "answer": "same",
        "labelled": "different",
    }


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ("Sure! The correct answer here is Athens.", "athens"),
        ("The answer is carbon dioxide. I hope this helps!", "carbon dioxide"),
        ("It was Athens, of course.", "athens"),
        ("It's 3.5 m.", "3.5 m"),
        ("It is not Athens.", ""),
        ("Athens hosted them.", ""),
    ],
)
def test_a_sentence_says_what_the_answer_is(answer: str, stated: str) -> None:
    (document, *_) = document_texts(CorpusItem("a", None, f"Q: {ASKED}\nA: {answer}"))
    wanted = {"athens", "carbon dioxide", "3.5 m"} & set(document.answers)
    assert wanted == ({stated} if stated else set())


def test_a_letter_is_the_option_that_the_question_lists() -> None:
    listed = f"{ASKED}\nA. dog\n(B) two cats\nC: none"
    for answer in ("B", "(b)", "B. two cats"):
        for text in (f"Q: {listed}\nAnswer: {answer}", f"{listed}\nAnswer: {answer}"):
            (document, *_) = document_texts(CorpusItem("a", None, text))
            assert document.answers == ("two cats",)
    (document,) = document_texts(CorpusItem("a", None, f"Q: {ASKED}\nA: B"))
    assert document.answers == ("b",)
    assert labelled_texts(f"{ASKED} Nobody knows.\nAnswer: B").pairs == ()
