"""Beside the own picture, where a benchmark is too small to show how near different questions come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from text_corpus import bench, corpus, matches, scan_all

from heldout.overlap import DOUBTFUL_REWORDING
from heldout.overlap.texts._chances import FEW, OWN_ALPHA, ParaphraseCandidate
from heldout.overlap.texts._prior import GRID, SHARES, SmallNull
from heldout.overlap.texts._questions import same_frame
from heldout.overlap.texts._rewordings import OwnPictures
from heldout.overlap.texts.encoders import carried
from heldout.overlap.texts.index import TextSearch

HAT = "Is the man wearing a hat?"


@pytest.mark.parametrize(
    ("text", "other", "framed"),
    [
        (HAT, "Is the man wearing glasses?", True),  # another word
        (HAT, "Does the man have something on his head, such as a cap?", False),
        (
            "Is there a pink star?",
            "Is the pink star larger than the blue ring?",
            True,
        ),  # one more thing
        ("Is the plane flying before noon?", "Is the plane in the air earlier than noon?", False),
        ("Where is the mass?", "What is the location of the mass?", False),
        ("Is there a fracture?", "Is there a fracture of the wrist?", False),  # nothing replaced
    ],
)
def test_a_frame_with_another_word_or_one_more_thing(text: str, other: str, framed: bool) -> None:
    assert same_frame(text, other) is same_frame(other, text) is framed


def candidate(text: str, cosine: float) -> ParaphraseCandidate:
    evidence = {"benchmark_text": HAT, "corpus_text": text}
    return ParaphraseCandidate({}, evidence, True, similarity=cosine, score=cosine)


def test_chances_of_a_small_benchmark_are_those_of_others_and_its_own() -> None:
    settled = (0.90, 0.72)
    framed, free = (
        candidate(text, 0.80)
        for text in ("Is the man wearing glasses?", "Does something cover his head?")
    )
    none = SmallNull([], "bge-small", settled)
    shares = SHARES["bge-small"]
    place = GRID.index(0.80)
    assert none.p(framed) == pytest.approx(shares.same_frame[place])
    assert none.p(free) == pytest.approx(shares.other_words[place])
    assert none.p(framed) > OWN_ALPHA > none.p(free)
    assert none.p(replace(free, similarity=0.71)) == 1.0  # no nearer than most
    # Pairs of its own: ten that are all farther, or five of ten as near.
    far, near = (SmallNull(scores, "bge-small", settled) for scores in ([0.5] * 10, [0.5, 0.9] * 5))
    assert far.p(free) < none.p(free) < near.p(free)
    assert near.p(free) == pytest.approx((FEW * none.p(free) + 5) / (FEW + 10))
    # An encoder that nobody measured: sure at the cosine that counts alone, doubtful below.
    other = SmallNull([], "transformers:x", (0.88, 0.75))
    chances = [other.p(candidate(HAT, cosine)) for cosine in (0.9, 0.8, 0.7)]
    assert chances[0] < OWN_ALPHA < chances[1] < chances[2]


@pytest.mark.parametrize("name", list(SHARES))
def test_the_nearer_a_question_the_fewer_different_ones_are_so_near(name: str) -> None:
    for shares in SHARES[name]:
        assert len(shares) == len(GRID)
        assert (np.diff(shares) <= 0).all()
    assert (np.asarray(SHARES[name].same_frame) + 0.015 >= SHARES[name].other_words).all()


ASKED = (  # question, the one beside its picture, answer
    (HAT, "Is the man wearing glasses?", "yes"),
    ("How many suitcases does the traveller pull?", "How many tickets does the traveller hold?", "2"),
    ("Is there a bicycle in the photo?", "Can you see a bike anywhere in this picture?", "no"),
    ("Which month has the lowest rainfall?", "When does it rain least, according to the chart?", "July"),
    ("What sport are the children playing?", "What is printed on the boy's shirt?", "football"),
)  # fmt: skip


def test_a_different_question_in_the_same_frame_is_a_possible_rewording_at_most(
    tmp_path: Path,
) -> None:
    """A benchmark of five: what shares a frame and an answer is for people to read, what is far is nothing."""
    for package in ("wordllama", "onnxruntime", "tokenizers"):
        pytest.importorskip(package)
    if carried("bge-small") is None:
        pytest.skip("no package carries bge-small")
    items = [{"question": ours, "answer": answer} for ours, _, answer in ASKED]
    rows = [
        {"id": str(place), "question": theirs, "answer": answer}
        for place, (_, theirs, answer) in enumerate(ASKED)
    ]
    own = OwnPictures({str(place): (place,) for place in range(len(ASKED))})
    search = TextSearch(methods=("embedding",), encoder="wordllama", reader="bge-small")
    found = {
        row["benchmark_id"]: DOUBTFUL_REWORDING in row["evidence"]["reading"]
        for row in matches(scan_all(bench(*items), corpus(tmp_path, *rows), search, own))
        if row["degree"] != "none" and row["benchmark_id"] == row["corpus_id"]
    }
    assert found == {"0": True, "1": True, "2": False, "3": False}
    # A cosine of one's own replaces all this.
    search = replace(search, threshold=0.72)
    rows_found = matches(scan_all(bench(*items), corpus(tmp_path, *rows), search, own))
    assert not any(DOUBTFUL_REWORDING in row["evidence"]["reading"] for row in rows_found)
