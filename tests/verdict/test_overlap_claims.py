"""The rules of copies, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from heldout.detect import POSSIBLE_IMAGES, Cell, Effect, Finding, Statistic
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
    because: dict[str, int] | None = None,
    conflicts: int = 0,
    unit: str = "questions",
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
            undecided_because=because or {},
            label_conflicts=conflicts,
        ),
    ]
    if undecided:
        findings.append(finding(POSSIBLE_IMAGES, leaked + undecided, images))
    times = 2 if unit == "questions" else 1
    findings.append(finding(unit, leaked * times, images * times))
    if answers is not None:
        with_answer = "questions with their answer" if times == 2 else "items with their label"
        findings.append(finding(with_answer, answers, images * times))
    counts = {"images": compared, "lost_items": lost, "unread .tar": archives}
    scanned = {
        "counts": counts,
        "benchmark_items": images,
        "shards": 5,
        "failed": {str(i): "x" for i in range(failed)},
    }
    (found,) = overlap_claims(findings, scanned)
    return found


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ({}, "clean"),
        ({"lost": 1}, "clean"),  # 1 % of the benchmark's size
        ({"lost": 2}, "qualified"),
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


def test_only_a_clean_claim_says_that_no_image_is_in_the_corpus(
    wording: Callable[..., None],
) -> None:
    claims = [claim(), claim(archives=1), claim(compared=0)]
    rules = ["copies/none-found", "copies/parts-unread", "copies/nothing-read"]
    assert [one.rule for one in claims] == rules
    assert "web" in claims[2].next_step  # not the benchmark's fault
    wording(*claims)


def test_pairs_that_nobody_decided_are_told_and_sent_to_people(
    wording: Callable[..., None],
) -> None:
    found = claim(undecided=5)
    assert found.rule == "copies/undecided-left"
    assert "5 of 100 (5.0 % [1.6 %, 11.3 %])" in found.sentence
    assert "undecided pairs" in found.next_step
    assert settled_by(found)[0].startswith("undecided pairs: ")
    both = claim(undecided=1, archives=1)
    assert "1 .tar" in both.why and ".tar" not in found.why
    assert len(settled_by(both)) == 2
    wording(found, both)


def test_a_leak_in_a_half_read_corpus_is_a_lower_bound() -> None:
    assert "lower bound" not in claim(leaked=3).why
    assert "lower bound" in claim(leaked=3, archives=1).why
    assert "1 .tar" in claim(leaked=3, archives=1).why


def test_answers_are_spoken_of_only_where_they_were_compared(wording: Callable[..., None]) -> None:
    apart, together = claim(leaked=3), claim(leaked=3, answers=2)
    assert "2 of these questions" in together.sentence
    assert "2 of these questions" not in apart.sentence
    wording(apart, together)


def test_a_clean_claim_says_what_was_not_looked_for() -> None:
    assert "re-encoded or resized copies" in claim().why
    assert "1,000 corpus items" in claim().why


def test_a_proven_copy_makes_a_claim_no_less_careful_about_what_is_undecided(
    wording: Callable[..., None],
) -> None:
    found = claim(leaked=12, undecided=45, because={"too small to decide": 40, "agrees in part": 5})
    assert found.status == "survives"
    wording(found)
    assert "(12.0 % [6.4 %, 20.0 %])" in found.sentence
    assert "57 of 100 (57.0 % [46.7 %, 66.9 %])" in found.sentence
    assert "lower bound" in found.why and "45 pictures" in found.why
    assert "undecided pairs" in found.next_step
    controls = {control.name: control for control in found.controls}
    reasons = controls["undecided pairs"].reason
    assert "(40: " in reasons and "; 5: " in reasons
    size = controls["size of the pictures"]
    assert size.reason.startswith("40 pictures") and size.reason not in found.why  # said once
    assert "content of the pictures" not in set(controls)
    none = {control.name for control in claim(undecided=45).controls}
    assert none < set(controls)  # what is asked without a copy is asked beside one, too


def test_pictures_that_show_too_little_are_a_control() -> None:
    found = claim(undecided=1, because={"too plain to decide": 1})
    content = "content of the pictures"
    names = {control.name for control in found.controls}
    assert names & {content, "size of the pictures"} == {content}
    assert any(text.startswith(content) for text in settled_by(found))


def test_folders_of_classes_have_labels_and_no_questions(wording: Callable[..., None]) -> None:
    found = claim(leaked=3, answers=2, conflicts=1, unit="items")
    assert "question" not in found.sentence and "answer" not in found.sentence
    assert "2 items leaked" in found.sentence
    assert "Label conflict: 1 item" in found.sentence
    assert "shown by" not in found.sentence  # each item is its picture
    assert "Label conflict" not in claim(leaked=3, answers=2, unit="items").sentence
    wording(found, claim(leaked=3, unit="items"))


def test_look_alikes_are_told_apart_from_copies_and_not_called_innocent(
    wording: Callable[..., None],
) -> None:
    details = {
        "corpus_images_compared": 9,
        "images_not_comparable": 0,
        "by_method": {"bytes": 2, "pixels-1": 3},
        "copies": 5,
        "by_relation": {"same image": 1, "transformed copy": 3, "look-alike": 1},
    }
    images = finding("images", 4, 10, **details).model_copy(update={"blind_to": ["far copies"]})
    counts = {"images": 9, "lost_items": 0}
    scanned = {"counts": counts, "shards": 1, "failed": {}}
    (found,) = overlap_claims([images, finding("questions", 4, 10)], scanned)
    wording(found)
    assert "1 image has look-alikes" in found.sentence
    assert "another subject" not in found.sentence and "one source" not in found.sentence
