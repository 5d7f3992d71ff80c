"""A new right answer: never the old one, uniform, a function of seed and id; or a reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmark import Benchmark, read_benchmark
from heldout.twin.resample import NewAnswer, resample

ORGANS = ["liver", "heart", "lung", "spleen"]


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Callable[..., Benchmark]:
    (tmp_path / "0.png").write_bytes(picture(0))
    (tmp_path / "1.png").write_bytes(picture(1))
    (tmp_path / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing more")

    def make(*rows: dict[str, Any]) -> Benchmark:
        whole = [
            {"id": f"q{number}", "image": "0.png", "question": "Which organ?", **row}
            for number, row in enumerate(rows)
        ]
        path = tmp_path / "test.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in whole))
        return read_benchmark(path)

    return make


def drawn(benchmark: Benchmark, seed: int = 0) -> tuple[dict[str, NewAnswer], dict[str, str]]:
    made, dropped = resample(benchmark, benchmark.examples, seed)
    return {one.id: one for one in made}, {one.id: one.reason for one in dropped}


def test_the_draw_is_uniform_over_the_wrong_options(bench: Callable[..., Benchmark]) -> None:
    rows = [{"options": ORGANS, "answer": ORGANS[n % 4], "id": f"i{n}"} for n in range(600)]
    made, dropped = drawn(bench(*rows))
    assert not dropped
    assert all(one.new_answer != one.old_answer for one in made.values())
    places = Counter((one.new_index - ORGANS.index(one.old_answer)) % 4 for one in made.values())  # type: ignore[operator]
    # Three ways, 200 each; five standard deviations of a binomial are 58.
    assert set(places) == {1, 2, 3} and all(142 < count < 258 for count in places.values())


def test_a_draw_depends_on_seed_and_id_alone(bench: Callable[..., Benchmark]) -> None:
    rows = [{"options": ORGANS, "answer": "liver", "id": f"i{n}"} for n in range(40)]
    whole, _ = drawn(bench(*rows))
    half, _ = drawn(bench(*rows[:-21:-1]))
    assert all(half[name] == whole[name] for name in half)
    other, _ = drawn(bench(*rows), seed=1)
    assert other != whole


@pytest.mark.parametrize(
    ("answer", "other"), [("yes", "no"), ("No", "Yes"), ("YES", "NO"), ("False", "True")]
)
def test_yes_and_no_flip(bench: Callable[..., Benchmark], answer: str, other: str) -> None:
    made, _ = drawn(bench({"answer": answer}))
    assert (made["q0"].new_answer, made["q0"].new_index) == (other, None)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"answer": "liver"}, "open question"),
        ({"answer": None}, "no answer"),
        ({"options": ["liver"], "answer": "liver"}, "single option"),
        ({"options": ORGANS, "answer": "kidney"}, "answer not among the options"),
        ({"options": ["Liver", "liver ", "the liver"], "answer": "Liver"}, "no other option"),
        (
            {"options": ["liver", "None of the above"], "answer": "liver"},
            "other options speak of the options",
        ),
        ({"options": ORGANS, "answer": "liver", "image": ["0.png", "1.png"]}, "several pictures"),
        ({"options": ORGANS, "answer": "liver", "image": None}, "no picture"),
        ({"options": ORGANS, "answer": "liver", "question": " "}, "no question"),
        ({"options": ORGANS, "answer": "liver", "image": "gone.png"}, "missing image"),
    ],
)
def test_what_can_have_no_twin_has_a_reason(
    bench: Callable[..., Benchmark], row: dict[str, Any], reason: str
) -> None:
    good = {"options": ORGANS, "answer": "liver", "id": "good"}
    made, dropped = drawn(bench(row, good))
    assert list(made) == ["good"]
    assert dropped == {"q0": reason}


def test_a_picture_that_does_not_decode_is_not_paid_for(bench: Callable[..., Benchmark]) -> None:
    good = {"options": ORGANS, "answer": "liver"}
    made, dropped = drawn(bench({**good, "image": "torn.png"}, good))
    assert list(made) == ["q1"] and list(dropped) == ["q0"]


def test_all_of_the_above_may_be_the_old_answer_but_not_the_new(
    bench: Callable[..., Benchmark],
) -> None:
    options = ["liver", "heart", "All of the above", "none of these"]
    rows = [{"options": options, "answer": options[2], "id": f"i{n}"} for n in range(30)]
    made, _ = drawn(bench(*rows))
    assert {one.new_answer for one in made.values()} == {"liver", "heart"}
