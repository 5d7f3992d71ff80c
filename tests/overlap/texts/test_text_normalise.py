"""Profiles: what each of them makes equal, and what none of them may."""

from __future__ import annotations

import pytest

from heldout.overlap.texts._fields import unnumbered
from heldout.overlap.texts.normalise import (
    bare_options,
    loose,
    options_key,
    options_text,
    published,
    same_numbers,
    strict,
)


def test_the_published_profile_is_the_papers() -> None:
    assert (
        published("Which  LOBE shows\nthe 12 mm lesion?") == "which lobe shows the <NUM> mm lesion?"
    )
    assert published("Size 1.5 or 12,000?") == "size <NUM> or <NUM>?"
    assert options_text(["MRI", "CT"]) == "A. MRI B. CT"


def test_strict_keeps_case_and_numbers_and_loose_keeps_only_words() -> None:
    text = "Is the T1-weighted  LUNG healthy?"
    assert strict(text) == "Is the T1-weighted LUNG healthy?"
    assert loose(text) == "is the t0 weighted lung healthy"


def test_masked_numbers_are_not_the_same_numbers() -> None:
    assert published("T1 weighted?") == published("T2 weighted?")
    assert not same_numbers("T1 weighted?", "T2 weighted?")
    assert same_numbers("in 12 of 40", "In 12  OF 40!")


@pytest.mark.parametrize(
    "text",
    [
        "<p>Is the <b>lung</b> healthy?</p>",
        "Is the\u200b lu\u00adng healthy?",
        "Is the lung&nbsp;healthy&#63;",
        "Ｉｓ the lung healthy？",
        "\x00Is\x07 the lung\thealthy",
        "\u202eIs the lung healthy\u202c",
    ],
)
def test_markup_and_invisible_characters_make_no_difference(text: str) -> None:
    assert loose(text) == "is the lung healthy"


def test_less_than_is_not_a_tag() -> None:
    assert strict("p < 0.05 and q > 2") == "p < 0.05 and q > 2"


def test_scripts_without_spaces_are_read_by_character() -> None:
    assert loose("肺部健康吗？") == "肺 部 健 康 吗"
    assert loose("CT扫描") == "ct 扫 描"
    assert loose("هل الرئة سليمة؟") == "هل الرئة سليمة"


def test_decomposed_and_composed_letters_are_one() -> None:
    assert loose("cafe\u0301") == loose("caf\u00e9") != loose("cafe")


def test_options_lose_letters_only_when_all_carry_theirs() -> None:
    assert bare_options(["A. lung", "B) liver", "(c) heart"]) == ["lung", "liver", "heart"]
    assert bare_options(["A. fib", "none"]) == ["A. fib", "none"]
    assert options_key(["CT", "MRI"]) == options_key(["A. MRI", "B. CT"])


def test_a_sheets_number_is_not_part_of_a_question() -> None:
    assert unnumbered("12. What is shown?") == unnumbered("Question 3: What is shown?")
    assert unnumbered("2.5 cm mass?") == "2.5 cm mass?"
