"""Answers that say the same in other signs."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_corpus import LONG, bench, corpus, matches, scan_all

from heldout.benchmark import normal
from heldout.overlap.texts._answers import compare_answers, same_answer


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("8 hours", "8 h"),
        (r"$2\,\Omega$", "2 ohms"),
        (r"$4.9\,\mathrm{m/s^2}$", "4.9 m/s²"),
        (r"$30^\circ$", "30 degrees"),
        (r"$\frac{1}{2}$", "half"),
        ("1/4", "a quarter"),
        ("three", "3"),
        ("1,000 m", "1000 metres"),
        ("50%", "50 per cent"),
        ("The aorta.", "aorta"),
        ("small-cell carcinoma", "Small cell carcinoma"),
        ("15", "15 minutes"),
        ("15", "t = 15"),
        ("15", "360/24 = 15"),
        ("15", "It takes 15 minutes to drain."),
        ("15", "360 / 24 = 15, so after 15 minutes."),
        ("24", "24 kilometres per hour"),
        ("24 km/h", "24 kilometres per hour"),
        ("169", "169 m²"),
        ("100", "100 °C"),
        ("100 degrees", "100 °C"),
        ("100", "€100"),
        ("100", "one hundred"),
        ("25", "twenty-five"),
        ("3,000,000", "3 million"),
        ("3", "Three chambers"),
        ("12 mm", "1.2 cm"),
        ("0.6", "60%"),
        ("0.5", "1/2"),
        ("72", "She sold 48 in April and 24 in May, which makes 72 clips."),
        ("yes", "Yes, there is."),
        ("no", "No tumour is seen"),
    ],
)
def test_units_articles_numbers_and_formulas_may_be_written_otherwise(
    ours: str, theirs: str
) -> None:
    assert same_answer(normal(ours), normal(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("2", "-2"),
        ("5 m", "5 minutes"),
        ("10 m/s", "10 m"),
        ("10²", "102"),
        ("3-4", "34"),
        ("f'(2)", "f(2)"),
        ("vitamin A", "vitamin"),
        ("C", "C++"),
        ("yes", "no"),
        ("T1", "T2"),
        ("1", "T1-weighted"),
        ("two", "T2 weighted MRI of the brain"),
        ("three", "The 3rd ventricle and the lateral ventricles"),
        ("2", "2D"),
        ("2", "a patient with type 2 diabetes"),
        ("3", "3x"),
        ("2", "2π"),
        ("2", "2√3"),
        ("7", "5 to 7"),
        ("15", "not 15"),
        ("three", "opened uterus with three myomas, quite typical"),
        ("three forms of sclerosis", "the opened uterus has three myomas"),
        ("six digits", "a neutrophil with a six-lobed nucleus"),
        ("5", "x = 3 or x = 5"),
        ("15", "there are at least 15 of them"),
        ("15", "more than 15 of them are left"),
        ("15", "she has 15 apples and 3 pears"),
        ("3", "3 million"),
        ("12 mm", "12 cm"),
        ("8 hours", "8 minutes"),
        ("yes", "No, there is none"),
        ("no fracture", "no tumour"),
        ("no", "no. 5"),
    ],
)
def test_other_values_and_signs_are_other_answers(ours: str, theirs: str) -> None:
    assert not same_answer(normal(ours), normal(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs", "relation"),
    [
        ("CT", "CT scan", "unknown"),
        ("pneumonia", "most likely pneumonia", "unknown"),
        ("Vincent van Gogh", "Van Gogh", "unknown"),
        ("Amazon", "the Amazon River", "unknown"),
        ("Marie Curie", "Marie Skłodowska Curie", "unknown"),
        ("right upper lobe", "The right upper lobe is affected.", "unknown"),
        ("carbon dioxide", "plants take up carbon dioxide", "unknown"),
        ("oxygen", "plants take up carbon dioxide", "different"),
        ("carbon dioxide", "plants do not take up carbon dioxide", "different"),
        ("pneumonia", "no pneumonia", "different"),
        ("left", "right", "different"),
        ("C", "vitamin C", "different"),
        ("15", "she has 15 apples and 3 pears", "different"),
        ("30", "adrenal of a premature 30 week infant", "unknown"),
        ("four", "on the right in this four-chamber view", "different"),
    ],
)
def test_an_answer_that_says_more_is_no_other_one(ours: str, theirs: str, relation: str) -> None:
    assert compare_answers(normal(ours), normal(theirs)) == relation
    assert compare_answers(normal(theirs), normal(ours)) == relation


def test_another_option_is_another_answer_though_it_says_more(tmp_path: Path) -> None:
    item = {"question": LONG, "answer": "lung", "options": ("lung", "left lung", "liver")}
    row = {"id": "a", "question": LONG, "answer": "left lung"}
    (listed,) = matches(scan_all(bench(item), corpus(tmp_path, row)), "exact")
    assert listed["answer_relation"] == "different"


def test_answers_in_fuller_words_do_not_hide_a_common_question(tmp_path: Path) -> None:
    rows = [{"id": str(k), "question": LONG, "answer": "an MRI scan"} for k in range(4)]
    item = {"question": LONG, "answer": "MRI"}
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "exact")
    assert {row["degree"] for row in listed} == {"hard"}  # nobody answers it otherwise
    assert {row["evidence"]["fuller_answer"] for row in listed} == {True}


def test_a_solution_that_follows_its_task_is_the_same_item(tmp_path: Path) -> None:
    task = 'def first_long(words):\n    """Return the first word of more than five letters."""\n'
    body = "    for word in words:\n        if len(word) > 5:\n            return word\n"
    turns = [("user", f"Complete:\n{task}"), ("assistant", f"```python\n{task}{body}```")]
    talk = [{"role": role, "content": content} for role, content in turns]
    rows = [{"id": "text", "text": task + body}, {"id": "chat", "messages": talk}]
    rows += [{"id": "other", "text": task + body.replace("> 5", "> 6")}]
    found = matches(scan_all(bench({"question": task, "answer": body}), corpus(tmp_path, *rows)))
    same = {row["corpus_id"] for row in found if row["relation"] == "same item"}
    assert same == {"text", "chat"}


def test_an_answer_in_other_units_contradicts_nothing(tmp_path: Path) -> None:
    rows = [{"id": "same", "question": LONG, "answer": "8 h"}]
    rows += [{"id": "other", "question": LONG, "answer": "9 h"}]
    item = {"question": LONG, "answer": "8 hours"}
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "exact")
    relations = {row["corpus_id"]: row["relation"] for row in listed}
    assert relations == {"same": "same item", "other": "same question"}
