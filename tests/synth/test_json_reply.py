"""An item out of a reply: what is one is read, however it is wrapped; what is none has a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_fence import figure

from heldout.model.request import CUT, REFUSED, STOPPED, Reply
from heldout.synth._generate import UnreadableError, read_draft

ITEM: dict[str, Any] = {
    "question": "Which lobe is opaque?",
    "options": {"A": "upper", "B": "middle", "C": "lower", "D": "lingula", "E": "none of these"},
    "answer": "C",
}
TEXT = json.dumps(ITEM)
FOUR = {**ITEM, "options": {key: ITEM["options"][key] for key in "ABCD"}}
SIX = {**ITEM, "options": {**ITEM["options"], "F": "hilum"}}


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        (TEXT, False),
        (f"  {TEXT}\n", False),
        (f"<think>Perhaps {{}}?</think>{TEXT}", False),
        (f"{TEXT}<|im_end|>", False),
        (f"Here it is:\n```json\n{TEXT}\n```\nGood luck!", True),
        (f"Sure! {TEXT}", True),
        (TEXT[:-1] + ",}", True),
        (TEXT.replace('"', "“", 1).replace('"', "”", 1), True),
        (json.dumps({**ITEM, "options": list(ITEM["options"].values())}), True),
    ],
)
def test_an_item_is_read_in_its_wrapping(text: str, repaired: bool) -> None:
    draft = read_draft(Reply("x", text), figure("Cells."), "me")
    assert (draft.question, draft.answer, draft.options[2]) == (ITEM["question"], "C", "lower")
    assert draft.extra == ({"repaired": "yes"} if repaired else {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty reply"),
        ("  \n", "empty reply"),
        ("<think>Let me see", "cut off"),
        ("I'm sorry, I cannot help with that.", "refused"),
        ("It is the second.", "malformed JSON"),
        (TEXT[:-12], "malformed JSON"),
        (f"{TEXT} {TEXT}", "malformed JSON"),
        (
            TEXT.replace('"B"', '"A"', 1),
            "malformed JSON",
        ),  # a key twice: nobody knows which is meant
        ("[" * 100_000, "malformed JSON"),
        ('{"question": 1' + "0" * 5_000 + "}", "malformed JSON"),
        ("[]", "malformed JSON"),
        ("{}", "not an item"),
        (json.dumps({**ITEM, "question": None}), "not an item"),
        (json.dumps({**ITEM, "options": "A, B"}), "not an item"),
        (
            json.dumps({"question": "…", "options": dict.fromkeys("ABCDE", "…"), "answer": "A"}),
            "form repeated",
        ),
        (TEXT.replace("lobe", r"\ud800 lobe"), "broken characters"),
        (TEXT.replace("middle", r"mid\u0000dle"), "broken characters"),
        (json.dumps(FOUR), "not five options"),
        (json.dumps(SIX), "not five options"),
        (json.dumps({**ITEM, "options": dict.fromkeys("ABCDE", 1)}), "not five options"),
        *(
            (json.dumps({**ITEM, "answer": said}), "answer is no letter")
            for said in ("", "F", "c", "AB", "ABCDE", "C. lower", "lower", None, 3, ["C"])
        ),
    ],
)
def test_what_is_no_item_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_draft(Reply("x", text), figure("Cells."), "me")
    assert caught.value.reason == reason


@pytest.mark.parametrize(("finish", "reason"), [(CUT, "cut off"), (REFUSED, "refused")])
def test_a_reply_that_the_server_marks_is_not_read(finish: str, reason: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_draft(Reply("x", TEXT, finish), figure("Cells."), "me")
    assert caught.value.reason == reason
    assert read_draft(Reply("x", TEXT, STOPPED), figure("Cells."), "me").answer == "C"
