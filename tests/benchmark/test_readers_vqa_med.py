"""VQA-Med as published in 2020 and 2021: questions and answers in two files, images in any folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers.pipes import PipesReader
from heldout.benchmark.writers import find_writer
from heldout.benchmark.writers.base import FilePart
from heldout.image import FileOnDisk

Picture = Callable[..., bytes]
QUESTIONS = ["is this image normal?", "what is seen?", "what is abnormal in the mri?", "name it"]
ANSWERS = ["no", "avascular necrosis|changes of both femoral heads", "schwannoma", "cyst|a cyst"]


@pytest.fixture
def test_set(tmp_path: Path, picture: Picture) -> Path:
    """The layout of the 2021 test set: two text files and VQA-500-Images."""
    folder = tmp_path / "Task1-VQA-2021-TestSet-w-GroundTruth"
    (folder / "VQA-500-Images").mkdir(parents=True)
    for i in range(4):
        (folder / "VQA-500-Images" / f"synpic{i}.jpg").write_bytes(picture(i, format="JPEG"))
    (folder / "Task1-VQA-2021-TestSet-Questions.txt").write_text(
        "".join(f"synpic{i}|{text}\n" for i, text in enumerate(QUESTIONS))
    )
    (folder / "Task1-VQA-2021-TestSet-ReferenceAnswers.txt").write_text(
        "".join(f"synpic{i}|{text}\r\n" for i, text in enumerate(ANSWERS)) + "synpic9|nothing\n"
    )
    return folder


@pytest.mark.parametrize("named", ["", "Task1-VQA-2021-TestSet-Questions.txt"])
def test_answers_come_from_the_file_beside(test_set: Path, named: str) -> None:
    benchmark = read_benchmark(test_set / named)
    assert [e.question for e in benchmark] == QUESTIONS
    assert [e.answer for e in benchmark] == ["no", "avascular necrosis", "schwannoma", "cyst"]
    assert benchmark.examples[1].metadata["answer"] == ANSWERS[1].split("|")  # none is lost
    assert all(isinstance(ref.location, FileOnDisk) for ref in benchmark.images)
    (left,) = benchmark.dropped
    assert (left.id.split()[-1], left.reason) == ("5", "answer without a question")


def test_what_is_written_keeps_its_answers(test_set: Path, tmp_path: Path) -> None:
    source = test_set / "Task1-VQA-2021-TestSet-Questions.txt"
    target = tmp_path / "out" / source.name
    find_writer("vqa-med").write([FilePart(source, frozenset({2, 3, 4}))], target)
    assert [e.answer for e in read_benchmark(target)] == [
        "avascular necrosis",
        "schwannoma",
        "cyst",
    ]
    assert target.read_text() == "".join(source.read_text().splitlines(keepends=True)[1:])


def test_questions_about_one_image_are_answered_in_order(tmp_path: Path) -> None:
    lines = ["a|is it?", "b|is it?", "a|was it?"]
    (tmp_path / "Test_Questions.txt").write_text("\n".join(lines))
    (tmp_path / "Test_Answers.txt").write_text("b|3\na|1\na|2\n")
    assert [e.answer for e in read_benchmark(tmp_path)] == ["1", "3", "2"]


def test_questions_alone_have_no_answer(tmp_path: Path) -> None:
    (tmp_path / "Test_Questions.txt").write_text("a|is it?\nb|is it?\nc|was it?\n")
    (tmp_path / "Other_Answers.txt").write_text("x|1\ny|2\nz|2\n")  # of another test
    benchmark = read_benchmark(tmp_path / "Test_Questions.txt")
    assert [e.answer for e in benchmark] == [None] * 3
    assert not benchmark.dropped


@pytest.mark.parametrize("parent", [True, False])
def test_images_in_a_folder_beside_the_text(tmp_path: Path, picture: Picture, parent: bool) -> None:
    """The user names the folder above, or the folder of the text."""
    text, images = tmp_path / "VQA-Med-2020-Test-VQA", tmp_path / "VQA-Med-2020-Test-Images"
    text.mkdir()
    images.mkdir()
    for i in range(3):
        (images / f"synpic{i}.jpg").write_bytes(picture(i, format="JPEG"))
    (text / "QA_pairs.txt").write_text("".join(f"synpic{i}|what is it?|a{i}\n" for i in range(3)))
    (text / "image_IDs.txt").write_text("".join(f"synpic{i}\n" for i in range(3)))
    benchmark = read_benchmark(tmp_path if parent else text)
    assert [ref.read() for ref in benchmark.images] == [picture(i, format="JPEG") for i in range(3)]


def test_several_answers_and_a_category_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a|modality|what is it?|ct\n" * 4)
    (tmp_path / "b.txt").write_text("a|what is it?|ct|ct scan\n" * 4)
    assert read_benchmark(tmp_path / "a.txt").examples[0].metadata["category"] == "modality"
    second = read_benchmark(tmp_path / "b.txt").examples[0]
    assert (second.question, second.answer) == ("what is it?", "ct")


@pytest.mark.parametrize("text", ["one | pipe\n", "a|b\n", "some words|and others\n" * 5])
def test_a_caption_with_a_pipe_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "1.txt").write_text(text)
    assert not PipesReader().recognises(tmp_path / "1.txt")
