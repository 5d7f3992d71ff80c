"""Balance: letters in equal shares, numbers in order, subsets nested in each other."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from made_items import figure, five, item, write_run

from heldout.synth import LETTERS, Synthesis, synth
from heldout.synth._balance import BLOCK, MIXED, ascending_options, evenly, mixed

WORDS = ("liver", "spleen", "kidney", "heart", "lung")


@pytest.fixture
def made(tmp_path: Path, picture: Callable[..., bytes]) -> Synthesis:
    """53 items whose right option is always A; 13 with numbers, of which the largest is right."""
    path = tmp_path / "run"
    items = []
    for number in range(53):
        name = f"a{number}/f"
        one = figure(
            path,
            name,
            [picture(number % 5, (40, 30))],
            secondary=("ultrasound", "x-ray radiography")[number % 2],
        )
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
        ("1", "2", "3", "3.0", "5"),
        "D",
    )
    assert ascending_options(item("x", "?", five("T1", "T2 to T3", "1", "2", "5"))) is None


def test_flagged_items_come_last(made: Synthesis) -> None:
    rows = sorted(made.frame("balance").to_dicts(), key=lambda row: row["rank"])
    assert [row["rank"] for row in rows] == list(range(53))
    assert {row["id"] for row in rows[-2:]} == {"a50/f", "a51/f"}


def test_the_place_of_an_item_does_not_tell_its_letter() -> None:
    rows = [
        {"id": f"{n}", "answer": "ABCDE"[n % 5], "archetype": "f", "modality": "x", "anatomy": "p"}
        for n in range(1_000)
    ]
    placed = mixed(rows, random.Random(3), dict.fromkeys((row["id"] for row in rows), False))
    letters = [row["answer"] for row in placed]
    for end in range(BLOCK, 1_001, BLOCK):  # a subset ends where a block does, or within one
        assert set(Counter(letters[:end]).values()) == {end // 5}
    for period in (5, 10, 25, 50):  # those of a place, and of the places a period further
        same = sum(a == b for a, b in zip(letters, letters[period:], strict=False))
        assert 0.1 < same / (1_000 - period) < 0.3  # one in five by chance


def test_labels_of_every_kind_keep_their_shares_in_every_prefix() -> None:
    """A thousand items with skewed labels, the letters tied to the modality."""
    draw = random.Random(1)
    rows = [
        {
            "id": f"{number}",
            "answer": draw.choices("ABCDE", (5, 4, 3, 2, 1))[0],
            "archetype": draw.choice("fmlad"),
            "modality": draw.choices("xyz", (90, 9, 1))[0],
            "anatomy": draw.choice("pqrstuvw"),
        }
        for number in range(1_000)
    ]
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
    write_run(
        path,
        [
            (one, figure(path, one.id, [picture(seed, (40, 30))]))
            for one, seed in zip(drafts, seeds, strict=True)
        ],
    )
    made = synth(source="made", stages=("balance", "publish"), out=path, quiet=True)
    assert set(made.frame("balance")["id"]) == {"a/f", "c/f", "d/f"}
    (gone,) = made.dropped.to_dicts()
    assert (gone["id"], gone["reason"]) == ("b/f", "duplicate item") and "a/f" in gone["detail"]
    assert len(set(made.items["hash"])) == 3
