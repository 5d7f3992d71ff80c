from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.benchmark.check import CheckReport, Problem, check
from heldout.cli.show import print_check
from heldout.image import ImageRef, InlineBytes, Nowhere

Picture = Callable[..., bytes]


def item(identifier: str, data: bytes | None, **fields: Any) -> Example:
    images = (ImageRef(f"{identifier}.png", InlineBytes(data, identifier)),) if data else ()
    return Example(id=identifier, images=images, **fields)


def bench(*examples: Example, name: str = "b") -> Benchmark:
    return Benchmark(name, examples)


def found(report: CheckReport, rule: str) -> Problem | None:
    return next((problem for problem in report.problems if problem.rule == rule), None)


def plain(picture: Picture, n: int = 40) -> list[Example]:
    """A benchmark nobody can complain about, but for what a test changes."""
    return [
        item(
            f"q{i}",
            picture(i),
            question=f"What is {i * 37 % 41}?",
            answer="x" * (1 + i * 7 % 5) + str(i),
        )
        for i in range(n)
    ]


def test_a_sound_benchmark_has_no_problem(picture: Picture) -> None:
    report = check(bench(*plain(picture)))
    assert report.ok
    assert report.problems == []
    assert report.facts["items"] == report.facts["images"] == report.facts["clusters"] == 40


@pytest.mark.parametrize("field", ["question", "answer"])
def test_empty_fields_are_errors_and_absent_ones_are_said(picture: Picture, field: str) -> None:
    from dataclasses import replace

    examples = plain(picture)
    holes = [replace(e, **{field: " "}) if i < 3 else e for i, e in enumerate(examples)]
    problem = found(check(bench(*holes)), f"empty-{field}")
    assert problem is not None
    assert (problem.severity, problem.count, problem.of) == ("error", 3, 40)
    none = check(bench(*(replace(e, **{field: None}) for e in examples)))
    assert found(none, f"no-{field}s") is not None
    assert none.ok


def test_constant_answers_are_errors(picture: Picture) -> None:
    from dataclasses import replace

    same = check(bench(*(replace(e, answer="Yes") for e in plain(picture))))
    assert found(same, "constant-answer") is not None
    letters = check(
        bench(*(replace(e, answer="ABCD"[i % 4]) for i, e in enumerate(plain(picture))))
    )
    assert found(letters, "constant-answer-length") is not None
    assert not letters.ok


def test_an_answer_outside_the_options_is_an_error(picture: Picture) -> None:
    good = item("1", picture(1), question="?", options=("CT", "MRI"), answer="CT", answer_index=0)
    bad = item("2", picture(2), question="?", options=("CT", "MRI"), answer="X-ray")
    twice = item("3", picture(3), question="?", options=("CT", "ct"), answer="CT", answer_index=0)
    report = check(bench(good, bad, twice))
    problem = found(report, "answer-not-in-options")
    assert problem is not None
    assert problem.examples == ["2"]
    repeated = found(report, "repeated-option")
    assert repeated is not None
    assert repeated.examples == ["3"]


def test_duplicates_and_contradictions_are_told_apart(picture: Picture) -> None:
    report = check(
        bench(
            item("1", picture(1), question="Is it big?", answer="yes"),
            item("2", picture(1), question="is it  big", answer="Yes."),
            item("3", picture(2), question="Is it big?", answer="yes"),
            item("4", picture(2), question="Is it big?", answer="no"),
            item("5", picture(3), question="Is it big?", answer="no"),
        )
    )
    duplicate, contradiction = found(report, "duplicate-item"), found(report, "contradictory-label")
    assert duplicate is not None
    assert duplicate.examples == ["1 = 2"]
    assert contradiction is not None
    assert contradiction.count == 1
    assert "3: yes, 4: no" in contradiction.examples[0]


