"""Balance: letters in equal shares, numbers in order, subsets nested in each other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from made_items import figure, five, item, write_run

from heldout.synth import LETTERS, Synthesis, synth
from heldout.synth.balance import MIXED, ascending_options, evenly

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
    assert set(counts) == set(LETTERS) and max(counts.values()) - min(counts.values()) <= 1
    for row in rows:
        right = row["options"][LETTERS.index(row["answer"])]
        assert right == ("90 mm" if "90 mm" in row["options"] else "liver")
        assert sorted(row["options"]) == sorted(
            WORDS if right == "liver" else ("90 mm", "10 mm", "30 mm", "20 mm", "-5 mm")
        )


def test_numbers_stand_in_order_up_or_down_by_the_rarer_letter(made: Synthesis) -> None:
    rows = made.frame("balance").to_dicts()
    numbers = [row for row in rows if "30 mm" in row["options"]]
    ascending = ["-5 mm", "10 mm", "20 mm", "30 mm", "90 mm"]
    assert all(row["options"] in (ascending, ascending[::-1]) for row in numbers)
    # The right one is always the largest: it takes turns between the two ends.
    assert Counter(row["answer"] for row in numbers) == {"E": 7, "A": 6}
    assert ascending_options(item("x", "?", five("3", "3.0", "1", "2", "5"), "B")) == (
        ("1", "2", "3", "3.0", "5"), "D",
    )  # fmt: skip
    assert ascending_options(item("x", "?", five("T1", "T2 to T3", "1", "2", "5"))) is None


def test_every_prefix_is_mixed_and_flagged_items_come_last(made: Synthesis) -> None:
    rows = sorted(made.frame("balance").to_dicts(), key=lambda row: row["rank"])
    assert [row["rank"] for row in rows] == list(range(53))
    for size in range(5, 51):
        for label in ("modality", "answer"):
            shares = Counter(row[label] for row in rows[:size])
            whole = Counter(row[label] for row in rows[:51])
            for value, count in whole.items():
                assert abs(shares[value] - size * count / 51) < 2
    assert {row["id"] for row in rows[-2:]} == {"a50/f", "a51/f"}


def test_labels_of_every_kind_keep_their_shares_in_every_prefix() -> None:
    """A thousand items with skewed labels, the letters tied to the modality."""
    draw = random.Random(1)
    rows = [
        {
            "id": f"{number}", "answer": draw.choices("ABCDE", (5, 4, 3, 2, 1))[0],
            "archetype": draw.choice("fmlad"), "modality": draw.choices("xyz", (90, 9, 1))[0],
            "anatomy": draw.choice("pqrstuvw"),
        }
        for number in range(1_000)
    ]  # fmt: skip
    ordered = evenly(list(rows), random.Random(2))
    assert sorted(row["id"] for row in ordered) == sorted(row["id"] for row in rows)
    for label in MIXED:
        whole, placed = Counter(row[label] for row in rows), Counter()
        for size, row in enumerate(ordered, 1):
            placed[row[label]] += 1
            assert all(abs(placed[one] - size * whole[one] / 1_000) < 4 for one in whole)


def test_the_order_depends_on_the_seed_alone(made: Synthesis) -> None:
    before = made.frame("balance")
    (made.run.path / "synth/balance.parquet").unlink()
    again = synth(source="made", stages=("balance",), out=made.run.path, quiet=True)
    assert again.frame("balance").equals(before)


def test_an_item_that_comes_twice_is_kept_once(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    path = tmp_path / "run"
    asked = "Which organ is shown?"
    drafts = [
        item("a/f", asked, WORDS),
        item("b/f", asked.upper(), (*WORDS[1:], WORDS[0]), "E"),  # other letters, the same item
        item("c/f", asked, WORDS, "B"),  # another answer
        item("d/f", asked, WORDS),  # another picture
    ]
    seeds = (0, 0, 0, 1)
    write_run(path, [
        (one, figure(path, one.id, [picture(seed, (40, 30))]))
        for one, seed in zip(drafts, seeds, strict=True)
    ])  # fmt: skip
    made = synth(source="made", stages=("balance", "publish"), out=path, quiet=True)
    assert set(made.frame("balance")["id"]) == {"a/f", "c/f", "d/f"}
    (gone,) = made.dropped.to_dicts()
    assert (gone["id"], gone["reason"]) == ("b/f", "duplicate item") and "a/f" in gone["detail"]
    assert len(set(made.items["hash"])) == 3
