"""What a describer and a verifier said, read strictly."""

from __future__ import annotations

import pytest

from heldout.image import ImageRef, InlineBytes
from heldout.model.request import CUT, REFUSED, Reply, Text
from heldout.store import Dropped
from heldout.twin.verify import describe_prompt, read_caption, read_verdict, verify_prompt


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("It shows two.\nKEEP", "keep"),
        ("It shows two.\n\n**KEEP**\n", "keep"),
        ("Two circles, so it holds.\nAnswer: KEEP", "keep"),
        ("Blurred.\nFinal verdict: REJECT.", "reject"),
        ("<think>KEEP?</think>No.\nreject", "reject"),
        ("REJECT", "reject"),
        ("I would KEEP", "unread"),
        ("KEEP or REJECT", "unread"),
        ("KEEP\nOn second thoughts it is blurred", "unread"),
        ("do not KEEP", "unread"),
        ("KEEPER", "unread"),
        ("<think>it is fine KEEP", "unread"),
        ("", "unread"),
        ("\n**\n", "unread"),
    ],
)
def test_a_verdict_is_the_last_line_and_nothing_else(text: str, verdict: str) -> None:
    assert read_verdict(Reply("q", text)).verdict == verdict


def test_a_verdict_that_was_cut_or_refused_keeps_nothing() -> None:
    assert read_verdict(Reply("q", "Fine.\nKEEP", CUT)).verdict == "unread"
    assert read_verdict(Reply("q", "KEEP", REFUSED)).verdict == "unread"


def test_the_reasoning_is_kept() -> None:
    assert read_verdict(Reply("q", "Two cats.\nNo dog.\nKEEP")).reason == "Two cats.\nNo dog."


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("q", " \n "), "empty caption"),
        (Reply("q", "A red circle", CUT), "caption cut off"),
        (Reply("q", "", REFUSED), "caption refused"),
        (Reply("q", "I’m sorry, I can't help with that."), "caption refused"),
        (Reply("q", "As an AI, I see nothing"), "caption refused"),
        (Reply("q", "word " * 21), "caption too long"),
    ],
)
def test_a_reply_that_is_no_caption_has_its_own_reason(reply: Reply, reason: str) -> None:
    found = read_caption(reply, 20)
    assert isinstance(found, Dropped) and found.reason == reason


def test_a_caption_is_one_line() -> None:
    assert read_caption(Reply("q", "A sorry sight:\n a red  circle."), 20) == (
        "A sorry sight: a red circle."
    )


def test_what_is_asked_holds_all_that_matters() -> None:
    picture = ImageRef("p", InlineBytes(b"", "p"))
    options = ["one {0}", "two", "three"]
    for prompt in (
        describe_prompt("q", picture, "How {many}?", options, "one {0}", "three", 99),
        verify_prompt("q", picture, "How {many}?", options, "three"),
    ):
        shown, words = prompt.request.content
        assert shown is picture and isinstance(words, Text)
        assert "Question: How {many}?\nOptions:\nA. one {0}\nB. two\nC. three\n" in words.text
        assert ": three\n" in words.text
    assert (
        "at most 99 words"
        in describe_prompt("q", picture, "?", [], "no", "yes", 99).request.content[1].text
    )  # type: ignore[union-attr]
