"""Programs that were rewritten: matched one to one, they count as far as different programs do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from heldout.overlap.texts._chances import ParaphraseCandidate
from heldout.overlap.texts._programs import FEWEST, MOST, RewordedPrograms
from heldout.overlap.texts._questions import is_program, statements

CALLS = ("sorted", "sum", "max", "len", "zip", "set", "range", "abs", "map", "round")


class Wording:
    """Texts in a space of 40 dimensions in which all programs of one author lie on one side."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)
        self._rows: dict[str, np.ndarray] = {}
        self._number = 0

    def program(self, near: str = "", noise: float = 0.8, author: int = 0) -> str:
        """A new program; ``near``: one that it rewrites."""
        self._number += 1
        calls = " + ".join(f"{name}(xs)" for name in self._draw.choice(CALLS, 3, replace=False))
        text = f"def f{self._number}(xs):\n    if xs == 0:\n        return 1\n    return {calls}"
        meant = self._rows[near][:40] if near else self._draw.normal(size=40)
        written = meant + noise * self._draw.normal(size=40)
        self._rows[text] = np.concatenate([written, 6.0 * np.eye(2)[author]])
        return text

    def cosines(self, texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
        ours, theirs = (np.stack([self._rows[t] for t in side]) for side in (texts, others))
        lengths = np.linalg.norm(ours, axis=1)[:, None] * np.linalg.norm(theirs, axis=1)[None]
        return (ours @ theirs.T / lengths).astype(np.float32)


def _candidate(item: str, text: str, other: str) -> ParaphraseCandidate:
    row = {"benchmark_id": item, "corpus": "web", "corpus_id": other, "answer_relation": "unknown"}
    return ParaphraseCandidate(row, {"benchmark_text": text, "corpus_text": other}, own=False)


def _found(seed: int, reworded: int, strangers: int, items: int = 60) -> tuple[int, int]:
    """Rewordings that count, and different programs that do."""
    wording = Wording(seed)
    asked = {str(k): wording.program() for k in range(items)}
    truth = {asked[str(k)]: wording.program(near=asked[str(k)], author=1) for k in range(reworded)}
    others = [*truth.values(), *(wording.program(author=1) for _ in range(strangers))]
    programs = RewordedPrograms(asked, others, wording.cosines, 0.02)
    counted = [
        (text, other)
        for item, text in asked.items()
        for other in others
        if programs.chance(_candidate(item, text, other)) is not None
    ]
    right = sum(truth.get(text) == other for text, other in counted)
    return right, len(counted) - right


def test_rewritten_programs_are_found_though_their_author_writes_otherwise() -> None:
    found = [_found(seed, reworded=60, strangers=20) for seed in range(5)]
    right, wrong = (sum(pair[k] for pair in found) for k in (0, 1))
    assert right >= 0.85 * 5 * 60
    assert wrong <= 0.05 * (right + wrong)


def test_different_programs_do_not_count() -> None:
    wrong = [
        _found(seed, reworded=0, strangers=size)[1] for seed in range(10) for size in (40, 120)
    ]
    assert sum(wrong) <= 2  # of 1,200 items


def test_programs_that_could_be_matched_the_other_way_round_do_not_count() -> None:
    """Two items that are nearly one program: nobody can tell whose rewriting is whose."""
    wording = Wording(1)
    asked = [wording.program() for _ in range(60)]
    asked[1] = wording.program(near=asked[0], noise=0.02)
    others = [wording.program(near=text, noise=0.2, author=1) for text in asked]
    programs = RewordedPrograms(
        {str(k): t for k, t in enumerate(asked)}, others, wording.cosines, 0.02
    )
    counting = [
        k
        for k, text in enumerate(asked)
        for other in others
        if programs.chance(_candidate(str(k), text, other)) is not None
    ]
    assert not {0, 1} & set(counting)
    assert len(counting) >= 55


@pytest.mark.parametrize(
    ("items", "others", "judged"),
    [(FEWEST - 1, 40, False), (FEWEST, MOST * FEWEST, True), (FEWEST, MOST * FEWEST + 1, False)],
)
def test_judged_where_parts_of_the_benchmark_can_show_what_chance_does(
    items: int, others: int, judged: bool
) -> None:
    wording = Wording(1)
    asked = {str(k): wording.program() for k in range(items)}
    candidates = [_candidate("0", asked["0"], wording.program()) for _ in range(others)]
    programs = RewordedPrograms.of(candidates, asked, wording.cosines, 0.02)
    assert programs.judges(candidates[0]) == judged
    assert not programs.judges(_candidate("0", "What is shown?", "What does it show?"))


def test_what_a_program_is_built_of_leaves_out_what_it_says() -> None:
    text = (
        'def f(x):\n    """Return 7 + x.\n    >>> f(1)\n    8\n    """\n    return g("a - b") + x'
    )
    assert is_program(text)
    assert "7" not in statements(text) and "a - b" not in statements(text)
    assert "return g(" in statements(text)
