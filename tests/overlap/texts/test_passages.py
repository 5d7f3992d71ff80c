"""Questions inside pages: found by themselves, with what stands before them, and with the answer behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from text_corpus import bench, corpus, matches, scan_all

from heldout.overlap.images._join import Hits
from heldout.overlap.texts._fields import Document, answer_keys
from heldout.overlap.texts._labelled import answer_after, labelled_texts
from heldout.overlap.texts._passages import questions_within
from heldout.overlap.texts._questions import asks, names_the_same
from heldout.overlap.texts._rewordings import _one_of_each
from heldout.overlap.texts.index import TextSearch
from heldout.overlap.texts.normalise import figures, loose

WORDS = TextSearch(methods=("embedding",), encoder="wordllama")
RUNS = TextSearch(methods=("ngram",))
PAGE = (
    "Our summer fair was a success again, thanks to all who came and to the bakers above all. "
    "The weather held, and the band played until the evening without a break. "
    "Ada sold 12 cakes in the morning. She sold 9 more after lunch. How many cakes did Ada sell on that day? "
    "Next year we shall meet on the old market square, where there is more room for the children's games."
)


def passages(text: str, longest: int = 30) -> list[str]:
    return [each.text for each in questions_within(Document("page", "text", text), longest)]


def test_a_question_is_read_alone_and_with_the_sentences_before_it() -> None:
    asked = "How many cakes did Ada sell on that day?"
    with_one, with_two = (
        f"She sold 9 more after lunch. {asked}",
        "Ada sold 12 cakes in the morning.",
    )
    assert passages(PAGE) == [asked, with_one, f"{with_two} {with_one}"]
    assert passages(PAGE, longest=10) == [asked]


def test_a_paragraph_is_the_limit_and_the_text_itself_no_passage() -> None:
    asked = "Which pet rests on the couch at noon?"
    assert passages(f"A first paragraph that says nothing much of all this.\n\n{asked}") == [asked]
    assert passages(asked) == []
    assert passages("") == []


def test_list_items_are_sentences_of_their_own() -> None:
    quiz = "Quiz\n1. Which pet rests on the couch?\n2. Which bird sings at dawn in the garden?\n- And so on."
    assert "Which bird sings at dawn in the garden?" in passages(quiz)


def test_scripts_without_spaces_have_passages_too() -> None:
    page = (
        "昨日はとても良い天気でした。公園にはたくさんの人がいました。ソファで寝ている動物は何ですか？それは秘密です。"
        * 2
    )
    assert "ソファで寝ている動物は何ですか？" in passages(page, longest=40)


def test_programs_and_endless_sentences_are_left_alone() -> None:
    program = "def area(x, y):\n    # what is the area?\n    if x > 0:\n        return x * y\n" * 5
    assert passages(program) == []
    assert passages("many words without an end " * 500 + "?") == []


@pytest.mark.parametrize(
    ("following", "answer", "told"),
    [
        (" Answer: 21 cakes\nMore text.", "21 cakes", True),
        (" Answer: 21. Next year we shall meet again.", "21", True),
        (" Solution: she sold 12. Then she sold 9 more.\n#### 21", "21", True),
        ("\nA: 21\nQ: And then?", "21", True),
        (" 12 + 9 = 21, so the answer is 21. We went home.", "21", True),
        (" She sold 12 and 9 of them.\n#### 21\n", "21", True),
        (" 21 cakes. Next year we shall meet again.", "21 cakes", False),
        (" — 21", "21", False),
        (" **21**", "21", False),
        (" (21)", "21", False),
        (" I get 21.", "21", False),
        (" I would say it was 21.", "21", False),
        (" (3 marks) 21", "21", False),
        (" | 21 | easy |", "21", False),
        ("\nBack: 21", "21", False),
        ("\n\n21\n\nAnother question comes here.", "21", False),
        ("\nCONTESTANT: Hmm... 21?", "21", False),
        (" The answer, of course, is 21. This page was updated.", "21", True),
        ("\nAssistant: Sure! 21.\nUser: Thanks!", "21", True),
        ("\nAssistant: Good question. 21.\nUser: Thanks!", "21", True),
        (" It is 21.", "21", False),
        (" Any ideas?\n\nRe: help\nposted by Ann\nShould be 21.", "21", False),
        (" Cheers\n\nRe: help\nposted by Ann\nI get 21.", "21", False),
        (" 21 are gone.", "21", False),
    ],
)
def test_what_follows_a_question_may_be_its_answer(following: str, answer: str, told: bool) -> None:
    texts, said = answer_after("How many cakes did Ada sell?", following)
    assert (answer in texts, said) == (True, told)


@pytest.mark.parametrize(
    "following",
    [
        " A long remark about it all comes first? Answer: 21",
        " It was a long day.",
        " Please explain.",
        " Yes or no.",
        " Next year we shall meet on the old market square, where there is more room.",
        " (3 marks)",
        " [2 pts]",
        " Thanks!",
        " ________",
        "\n\nPage 2 of 4",
        "\n4. A jacket costs 30 euros.",
        "",
    ],
)
def test_not_all_that_follows_a_question_is_an_answer(following: str) -> None:
    assert answer_after("How many cakes did Ada sell?", following) == ((), False)


@pytest.mark.parametrize(
    ("following", "answer"),
    [
        (" Right.", "Right"),
        (" They are also 49.", "also 49"),
        (" Also so 49", "Also so 49"),
        (" 12 points.", "12 points"),
        ("\nBack: also 49", "also 49"),
        (" The result was published in a journal of that time.", None),
    ],
)
def test_words_of_an_answer_are_not_taken_for_what_is_said_around_one(
    following: str, answer: str | None
) -> None:
    texts, told = answer_after("How many cakes did Ada sell?", following)
    assert (texts[:1], told) == ((answer,) if answer else (), False)


@pytest.mark.parametrize("filling", [" ", "\n", " \n", "#", "*", "1. a ", "\n1. ", "'", ",;"])
def test_endless_fillings_are_read_in_one_go(filling: str) -> None:
    """What takes the square of its length stops the suite."""
    page = f"1. What is this?{filling * 100_000}Answers{filling * 100_000}1. a{filling * 100_000}"
    assert len(passages(page)) <= 5


def test_a_letter_behind_options_is_the_option() -> None:
    following = "\nA. cat\nB. dog\nC. bird\nAnswer: B"
    assert answer_after("Which pet rests on the couch?", following) == (("dog",), True)


def test_politeness_before_an_answer_is_none_of_it() -> None:
    assert "84" in answer_keys("Sure! 84.")
    assert "3/8" in answer_keys("Good question. 3/8")
    assert answer_keys("Sure!") == ("sure",)


def _answers(text: str) -> list[tuple[str, ...]]:
    document = Document("page", "text", text)
    return list(dict.fromkeys(each.answers for each in questions_within(document, 30)))


def test_a_key_at_the_end_answers_by_number() -> None:
    quiz = (
        "Quiz of the week, for all who like to guess.\n1. Which pet rests on the couch at noon?\n"
        "2. Which bird sings at dawn in the garden?\n\nAnswers: 1. dog 2. robin"
    )
    assert _answers(quiz) == [("dog",), ("robin",)]
    assert _answers(quiz.replace("Answers: 1. dog 2. robin", "Answer key\n1) dog\n2) robin")) == [
        ("dog",),
        ("robin",),
    ]


def test_answers_before_their_questions_are_not_those_of_the_next() -> None:
    page = "Answer: dog\nQuestion: Which pet rests on the couch?\n\nAnswer: robin\nQuestion: Which bird sings?"
    assert labelled_texts(page).pairs == (
        ("Which pet rests on the couch?", "dog"),
        ("Which bird sings?", "robin"),
    )
    assert ("robin",) not in _answers(f"{page} And what does it sing of at this hour of the day?")


def test_markup_parts_pages_as_browsers_do() -> None:
    page = (
        "<h1>All about animals, a page for the curious</h1><h3>Which pet rests on the <b>couch</b> at noon?</h3>"
        "<p>dog</p><h3>Which bird sings at dawn in the garden?</h3><p>robin</p>"
    )
    assert len(passages(page)) == 2
    assert _answers(page) == [("dog",), ("robin",)]


def test_thanks_contradict_no_number(tmp_path: Path) -> None:
    rows = [{"id": f"page{k}", "text": _page(k, "No idea, sorry.")} for k in range(0, 40, 4)]
    right = [{"id": f"page{k}", "text": _page(k, f"I get {3 * k + 8}.")} for k in range(0, 40, 4)]
    wrong = [{"id": f"page{k}", "text": _page(k, f"I get {3 * k + 9}.")} for k in range(0, 40, 4)]
    found = [_counted(tmp_path, each) for each in (rows, right, wrong)]
    assert found[1] == {(str(k), f"page{k}") for k in range(0, 40, 4)}
    assert found[2] == set()


def test_a_request_is_a_question_too() -> None:
    assert asks("Add up the passengers: 12 in front, 9 behind.")
    assert asks("Exercise 3: Count all buttons in the drawer.")
    assert asks("Consolidated lung is seen; name the affected lobe.")
    assert asks("Please name the largest of the planets.")
    assert not asks("What we found is hard to believe.")
    assert not asks("The count of the planets is known.")


def _shops(count: int) -> list[dict[str, Any]]:
    """Questions of one kind, with numbers and answers of their own."""
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Fay", "Gus", "Hal", "Ivy", "Jon")
    things = ("cakes", "lamps", "kites", "drums", "shirts", "boats", "clocks")
    return [
        {
            "question": f"{names[k % 10]} sold {3 + k} {things[k % 7]} on Monday and {2 * k + 5} on Tuesday. "
            f"How many {things[k % 7]} did {names[k % 10]} sell altogether?",
            "answer": str(3 * k + 8),
        }
        for k in range(count)
    ]


def _page(place: int, told: str) -> str:
    """A reworded shop within prose; ``told``: what stands behind the question."""
    names = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Fay", "Gus", "Hal", "Ivy", "Jon")
    things = ("cakes", "lamps", "kites", "drums", "shirts", "boats", "clocks")
    name, thing = names[place % 10], things[place % 7]
    return (
        "Weekly letter of the reading circle, with thanks to all who wrote in and to the printers in town.\n\n"
        f"Monday's sales of {thing} came to {3 + place} for {name}, those of Tuesday to {2 * place + 5}. "
        f"Taken together, how many {thing} were sold by {name}? {told}\n\n"
        "The next letter will be about gardens in autumn, and about what became of the old mill by the river."
    )


def _counted(folder: Path, rows: Sequence[dict[str, Any]]) -> set[tuple[str, str]]:
    result = scan_all(bench(*_shops(40)), corpus(folder, *rows), WORDS)
    return {
        (row["benchmark_id"], row["corpus_id"])
        for row in matches(result)
        if row["degree"] != "none"
    }


def test_a_rewording_inside_a_page_is_found_with_the_answer_behind_it(tmp_path: Path) -> None:
    rows = [{"id": f"page{k}", "text": _page(k, f"Answer: {3 * k + 8}")} for k in range(0, 40, 4)]
    found = _counted(tmp_path, rows)
    assert found == {(str(k), f"page{k}") for k in range(0, 40, 4)}


def test_the_answer_of_a_page_contradicts_its_question(tmp_path: Path) -> None:
    rows = [{"id": f"page{k}", "text": _page(k, f"Answer: {3 * k + 9}")} for k in range(0, 40, 4)]
    assert _counted(tmp_path, rows) == set()


def test_passages_of_one_text_do_not_crowd_out_other_texts() -> None:
    documents = [Document(name, "text", f"{name} {k}") for name in "ab" for k in range(3)]
    hits = Hits(
        query=_array([0] * 6 + [1] * 2),
        position=_array([10, 11, 12, 13, 14, 15, 11, 12]),
        similarity=_array([0.5, 0.9, 0.7, 0.6, 0.8, 0.4, 0.3, 0.2], float),
    )
    kept = _one_of_each(hits, documents, 10)
    assert kept.query.tolist() == [0, 0, 1]
    assert kept.position.tolist() == [11, 14, 11]
    assert kept.similarity.tolist() == [0.9, 0.8, 0.3]


def _array(values: Sequence[float], kind: type = int) -> Any:
    import numpy as np

    return np.asarray(values, kind)


def test_figures_are_those_that_the_loose_profile_reads() -> None:
    text = "In 1,250 of ½ ２３ cases T2\u200b5 was 3.5 人7"
    assert len(figures(text)) == loose(text).count("0")
    assert figures(text) == ("1", "250", "1", "2", "23", "25", "3", "5", "7")


@pytest.mark.parametrize(
    ("text", "other", "kept"),
    [
        ("Which river flows through Baghdad in Iraq?", "Baghdad lies on which river?", True),
        ("Which river flows through Baghdad in Iraq?", "Which river runs through Cairo?", False),
        ("What do people speak in Brazil?", "What is the Brazilian mother tongue?", True),
        ("Which organ makes insulin?", "Insulin comes from what part of the body?", True),
        ("How far is it in 3 hours at 15 km/h?", "Three hours at 15 km/h: how far?", True),
        ("How far is it in 3 hours at 15 km/h?", "How far at 15 km/h?", False),
        ("How far is it in 3 hours at 15 km/h?", "How far is it in 4 hours at 15 km/h?", False),
        (
            'def even(xs):\n    """Those at even places, as Python counts: 2 of 3."""\n    return xs[::2]',
            'def every_other(items):\n    """Each second item."""\n    return items[0::2]',
            True,
        ),
    ],
)
def test_without_an_answer_names_and_numbers_have_to_be_there(
    text: str, other: str, kept: bool
) -> None:
    assert names_the_same(text, other) is kept


LONG = (
    "A train leaves the northern harbour at 8 with 120 people and stops at 4 stations where 15 people leave it "
    "every time before the driver has a rest. How many people are still on the train?"
)
AROUND = (
    "This is a page about many things, and it goes on for a while without any need to do so. " * 6
)


def test_numbers_inside_pages_are_compared_where_the_words_stand(tmp_path: Path) -> None:
    other = LONG.replace("120", "140").replace("15", "25")
    benchmark = bench({"question": LONG, "answer": "60"})
    rows = [
        {"id": "same", "text": f"{AROUND}In 1990 it was 7. {LONG} {AROUND}"},
        {"id": "other", "text": f"{AROUND}In 1990 it was 7. {other} {AROUND}"},
        {"id": "both", "text": f"{AROUND}{other} {AROUND}{LONG} {AROUND}"},
    ]
    found = {
        row["corpus_id"]: (row["relation"], row["degree"])
        for row in matches(scan_all(benchmark, corpus(tmp_path, *rows), RUNS))
    }
    assert found["same"][0] == found["both"][0] == "contained"
    assert found["other"] == ("renumbered", "none")
