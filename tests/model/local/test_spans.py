"""Which tokens are the scored text."""

from __future__ import annotations

import pytest

from heldout.model.local.layout import scored_tokens


@pytest.mark.parametrize(
    ("text", "offsets", "spans", "places", "clean"),
    [
        ("Q: yes", [(0, 2), (2, 6)], [(3, 6)], [1], True),  # the blank before may belong to it
        ("Q:yes", [(0, 1), (1, 5)], [(2, 5)], [1], False),  # ":yes" is more than the answer
        ("Q:yes.", [(0, 2), (2, 6)], [(2, 5)], [1], False),
        ("Q:yes", [(0, 2), (2, 4), (4, 5)], [(2, 5)], [1, 2], True),
        ("yes", [(0, 2), (2, 3)], [(0, 3)], [1], False),  # nothing predicts the first token
        ("yes", [(0, 0), (0, 2), (2, 3)], [(0, 3)], [1, 2], True),  # a token added before it does
        ("a b c", [(0, 1), (1, 3), (3, 5)], [(2, 3), (4, 5)], [1, 2], True),
        ("x bc", [(0, 1), (1, 4)], [(2, 3), (3, 4)], [1], True),  # two scored texts in one token
        ("x é", [(0, 1), (1, 3), (1, 3)], [(2, 3)], [1, 2], True),  # two tokens of one character
        ("x yes", [(0, 1), (1, 4)], [(2, 5)], [1], False),  # the end of the answer has no token
        ("x yes", [(0, 1)], [(2, 5)], [], False),
    ],
)
def test_tokens_are_found_by_their_characters(
    text: str,
    offsets: list[tuple[int, int]],
    spans: list[tuple[int, int]],
    places: list[int],
    clean: bool,
) -> None:
    assert scored_tokens(text, offsets, spans) == (places, clean)
