"""Balance: letters in equal shares, numbers in order, subsets nested in each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from made_items import figure, five, item, write_run

from heldout.synth import LETTERS, Synthesis, synth
from heldout.synth.balance import ascending

WORDS = ("liver", "spleen", "kidney", "heart", "lung")


@pytest.fixture
def made(tmp_path: Path, picture: Callable[..., bytes]) -> Synthesis:
    """53 items whose right option is always A; 13 with numbers, of which the largest is right."""
    path = tmp_path / "run"
    items = []
    for number in range(53):
        name = f"a{number}/f"
        one = figure(path, name, [picture(number % 5, (40, 30))],
                     secondary=("ultrasound", "x-ray radiography")[number % 2])  # fmt: skip
        options = five("90 mm", "10 mm", "30 mm", "20 mm", "-5 mm") if number < 13 else WORDS
        items.append((item(name, f"Which organ is shown in scan {number}?", options), one))
    write_run(path, items, flagged=["a50/f", "a51/f"])
    return synth(source="made", stages=("balance",), out=path, quiet=True)


def test_letters_are_equally_frequent_and_the_right_option_stays_right(made: Synthesis) -> None:
    rows = made.frame("balance").to_dicts()
    assert len(rows) == 53
    counts = Counter(row["answer"] for row in rows)
    # 13 numbers stand under E; the other forty share what is left: ten each.
    assert counts == {"A": 10, "B": 10, "C": 10, "D": 10, "E": 13}
    for row in rows:
        right = row["options"][LETTERS.index(row["answer"])]
        assert right == ("90 mm" if "90 mm" in row["options"] else "liver")
        assert sorted(row["options"]) == sorted(
            WORDS if right == "liver" else ("90 mm", "10 mm", "30 mm", "20 mm", "-5 mm")
        )


def test_numbers_ascend(made: Synthesis) -> None:
    numbers = [
        row["options"] for row in made.frame("balance").to_dicts() if "30 mm" in row["options"]
    ]
    assert numbers and all(row == ["-5 mm", "10 mm", "20 mm", "30 mm", "90 mm"] for row in numbers)
    assert ascending(item("x", "?", five("3", "3.0", "1", "2", "5"), "B")) == (
        ("1", "2", "3", "3.0", "5"), "D",
    )  # fmt: skip
    assert ascending(item("x", "?", five("T1", "T2 to T3", "1", "2", "5"))) is None


def test_every_prefix_is_mixed_and_flagged_items_come_last(made: Synthesis) -> None:
    rows = sorted(made.frame("balance").to_dicts(), key=lambda row: row["rank"])
    assert [row["rank"] for row in rows] == list(range(53))
    for size in (10, 20, 40):
        share = Counter(row["modality"] for row in rows[:size])["ultrasound"] / size
        assert 0.3 < share < 0.7
    assert {row["id"] for row in rows[-2:]} == {"a50/f", "a51/f"}


def test_the_order_depends_on_the_seed_alone(made: Synthesis) -> None:
    before = made.frame("balance")
    (made.run.path / "synth/balance.parquet").unlink()
    again = synth(source="made", stages=("balance",), out=made.run.path, quiet=True)
    assert again.frame("balance").equals(before)
