"""The rules of copies, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from heldout.detect import Cell, Effect, Finding, Statistic
from heldout.stats import binomial_interval
from heldout.verdict import Claim, overlap_claims
from heldout.verdict.required import settled_by


def finding(unit: str, found: int, n: int, **details: Any) -> Finding:
    return Finding(
        id=f"image-overlap/web/{unit}",
        detector="image-overlap",
        cell=Cell(benchmark="bench", corpus="web"),
        unit=unit,
        statistic=Statistic(name="leaked", value=found),
        effect=Effect.of("rate", found / n if n else 0.0, binomial_interval(found, n)),
        p=None,
        direction="seen" if found else "none",
        n=n,
        clusters=n,
        minimum_detectable_effect=0.1,
        blind_to=["re-encoded or resized copies"],
        seed=None,
        table="matches",
        details=details,
    )


def claim(
    *,
    leaked: int = 0,
    images: int = 100,
    unusable: int = 0,
    compared: int = 1000,
    lost: int = 0,
    archives: int = 0,
    failed: int = 0,
    answers: int | None = None,
    undecided: int = 0,
) -> Claim:
    findings = [
        finding(
            "images",
            leaked,
            images,
            corpus_images_compared=compared,
            images_not_comparable=unusable,
            by_method={"bytes": leaked},
            copies=leaked,
            by_relation={"undecided": undecided} if undecided else {},
        ),
        finding("questions", leaked * 2, images * 2),
    ]
    if answers is not None:
        findings.append(finding("questions with their answer", answers, images * 2))
    counts = {"images": compared, "lost_items": lost, "lost_containers": archives}
    scanned = {"counts": counts, "shards": 5, "failed": {str(i): "x" for i in range(failed)}}
    (found,) = overlap_claims(findings, scanned)
    return found


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ({}, "clean"),
        ({"lost": 10}, "clean"),  # 0.99 %
        ({"lost": 11}, "qualified"),
        ({"archives": 1}, "qualified"),  # nobody knows how much was in it
        ({"failed": 1}, "qualified"),
        ({"unusable": 1}, "clean"),
        ({"unusable": 2}, "qualified"),
        ({"images": 1, "unusable": 99}, "qualified"),
        ({"images": 0, "unusable": 100}, "not testable"),
        ({"compared": 0}, "not testable"),
        ({"undecided": 1}, "qualified"),
        ({"undecided": 1, "leaked": 1}, "survives"),
        ({"leaked": 1}, "survives"),
        ({"leaked": 1, "archives": 3}, "survives"),
    ],
)
def test_status(case: dict[str, int], status: str) -> None:
    assert claim(**case).status == status


def test_only_a_clean_claim_says_that_no_image_is_in_the_corpus() -> None:
    flat = "No image of bench is in web as an exact copy."
    assert claim().sentence == flat
    assert claim(archives=1).sentence.startswith("No exact copy was found among the 100 images")
    assert "parts of them could not" in claim(archives=1).sentence
    assert claim(compared=0).sentence == "bench and web could not be compared."
    assert (
        "no image of web could be compared" in claim(compared=0).next_step
    )  # not the benchmark's fault


def test_pairs_that_nobody_decided_are_told_and_sent_to_people() -> None:
    found = claim(undecided=5)
    assert found.rule == "copies/undecided-left"
    assert found.sentence.endswith("5 pictures have an undecided match there: it may be a copy.")
    assert "parts of them could not" not in found.sentence
    assert "undecided pairs" in found.next_step
    assert settled_by(found)[0].startswith("undecided pairs: have people judge")
    both = claim(undecided=1, archives=1)
    assert "parts of them could not" in both.sentence and "1 archive" in both.why
    assert len(settled_by(both)) == 2


def test_a_leak_in_a_half_read_corpus_is_a_lower_bound() -> None:
    assert "lower bound" not in claim(leaked=3).why
    assert "lower bound" in claim(leaked=3, archives=1).why
    assert "1 archive, file or folder in whole or in part" in claim(leaked=3, archives=1).why


def test_answers_are_spoken_of_only_where_they_were_compared() -> None:
    assert "answers were not compared" in claim(leaked=3).sentence
    assert "2 of them leaked together with their answer" in claim(leaked=3, answers=2).sentence
    assert "those with their answer first" in claim(leaked=3, answers=2).next_step


def test_a_clean_claim_says_what_was_not_looked_for() -> None:
    assert "not looked for: re-encoded or resized copies" in claim().why
    assert "compared with those of 1,000 corpus items" in claim().why


def test_source_overlap_is_told_apart_from_copies() -> None:
    details = {
        "corpus_images_compared": 9,
        "images_not_comparable": 0,
        "by_method": {"bytes": 2, "pixels-1": 3},
        "copies": 5,
        "by_relation": {"same image": 1, "transformed copy": 3, "same view, other subject": 1},
    }
    images = finding("images", 4, 10, **details).model_copy(update={"blind_to": ["far copies"]})
    counts = {"images": 9, "lost_items": 0, "lost_containers": 0}
    scanned = {"counts": counts, "shards": 1, "failed": {}}
    (found,) = overlap_claims([images, finding("questions", 4, 10)], scanned)
    assert "as copies (1 image as the same image, 3 images as a transformed copy)" in found.sentence
    assert found.sentence.endswith(
        "1 picture has a neighbour of the same view but another subject."
    )
