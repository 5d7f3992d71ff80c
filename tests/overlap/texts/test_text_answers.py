"""Answers that say the same in other signs."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_corpus import LONG, bench, corpus, matches, scan_all

from heldout.benchmark import normal
from heldout.overlap.texts._answers import same_answer


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
    ],
)
def test_other_values_and_signs_are_other_answers(ours: str, theirs: str) -> None:
    assert not same_answer(normal(ours), normal(theirs))


def test_an_answer_in_other_units_contradicts_nothing(tmp_path: Path) -> None:
    rows = [{"id": "same", "question": LONG, "answer": "8 h"}]
    rows += [{"id": "other", "question": LONG, "answer": "9 h"}]
    item = {"question": LONG, "answer": "8 hours"}
    listed = matches(scan_all(bench(item), corpus(tmp_path, *rows)), "exact")
    relations = {row["corpus_id"]: row["relation"] for row in listed}
    assert relations == {"same": "same item", "other": "same question"}
