from __future__ import annotations

import pytest

from heldout.benchmark.benchmark import normal
from heldout.corpus import CorpusItem
from heldout.overlap.relations import relate_text


def item(
    question: str | None = None, answer: str | None = None, *also: tuple[str, str]
) -> CorpusItem:
    return CorpusItem("x", question=question, answer=answer, also=also)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (("Is it big?", "no"), item("is it  BIG", "No."), ("full", "same")),
        (("Is it big?", "no"), item("Is it big?", "not sure"), ("image and question", "different")),
        (("Is it big?", "no"), item("Is it big?", "yes"), ("image and question", "different")),
        (("Is it big?", "no"), item("Is it big?"), ("image and question", "unknown")),
        (("Is it big?", "no"), item("Is it small?", "no"), ("image only", "unknown")),
        (("Is it big?", "no"), item(), ("image only", "unknown")),
        # a bare letter stands for an option that nobody sees here
        (("What is it?", "CT"), item("What is it?", "B"), ("image and question", "unknown")),
        (("What is it?", "CT"), item("What is it?", "(b)"), ("image and question", "unknown")),
        (("How many?", "3"), item("How many?", "4"), ("image and question", "different")),
        # the same question about the picture, with an answer in fuller words
        (("What is it?", "CT"), item("What is it?", "CT scan"), ("full", "same")),
        (("How many?", "3"), item("How many?", "three lesions"), ("full", "same")),
        (("", "tabby"), item(None, "tabby cat"), ("image only", "unknown")),
        # the gravest of several turns and of several accepted answers counts
        (("Is it big?", "no"), item("Hi", "Hello", ("Is it big?", "no")), ("full", "same")),
        (("Is it big?", "no"), item("Is it big?", "yes", ("Is it big?", "no")), ("full", "same")),
        # labels without a question
        (("", "tabby cat"), item(None, "Tabby cat"), ("full", "same")),
        (("", "tabby cat"), item(None, "tiger"), ("image only", "different")),
        (
            ("", "A man rides a horse home."),
            item(None, "A rider in the sun, going home"),
            ("image only", "unknown"),
        ),
    ],
)
def test_what_leaked_beside_the_picture(
    ours: tuple[str, str], theirs: CorpusItem, expected: tuple[str, str]
) -> None:
    assert tuple(relate_text(normal(ours[0]), normal(ours[1]), theirs)) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Is it BIG ?", "is it big", True),
        ("10²", "102", False),
        ("x₂", "x2", False),
        ("ＣＴ？", "ct", True),  # full-width letters
        ("−3", "-3", True),
        ("It’s", "it's", True),
        ("?", "", False),
        ("?", "!", False),
        ("Straße", "STRASSE", True),
        ("no", "not", False),
    ],
)
def test_texts_are_one_as_people_read_them(one: str, other: str, same: bool) -> None:
    assert (normal(one) == normal(other)) is same