def test_five_captions_of_one_picture_do_not_contradict_each_other(picture: Picture) -> None:
    report = check(bench(*(item(str(i), picture(1), answer=f"a caption {i}") for i in range(5))))
    assert found(report, "contradictory-label") is None


def test_same_pixels_in_another_format_are_the_same_picture(picture: Picture) -> None:
    report = check(
        bench(
            item("1", picture(1), question="Is it big?", answer="yes"),
            item("2", picture(1, format="WEBP"), question="Is it big?", answer="no"),
        )
    )
    assert found(report, "contradictory-label") is not None
    assert found(report, "duplicate-image") is not None
    assert report.facts["images"] == 1


def test_unreadable_missing_and_blank_images_are_named(picture: Picture) -> None:
    import io

    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (30, 30), (7, 7, 8)).save(buffer, "PNG")
    missing = Example(
        "m", (ImageRef("gone.png", Nowhere("missing image", "gone.png")),), "?", answer="a"
    )
    report = check(
        bench(
            item("t", picture(1)[:60], question="a?", answer="a"),
            item("h", b"<html>not found</html>", question="b?", answer="bb"),
            item("b", buffer.getvalue(), question="c?", answer="c"),
            missing,
            item("ok", picture(2), question="d?", answer="d"),
            item("none", None, question="e?", answer="e"),
        )
    )
    rules = {problem.rule: problem for problem in report.problems}
    assert rules["blank-image"].examples == ["b.png"]
    assert rules["missing-image"].count == 1
    assert rules["item-without-image"].examples == ["none"]
    unreadable = [p for p in report.problems if p.rule == "unreadable-image"]
    assert sum(p.count for p in unreadable) == 2
    assert report.facts["images_readable"] == 2


@pytest.mark.parametrize("link", ["id", "column"])
def test_twins_that_kept_the_original_picture_are_found(picture: Picture, link: str) -> None:
    def twin(number: int, data: bytes) -> Example:
        name, metadata = f"q{number}_twin", {}
        if link == "column":
            name, metadata = f"t{number}", {"twin_of": f"q{number}"}
        return item(name, data, question=f"q {number}?", answer="new", metadata=metadata)

    originals = [item(f"q{i}", picture(i), question=f"q {i}?", answer="old") for i in range(3)]
    report = check(
        bench(*originals, twin(0, picture(0)), twin(1, picture(50)), twin(2, picture(51)))
    )
    problem = found(report, "twin-keeps-original-image")
    assert problem is not None
    assert (problem.count, problem.of) == (1, 3)


def test_a_perturbed_set_is_compared_with_its_original(picture: Picture) -> None:
    original = bench(
        *(item(str(i), picture(i), question="q?", answer="a") for i in range(4)), name="o"
    )
    perturbed = bench(
        *(
            item(str(i), picture(i if i == 2 else 60 + i), question="q?", answer="b")
            for i in range(4)
        )
    )
    problem = found(check(perturbed, original), "twin-keeps-original-image")
    assert problem is not None
    assert problem.examples == ["2: 2.png is 2.png"]


def choices(picture: Picture, n: int, key: Callable[[int], int], longest_key: bool) -> Benchmark:
    examples = []
    for i in range(n):
        options = [f"option {(i * 5 + k * 3) % 97:02d}" for k in range(4)]
        options[key(i) if longest_key else (i * 7) % 4] += " which goes on for longer"
        examples.append(
            item(
                str(i),
                picture(i),
                question=f"{i}?",
                options=tuple(options),
                answer=options[key(i)],
                answer_index=key(i),
            )
        )
    return bench(*examples)


def test_a_key_that_can_be_guessed_is_reported(picture: Picture) -> None:
    import random

    drawn = random.Random(0)
    even = [drawn.randrange(4) for _ in range(120)]
    fair = check(choices(picture, 120, even.__getitem__, longest_key=False))
    assert found(fair, "answer-letter-imbalance") is None
    assert found(fair, "longest-option") is None
    mostly_c = check(choices(picture, 120, lambda i: 2 if i % 2 else i % 4, longest_key=True))
    letter, longest = found(mostly_c, "answer-letter-imbalance"), found(mostly_c, "longest-option")
    assert letter is not None
    assert "always answering C" in letter.message
    assert longest is not None
    assert "100.0 %" in longest.message


