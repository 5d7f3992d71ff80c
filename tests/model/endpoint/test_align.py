"""Which of a server's tokens spell an answer, however the server tells its tokens."""

from __future__ import annotations

import pytest

from heldout.model.endpoint._read import ending, spell

CUT = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("tokens", "answer", "found"),
    [
        (["Q", "?", "\n", "left", " lung"], "left lung", ["left", " lung"]),
        (["Q", "?", "▁left", "▁lung"], "left lung", ["▁left", "▁lung"]),
        (["Q", "?", "Ġleft", "Ġlung"], "left lung", ["Ġleft", "Ġlung"]),
        (["Q", "?", "left", "lung"], "left lung", ["left", "lung"]),  # the decoder ate the spaces
        (["▁", "yes"], "yes", ["yes"]),  # a space of the template's is not the answer's
        (["yes", "?", "yes", "<|end|>", "\n"], "yes", ["yes"]),  # the template's tail is left out
        (["is", ":", CUT, CUT, CUT, CUT], "心脏", [CUT] * 4),  # characters cut into bytes
        ([":", "Gr", CUT, CUT, "e"], "Grße", ["Gr", CUT, CUT, "e"]),
        ([":", "<0xE5>", "<0xBF>", "<0x83>"], "心", ["<0xE5>", "<0xBF>", "<0x83>"]),
    ],
)
def test_the_answer_is_found_from_the_end(tokens: list[str], answer: str, found: list[str]) -> None:
    place = ending(tokens, answer)
    assert place is not None
    assert tokens[slice(*place)] == found


@pytest.mark.parametrize(
    ("tokens", "answer"),
    [
        (["Q", ":no", "thing"], "nothing"),  # a token that begins before the answer
        (["yes", *["x"] * 20], "yes"),  # the question's yes, far from the end
        (["Q", "?"], "yes"),
        ([":", CUT], "a whole sentence"),  # one piece is at most one character
        ([""], "yes"),
    ],
)
def test_what_does_not_spell_the_answer_is_not_it(tokens: list[str], answer: str) -> None:
    assert ending(tokens, answer) is None


def test_a_document_is_spelled_from_its_first_to_its_last_token() -> None:
    assert spell(["ab", " c", "\n", "d"], "ab c\nd") == [(0, 2), (2, 3), (3, 3), (3, 4)]
    assert spell(["ab"], "abc") is None
    assert spell(["ab", "d"], "abc") is None
    assert spell(["a", CUT, CUT, "c"], "aéc") == [(0, 1), (1, 2), (1, 2), (2, 3)]
