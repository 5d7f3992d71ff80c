"""Words inside pictures, read by the real reader; and what is said where it is not installed."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from heldout.benchmark import Benchmark, Example, check
from heldout.benchmark.check.pictures import identifying
from heldout.corpus import open_corpus
from heldout.errors import PrerequisiteError
from heldout.image import FileOnDisk, ImageRef, picture_lines
from heldout.overlap import OverlapSettings, TextSearch
from heldout.overlap.texts.index import build_text_index
from heldout.overlap.texts.scan import scan_text_shard

QUESTION = "Which lobe of the right lung shows a dense consolidation with air bronchograms inside?"


def slide(*lines: str) -> Image.Image:
    """A square: the reader enlarges the shorter side to 736 pixels, and what is wide becomes huge."""
    picture = Image.new("RGB", (740, 740), "white")
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((30, 30 + 60 * number), line, fill="black", font=ImageFont.load_default(30))
    return picture


def test_the_lines_of_a_slide_are_read_from_top_to_bottom() -> None:
    pytest.importorskip("rapidocr")
    assert picture_lines(slide("The upper lobe", "of the right lung")) == (
        "The upper lobe",
        "of the right lung",
    )
    assert picture_lines(Image.new("RGB", (200, 200), "grey")) == ()
    assert picture_lines(Image.new("L", (5, 5))) == ()


def test_a_screenshot_of_a_question_is_found_by_its_words(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    slide("Exam of the day", *textwrap.wrap(QUESTION, 45)).save(tmp_path / "slide.png")
    rows = [{"id": "slide", "image": "slide.png"}, {"id": "lost", "image": "nowhere.png"}]
    table = tmp_path / "corpus.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = Benchmark("bench", (Example("0", question=QUESTION, answer="upper"),))
    for ocr, degrees in ((True, {"hard"}), (False, set())):
        index, _ = build_text_index(items, TextSearch(ocr=ocr))
        corpus = open_corpus(table)
        (shard,) = corpus.shards()
        matches = scan_text_shard(index, corpus, shard).tables["text_matches"].to_pylist()
        assert {row["degree"] for row in matches if row["method"] == "ngram"} == degrees
        assert {row["corpus_field"] for row in matches} == ({"picture"} if ocr else set())


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("Uploader: Jane A. Doe, Source: none", ["name"]),
        ("DOE, JANE  DOB 12/03/1961  ID 0047113", ["date", "name", "record number"]),
        ("Dr. Weiss", ["name"]),
        ("Uploader: P. Gabriel Peterson", ["name"]),
        ("17 Jun 2017", ["date"]),
        ("DOE^JANE", ["name"]),
        ("WL: 2048 WW: 4095", []),
        ("Zoom: 50.15 %", []),
        ("Page: 1 of 1", []),
        ("T1, T2 and FLAIR", []),
        ("Source: null", []),
    ],
)
def test_names_dates_and_record_numbers_are_told_from_other_words(
    line: str, kinds: list[str]
) -> None:
    assert identifying([line]) == kinds


def test_check_names_the_pictures_and_does_not_repeat_what_they_say(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr")
    slide("Name: DOE, JANE", "06-17-2017").save(tmp_path / "a.png")
    slide("Axial view, T2").save(tmp_path / "b.png")
    benchmark = Benchmark(
        "bench",
        tuple(
            Example(
                name,
                images=(ImageRef(f"{name}.png", FileOnDisk(tmp_path / f"{name}.png")),),
                question=f"What is shown in picture {name}?",
                answer=name,
            )
            for name in "ab"
        ),
    )
    report = check(benchmark, ocr=True)
    (problem,) = [entry for entry in report.problems if entry.rule == "identifying-text"]
    assert (problem.count, problem.of) == (1, 2)
    assert problem.examples == ["a.png: date, name"]
    assert "DOE" not in report.model_dump_json()
    assert "identifying-text" not in {entry.rule for entry in check(benchmark).problems}


def test_without_the_reader_the_setting_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    benchmark = Benchmark("bench", (Example("0", question=QUESTION, answer="upper"),))
    with pytest.raises(PrerequisiteError, match=r"heldout\[ocr\]"):
        build_text_index(benchmark, TextSearch(ocr=True))
    with pytest.raises(PrerequisiteError, match=r"heldout\[ocr\]"):
        check(benchmark, ocr=True)


def test_words_in_pictures_are_of_a_text_search() -> None:
    with pytest.raises(ValueError, match="ocr: "):
        OverlapSettings(ocr=True, text=False)
