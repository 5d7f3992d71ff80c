"""Which file a row's image name means: the longest path that agrees, or a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import image_finder, read_benchmark
from heldout.benchmark.check import check
from heldout.benchmark.image_finder import ImageFinder
from heldout.image import FileOnDisk, Nowhere

Picture = Callable[..., bytes]


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def place(finder: ImageFinder, name: str) -> str:
    """The content of the file, which is its path, or the reason why there is none."""
    (ref,) = finder.find(name, "row 1")
    location = ref.location
    if isinstance(location, Nowhere):
        return location.reason
    assert isinstance(location, FileOnDisk)
    return Path(location.path).read_bytes().decode()


def test_the_longest_suffix_wins(tmp_path: Path) -> None:
    touch(tmp_path, "x/b/c.jpg", "y/c.jpg", "images/c.jpg")
    finder = ImageFinder(tmp_path)
    assert place(finder, "a/b/c.jpg") == "x/b/c.jpg"
    assert place(finder, "a\\b\\c.jpg") == "x/b/c.jpg"
    assert place(finder, "/old/home/y/c.jpg") == "y/c.jpg"
    assert place(finder, "c.jpg") == "images/c.jpg"  # the usual folder, and the whole name


def test_what_ends_alike_is_ambiguous(tmp_path: Path) -> None:
    touch(tmp_path, "x/b/c.jpg", "y/b/c.jpg", "z/c.jpg")
    finder = ImageFinder(tmp_path)
    (ref,) = finder.find("a/b/c.jpg", "row 1")
    assert isinstance(ref.location, Nowhere)
    assert ref.location.reason == "ambiguous image"
    assert "x/b/c.jpg, y/b/c.jpg" in ref.location.detail
    assert place(finder, "y/b/c.jpg") == "y/b/c.jpg"


def test_the_whole_name_comes_before_a_part_of_it_elsewhere(tmp_path: Path) -> None:
    touch(tmp_path, "c.jpg", "images/b/c.jpg")
    assert place(ImageFinder(tmp_path), "b/c.jpg") == "images/b/c.jpg"


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ("imgs/xmlab1/source.jpg", "xmlab102/source.jpg"),
        ("train/patient00001/study1/view1.jpg", "CheXpert/train/patient00002/study1/view1.jpg"),
        ("d/4f2a91bc77/0.png", "d/91bc774f2a/0.png"),
    ],
)
def test_another_patient_is_not_the_same_picture(tmp_path: Path, there: str, wanted: str) -> None:
    touch(tmp_path, there)
    assert place(ImageFinder(tmp_path), wanted) == "missing image"
    assert place(ImageFinder(tmp_path), f"old/{there}") == there


def test_a_name_without_ending_is_found_in_any_folder(tmp_path: Path) -> None:
    touch(tmp_path, "VQAnswering_2020_Train_images/synpic1.jpg", "notes/synpic2.txt")
    finder = ImageFinder(tmp_path)
    assert place(finder, "synpic1") == "VQAnswering_2020_Train_images/synpic1.jpg"
    assert place(finder, "synpic2") == "missing image"


def test_the_folder_the_user_names_is_the_only_one(tmp_path: Path) -> None:
    touch(tmp_path, "here/a/1.jpg", "there/2.jpg")
    finder = ImageFinder(tmp_path, images=tmp_path / "here")
    assert place(finder, "x/1.jpg") == "here/a/1.jpg"
    assert place(finder, "2.jpg") == "missing image"


def test_folders_beside_are_looked_into_only_if_they_are_called_alike(tmp_path: Path) -> None:
    touch(tmp_path, "VQA-Med-2020-Test-VQA/q.txt", "VQA-Med-2020-Test-Images/synpic1.jpg")
    touch(tmp_path, "other_images/synpic2.jpg", "images/synpic3.jpg")
    finder = ImageFinder(tmp_path / "VQA-Med-2020-Test-VQA")
    assert place(finder, "synpic1") == "VQA-Med-2020-Test-Images/synpic1.jpg"
    assert place(finder, "synpic2") == place(finder, "synpic3") == "missing image"


def test_a_link_out_of_the_folder_is_refused_by_any_name(tmp_path: Path) -> None:
    touch(tmp_path, "secret/a.jpg", "data/x/b.jpg")
    (tmp_path / "data/x/a.jpg").symlink_to(tmp_path / "secret/a.jpg")
    finder = ImageFinder(tmp_path / "data")
    assert place(finder, "old/a.jpg") == "image outside the dataset folder"
    assert place(finder, "../secret/a.jpg") == "image outside the dataset folder"


def test_a_folder_of_too_many_files_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, *(f"x/{i}.jpg" for i in range(20)), "images/7.jpg")
    monkeypatch.setattr(image_finder, "_MOST_FILES", 10)
    finder = ImageFinder(tmp_path)
    assert place(finder, "images/7.jpg") == "images/7.jpg"
    (ref,) = finder.find("old/3.jpg", "row 1")
    assert isinstance(ref.location, Nowhere)
    assert "too many files" in ref.location.detail


def test_check_says_which_images_are_ambiguous(tmp_path: Path, picture: Picture) -> None:
    for name in ("x/c.png", "y/c.png", "z/d.png"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(picture(len(name)))
    rows = [{"id": n, "image": f"old/{n}.png", "question": "q?", "answer": n} for n in "cd"]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    (problem,) = [
        found
        for found in check(read_benchmark(tmp_path / "t.json")).problems
        if found.rule == "ambiguous-image"
    ]
    assert (problem.severity, problem.count, problem.of) == ("error", 1, 2)
    assert "the setting images" in problem.advice
