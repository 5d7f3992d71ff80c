"""What a model reads of an item, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from heldout.benchmark import Example
from heldout.image import ImageRef, InlineBytes
from heldout.model.item_scores import answerable
from heldout.model.request import Text, option_requests, placed_with_options, question_request


@pytest.fixture
def pictures(picture: Callable[..., bytes]) -> tuple[ImageRef, ...]:
    return tuple(ImageRef(f"{n}.png", InlineBytes(picture(n), f"{n}.png")) for n in range(2))


def test_pictures_stand_before_the_question_and_the_answer_is_the_only_scored_text(
    pictures: tuple[ImageRef, ...],
) -> None:
    request = question_request(Example("7", pictures, " Which organ? ", answer=" liver\n"))
    assert request.id == "7" and request.turn
    assert request.content == (*pictures, Text("Which organ?"), Text("liver", scored=True))
    assert request.target == "liver"


def test_ablations_leave_out_the_pictures_or_the_question(pictures: tuple[ImageRef, ...]) -> None:
    example = Example("7", pictures, "Which organ?", answer="liver")
    assert question_request(example, with_image=False).content == (
        Text("Which organ?"),
        Text("liver", scored=True),
    )
    assert question_request(example, with_question=False).content == (
        *pictures,
        Text("liver", scored=True),
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("<image>\nWhich?", [0, 1, "Which?"]),
        ("<image><image>\nWhich?", [0, 1, "Which?"]),
        ("Compare <image 2> with <image 1>.", ["Compare ", 1, " with ", 0, "."]),
        ("Is <image_2> new?", [0, 1, "Is  new?"]),
        ("<image 9> <image> a <image> b", [0, 1, "a  b"]),
        ("", [0, 1]),
    ],
)
def test_pictures_stand_where_the_question_marks_them(
    pictures: tuple[ImageRef, ...], question: str, expected: list[int | str]
) -> None:
    content = question_request(Example("7", pictures, question, answer="x")).content[:-1]
    assert content == tuple(pictures[e] if isinstance(e, int) else Text(e) for e in expected)
    words = question_request(Example("7", (), question, answer="x")).content[:-1]
    assert not any("<image" in part.text for part in words if isinstance(part, Text))


@pytest.mark.parametrize(
    ("question", "options", "expected"),
    [
        ("Which?", ("A. x", "B. y"), [0, 1, "Which?\nA. x\nB. y"]),
        ("<image 1> <image 2>", ("A. x",), [0, " ", 1, "A. x"]),
        ("What is it?", ("A. <image 2>", "B. <image 1>"), ["What is it?\nA. ", 1, "\nB. ", 0]),
        ("Like <image 1>?", ("A. <image 2>", "B. none"), ["Like ", 0, "?\nA. ", 1, "\nB. none"]),
        (
            "Is <image 1> or <image 2> new?",
            ("A. <image 1>", "B. <image 2>"),
            ["Is ", 0, " or ", 1, " new?\nA. image 1\nB. image 2"],
        ),
        ("Which?", ("A. <image 2>", "B. <image 3>"), [0, "Which?\nA. ", 1, "\nB. image 3"]),
    ],
)
def test_an_option_may_be_a_picture(
    pictures: tuple[ImageRef, ...],
    question: str,
    options: tuple[str, ...],
    expected: list[int | str],
) -> None:
    parts = placed_with_options(question, options, pictures)
    assert parts == [pictures[e] if isinstance(e, int) else Text(e) for e in expected]


def test_a_mark_with_a_number_of_any_length_is_no_error(pictures: tuple[ImageRef, ...]) -> None:
    question = f"<image {'9' * 5000}>"
    assert placed_with_options(question, ["A. <image 1>"], pictures)[0] == pictures[1]
    assert question_request(Example("7", pictures, question, answer="x")).content[:2] == pictures


def test_every_option_takes_the_place_of_the_answer(pictures: tuple[ImageRef, ...]) -> None:
    example = Example("7", pictures, "Which?", ("liver", "lung"), "lung", 1)
    requests = option_requests(example)
    assert [request.id for request in requests] == ["7#option0", "7#option1"]
    assert [request.target for request in requests] == ["liver", "lung"]
    assert requests[1].content == question_request(example).content


def test_an_answer_that_is_a_picture_is_left_out_with_its_reason() -> None:
    answers = ["liver", "<image 3>", " <image> ", "", "see <image 3>"]
    kept, dropped = answerable([Example(str(n), (), "?", answer=a) for n, a in enumerate(answers)])
    assert [one.id for one in kept] == ["0", "4"]
    told = {one.id: one.reason for one in dropped}
    assert told == {
        "1": "the answer is a picture",
        "2": "the answer is a picture",
        "3": "no answer",
    }


def test_an_item_without_an_answer_has_nothing_to_score() -> None:
    assert question_request(Example("7", (), "Which?")).target == ""
