"""The edit pass finds every pair brute force finds, and no other."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from heldout.overlap.texts.edits import SHORTEST, SIMILAR, EditIndex
from heldout.overlap.texts.normalise import published


def brute(ours: list[str], documents: list[str]) -> set[tuple[int, int]]:
    scores = process.cdist(
        ours, documents, scorer=Levenshtein.normalized_similarity, dtype=np.float64
    )
    return {
        (int(a), int(b))
        for a, b in zip(*np.nonzero(scores >= SIMILAR), strict=True)
        if len(ours[a]) >= SHORTEST
    }


def edited(text: str, draw: random.Random, alphabet: str) -> str:
    letters = list(text)
    for _ in range(draw.randint(0, len(letters) // 8)):
        place = draw.randrange(len(letters))
        letters[place : place + 1] = draw.choice(
            [[], [draw.choice(alphabet)], [letters[place], draw.choice(alphabet)]]
        )
        letters = letters or ["a"]
    return "".join(letters)


def test_no_pair_is_lost_and_none_invented() -> None:
    for seed, alphabet in enumerate(["abcdefgh ", "ab", "肺部健康吗血管 abc"]):
        draw = random.Random(seed)
        ours = ["".join(draw.choices(alphabet, k=draw.randint(15, 260))) for _ in range(80)]
        documents = [edited(text, draw, alphabet) for text in ours for _ in range(4)]
        found = {(near.text, near.document) for near in EditIndex(ours).find(documents)}
        truth = brute(ours, documents)
        assert found == truth
        assert len(truth) > 80


def test_vqa_rads_own_questions_are_found_like_brute_force(shared_data: Path) -> None:
    ours, theirs = (
        sorted({published(row["question"]) for row in json.loads(path.read_text())})
        for path in (
            shared_data / "vqa_rad/mevf_testset.json",
            shared_data / "vqa_rad/mevf_trainset.json",
        )
    )
    found = {(near.text, near.document) for near in EditIndex(ours).find(theirs)}
    assert found == brute(ours, theirs)
    assert found


def test_when_every_text_is_alike_memory_is_bounded(monkeypatch: object) -> None:
    from heldout.overlap.texts import edits

    monkeypatch.setattr(edits, "_PAIRS", 50)  # type: ignore[attr-defined]
    ours = [f"is there a fracture of the left femur number {k}" for k in range(30)]
    found = {(near.text, near.document) for near in EditIndex(ours).find(ours)}
    assert found == brute(ours, ours)


def test_the_edit_pass_misses_very_short_texts() -> None:
    assert EditIndex(["Is it a CT?"]).find(["is it a CT?", "Is it a CT?"]) == []
