from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from heldout.detect import POSSIBLE_IMAGES, Finding, image_overlap
from heldout.evidence import join_leaks
from heldout.overlap import CondensedMatches
from heldout.stats import binomial_interval
from heldout.store import empty_table, make_table

Item = tuple[str, str, list[str]]  # id, cluster, picture digests


def frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    found = pl.from_arrow(make_table(name, rows))
    assert isinstance(found, pl.DataFrame)
    return found


def findings(
    items: list[Item],
    leaked: list[tuple[str, str, str]],
    answers: int = 1,
    *,
    question: str = "What is shown?",
    undecided: dict[str, str] | None = None,
    label: str = "unknown",
) -> dict[str, Finding]:
    """``leaked``: benchmark id, picture digest, modality; ``undecided``: picture → reason, of the item that
    is called like the picture."""
    table = frame(
        "items",
        [
            {
                "benchmark_id": i,
                "cluster": c,
                "question": question,
                "image_digests": d,
                "image_names": d,
            }
            for i, c, d in items
        ],
    )
    matches = frame(
        "matches",
        [
            {
                "benchmark_id": i,
                "corpus": "web",
                "method": "bytes",
                "modality": m,
                "relation": "same image",
                "transform": "none",
                "label_relation": label,
                "evidence": json.dumps({"benchmark_pixels": d}),
            }
            for i, d, m in leaked
        ]
        + [
            {
                "benchmark_id": picture,
                "corpus": "web",
                "method": "pixels-2",
                "modality": "none",
                "relation": "undecided",
                "label_relation": "unknown",
                "evidence": json.dumps(
                    {"benchmark_pixels": picture, "registration": {"reason": reason}}
                ),
            }
            for picture, reason in (undecided or {}).items()
        ],
    )
    condensed = CondensedMatches.of([matches])
    found = image_overlap(
        table,
        condensed,
        join_leaks(condensed, pl.DataFrame(empty_table("text_matches"))),
        benchmark="b",
        corpus="web",
        corpus_images=9,
        corpus_answers=answers,
    )
    return {one.unit: one for one in found}


def test_each_denominator_has_its_own_rate_and_interval() -> None:
    items: list[Item] = [(f"{i}-{k}", f"p{i}", [f"p{i}"]) for i in range(20) for k in range(3)]
    found = findings(items, [("0-0", "p0", "full"), ("0-1", "p0", "image only")])
    images, questions = found["images"], found["questions"]
    assert (images.statistic.value, images.n, images.clusters) == (1, 20, 20)
    assert (images.effect.low, images.effect.high) == pytest.approx(binomial_interval(1, 20)[:2])
    assert images.effect.level == 0.95
    assert (questions.statistic.value, questions.n, questions.clusters) == (2, 60, 20)
    assert questions.effect.high > binomial_interval(2, 60).high  # by cluster, so wider
    assert found["questions with their answer"].statistic.value == 1


def test_images_of_one_patient_are_one_cluster() -> None:
    items: list[Item] = [(str(i), f"patient{i // 5}", [f"p{i}"]) for i in range(20)]
    images = findings(items, [(str(i), f"p{i}", "image only") for i in range(5)])["images"]
    assert (images.n, images.clusters) == (20, 4)
    assert images.effect.high > binomial_interval(5, 20).high
    assert images.minimum_detectable_effect == pytest.approx(1 - 0.05 ** (1 / 4))


def test_what_cannot_be_compared_is_no_denominator() -> None:
    items: list[Item] = [
        ("whole", "a", ["p1", "p2"]),
        ("half", "b", ["p3", ""]),  # its second picture is missing
        ("half leaked", "c", ["p4", ""]),
        ("blind", "d", [""]),
        ("text", "e", []),
    ]
    found = findings(items, [("half leaked", "p4", "image only")])
    assert (found["images"].statistic.value, found["images"].n) == (1, 4)
    assert found["images"].details["images_not_comparable"] == 3
    assert (found["questions"].statistic.value, found["questions"].n) == (1, 2)


def test_one_picture_on_many_items_counts_once() -> None:
    items: list[Item] = [(str(i), "a", ["same"]) for i in range(4)]
    found = findings(items, [(str(i), "same", "image only") for i in range(4)])
    assert (found["images"].statistic.value, found["images"].n) == (1, 1)
    assert (found["questions"].statistic.value, found["questions"].n) == (4, 4)


def test_no_statement_about_answers_where_the_corpus_has_none() -> None:
    assert set(findings([("a", "a", ["p"])], [], answers=0)) == {"images", "questions"}


def test_nothing_leaked_and_nothing_there_are_not_errors() -> None:
    none = findings([(str(i), str(i), [f"p{i}"]) for i in range(59)], [])
    assert none["images"].direction == "none"
    assert none["images"].minimum_detectable_effect == pytest.approx(0.0495, abs=1e-4)
    assert findings([("a", "a", [])], [])["images"].n == 0


def test_a_picture_nobody_can_decode_counts_where_its_bytes_were_found_and_nowhere_else() -> None:
    items: list[Item] = [
        ("whole", "a", ["p1"]),
        ("found", "b", ["bytes:x"]),
        ("missed", "c", ["bytes:y"]),
    ]
    found = findings(items, [("found", "bytes:x", "image only")])
    images, questions = found["images"], found["questions"]
    assert (images.statistic.value, images.n, images.details["images_not_comparable"]) == (1, 2, 1)
    assert (questions.statistic.value, questions.n) == (1, 2)


def test_undecided_images_make_the_upper_end_of_the_rate() -> None:
    items: list[Item] = [(f"p{i}", f"p{i}", [f"p{i}"]) for i in range(20)]
    undecided = {"p0": "agrees in part", "p1": "too small to decide", "p2": "agrees in part"}
    found = findings(items, [("p0", "p0", "full")], undecided=undecided)
    images, possible = found["images"], found[POSSIBLE_IMAGES]
    assert (images.statistic.value, possible.statistic.value, possible.n) == (1, 3, 20)
    assert possible.effect.high > images.effect.high
    # p0 has a proven copy: that something else of it is undecided says nothing.
    assert images.details["by_relation"] == {"same image": 1, "undecided": 2}
    because = {"too small to decide": 1, "agrees in part": 1}
    assert images.details["undecided_because"] == because
    assert POSSIBLE_IMAGES not in findings(items, [("p0", "p0", "full")])


def test_no_questions_are_counted_where_there_are_none() -> None:
    items: list[Item] = [(str(i), f"p{i}", [f"p{i}"]) for i in range(4)]
    found = findings(items, [("0", "p0", "image only")], answers=0, question="", label="different")
    assert set(found) == {"images", "items", "items with their label"}
    assert found["images"].details["label_conflicts"] == 1
    assert found["items"].effect.name == "leak rate per item"