def test_questions_of_one_image_do_not_count_as_evidence_one_by_one(picture: Picture) -> None:
    """Sixty yes/no questions on two images are two observations, however lopsided they are."""
    examples = [
        item(f"{i}", picture(i % 2), question=f"{i}?", answer="yes" if i % 7 else "no")
        for i in range(60)
    ]
    assert found(check(bench(*examples)), "yes-no-imbalance") is None
    apart = [
        item(f"{i}", picture(i), question=f"{i}?", answer="yes" if i % 7 else "no")
        for i in range(60)
    ]
    assert found(check(bench(*apart)), "yes-no-imbalance") is not None


def test_release_order_is_measured_by_image_topic_and_length(picture: Picture) -> None:
    examples = [
        item(
            f"{i}",
            picture(i // 5),
            question=f"{i}?",
            answer="a" * (i + 1),
            metadata={"topic": "lung" if i < 40 else "brain", "mixed": str(i * 7 % 3)},
        )
        for i in range(80)
    ]
    report = check(bench(*examples))
    strength = {(fact.property, fact.kind): fact.strength for fact in report.order}
    assert strength["image", "grouping"] == 1.0
    assert strength["topic", "grouping"] > 0.9
    assert strength["answer length", "trend"] == 1.0
    problem = found(report, "structured-order")
    assert problem is not None
    assert "image" in problem.advice and "answer length" in problem.advice


def test_dropped_rows_are_part_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.jsonl").write_text('{"id": 1, "question": "a?", "answer": "b"}\n{oops\n')
    report = check(read_benchmark(tmp_path / "test.jsonl"))
    assert not report.ok
    problem = found(report, "dropped-rows")
    assert problem is not None and problem.message.startswith("1 row ")
    assert report.dropped[0]["reason"] == "not JSON"
    print_check(report)
    assert "1 item on 0 images" in capsys.readouterr().out


def test_splits_share_pictures_byte_for_byte_and_pixel_for_pixel(picture: Picture) -> None:
    train = bench(
        item("t1", picture(1), question="a?", answer="x"),
        item("t2", picture(2), question="b?", answer="y"),
        item("t3", picture(3), question="c?", answer="z"),
        name="train",
    )
    test = bench(
        item("1", picture(1), question="A?", answer="X"),  # all three
        item("2", picture(2, format="WEBP"), question="b?", answer="other"),  # pixels and question
        item("3", picture(9), question="c?", answer="z"),  # another picture
        name="test",
    )
    overlap = check(test, train).splits
    assert overlap is not None
    assert (overlap.images, overlap.images_same_bytes, overlap.images_same_pixels) == (3, 1, 2)
    assert (overlap.questions_on_shared_images, overlap.questions_repeated) == (2, 2)
    assert overlap.questions_repeated_with_answer == 1


# ---- real benchmarks -------------------------------------------------------------------------


def test_slake_s_english_splits_are_disjoint(shared_data: Path) -> None:
    """Its languages are not, nor are VQA-RAD's splits: test_docs_commands.py runs what a page says of them."""
    english = read_benchmark(f"{shared_data}/slake#split=test,lang=en")
    clean = check(english, read_benchmark(f"{shared_data}/slake#split=train,lang=en"))
    assert (clean.facts["items"], clean.facts["images"]) == (1061, 96)
    assert clean.splits is not None
    assert clean.splits.images_same_pixels == 0
    assert clean.ok
    strength = {(fact.property, fact.kind): fact.strength for fact in clean.order}
    assert strength["image", "grouping"] == 1.0
    assert strength["modality", "grouping"] > 0.9
