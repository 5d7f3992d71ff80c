"""Delimited files that do not name their columns, and files that name them by a letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers.headerless import column_names, has_names
from heldout.benchmark.writers import find_writer
from heldout.benchmark.writers.base import FilePart
from heldout.image import FileOnDisk, Nowhere

Picture = Callable[..., bytes]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


def test_image_question_answer(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "images").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / "images" / name).write_bytes(picture(ord(name[0])))
    path = write(
        tmp_path / "t.tsv",
        "a.png\tWhat, in words, is shown, here?\ta chest, front",
        "b.png\tIs it normal?\tyes",
        "a.png\tWhich plane, if any?\taxial",
    )
    benchmark = read_benchmark(path)
    assert [e.question for e in benchmark][1:] == ["Is it normal?", "Which plane, if any?"]
    assert [e.answer for e in benchmark] == ["a chest, front", "yes", "axial"]
    assert [e.images[0].name for e in benchmark] == ["a.png", "b.png", "a.png"]
    assert all(isinstance(ref.location, FileOnDisk) for ref in benchmark.images)
    assert [e.origin for e in benchmark] == [f"t.tsv row {n}" for n in (1, 2, 3)]
    target = tmp_path / "out.tsv"
    find_writer("delimited").write([FilePart(path, frozenset({2, 3}))], target)
    assert target.read_text() == "".join(path.read_text().splitlines(keepends=True)[1:])


def test_captions_with_addresses(tmp_path: Path) -> None:
    """Conceptual Captions: a caption and a URL, no question."""
    path = write(
        tmp_path / "t.tsv",
        "a very typical bus station\thttp://example.org/1.jpg?w=3",
        "sierra looked stunning in this top\thttp://example.org/2",
    )
    first, second = read_benchmark(path)
    assert (first.question, first.answer) == (None, "a very typical bus station")
    assert isinstance(second.images[0].location, Nowhere)
    assert second.images[0].location.reason == "remote image"


def test_names_of_pictures_without_an_ending(tmp_path: Path) -> None:
    """VQA-Med 2018: number, image, question, answer, in tabs although it is called .csv."""
    path = write(
        tmp_path / "QA.csv",
        "1\trjv03401\twhat does mri show, here, today?\tlesion at tail of pancreas",
        "2\tAIAN-14-313-g002\twhere does axial section mri abdomen show hypoechoic mass?\tin tail",
        "3\trjv03401\tis it large?\tno",
    )
    benchmark = read_benchmark(path)
    assert [e.id for e in benchmark] == ["1", "2", "3"]
    assert [e.images[0].name for e in benchmark][:2] == ["rjv03401", "AIAN-14-313-g002"]
    assert benchmark.examples[0].answer == "lesion at tail of pancreas"


def test_positions_in_place_of_names(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "0,1,2", "x.jpg,Is it big?,yes", "y.jpg,Is it small?,no")
    benchmark = read_benchmark(path)
    assert [(e.question, e.answer) for e in benchmark] == [
        ("Is it big?", "yes"),
        ("Is it small?", "no"),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["ID", "Q", "A"],
        ["image_name", "Is it correct?", "n"],
        ["index", "2019"],
        ["foo", "bar"],
        ["Unnamed: 0", "question", "x.jpg"],
        ["Caption of the picture", "Address"],
    ],
)
def test_names_are_names(names: list[str]) -> None:
    assert has_names(names)


@pytest.mark.parametrize(
    "cells",
    [["a.jpg", "A"], ["17", "yes"], ["What is it?", "q"], ["https://example.org/x", "a dog"]],
)
def test_data_is_no_name(cells: list[str]) -> None:
    assert not has_names(cells)


def test_columns_nobody_can_name_keep_their_number() -> None:
    rows = [["q1", "Is it?", "yes", "CT"], ["q2", "Was it?", "no", "CT"]]
    assert column_names(rows) == ["id", "question", "answer", "column 4"]


def test_single_letters_name_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "ID,Q,A", "7,Is it?,yes", "8,Was it?,no")
    assert [(e.id, e.question, e.answer) for e in read_benchmark(path)] == [
        ("7", "Is it?", "yes"),
        ("8", "Was it?", "no"),
    ]


def test_a_letter_that_is_an_option_is_no_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,q,a,b,ans", "7,Which?,cat,dog,B")
    (example,) = read_benchmark(path)
    assert (example.options, example.answer, example.key) == (("cat", "dog"), "dog", "B")
