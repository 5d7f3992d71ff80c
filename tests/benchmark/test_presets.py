"""Every preset on a tiny dataset laid out as published, and on the authors' own files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.explode import options_in
from heldout.benchmark.presets import PRESETS, find_preset
from heldout.errors import InputError

Picture = Callable[..., bytes]
IMAGE = "<picture>"


def publish(folder: Path, split: str, rows: list[dict[str, Any]], picture: Picture) -> Path:
    """Rows as the hub's Parquet; the string IMAGE becomes an image of its own."""
    count = iter(range(1000))

    def filled(value: Any) -> Any:
        if value == IMAGE:
            return {"bytes": picture(next(count)), "path": None}
        return value

    full = [{key: filled(value) for key, value in row.items()} for row in rows]
    (folder / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(full), folder / "data" / f"{split}-00000-of-00001.parquet")
    other = [{**row, "question": "another split"} for row in full]
    pq.write_table(
        pa.Table.from_pylist(other), folder / "data" / "other_train-00000-of-00001.parquet"
    )
    return folder


# preset, published rows, then question, options, answer, answer index and images of the first item
LAYOUTS: list[tuple[str, dict[str, Any], str | None, tuple[str, ...], str, int | None]] = [
    ("pathvqa", {"image": IMAGE, "question": "part?", "answer": "gut"}, "part?", (), "gut", None),
    ("vqa-rad", {"image": IMAGE, "question": "is it?", "answer": "no"}, "is it?", (), "no", None),
    ("slake-en", {"image": IMAGE, "question": "CT?", "answer": "Yes"}, "CT?", (), "Yes", None),
    ("mmmu-med",
     {"id": "validation_Pharmacy_1", "question": "<image 1> which?",
      "options": "['a drug', 'no drug']",
      "explanation": "", "image_1": IMAGE, "image_2": IMAGE, "image_3": None, "img_type": "['x']",
      "answer": "B", "topic_difficulty": "Easy", "question_type": "multiple-choice"},
     "<image 1> which?", ("a drug", "no drug"), "no drug", 1),
    ("mmstar",
     {"index": 0, "question": "Which?\nOptions: A: on the book., B: beneath the cat., C: no, never",
      "image": IMAGE, "answer": "B", "category": "coarse perception", "l2_category": "x",
      "meta_info": {"source": "MMBench", "split": "val", "image_path": "images/0.jpg"}},
     "Which?\nOptions: A: on the book., B: beneath the cat., C: no, never",
     ("on the book.", "beneath the cat.", "no, never"), "beneath the cat.", 1),
    ("realworldqa",
     {"image": IMAGE, "question": "Where?\n\nA. left\nB. right\nPlease answer directly with "
      "only the letter of the correct option and nothing else.",
      "answer": "A", "image_path": "0.webp"},
     "Where?\n\nA. left\nB. right\nPlease answer directly with only the letter of the correct "
     "option and nothing else.", ("left", "right"), "left", 0),
    ("coco",
     {"question_id": "0001.jpg", "image": IMAGE, "question": "Describe.",
      "answer": ["a cat", "one cat"],
      "id": 1, "license": 3, "file_name": "0001.jpg", "coco_url": "http://x"},
     "Describe.", (), "a cat", None),
    ("flickr30k",
     {"image": IMAGE, "caption": ["a man", "one man"], "sentids": ["0", "1"], "img_id": "7",
      "filename": "1.jpg"}, None, (), "a man", None),
    ("openimages",
     {"image": IMAGE, "image_id": "ab", "original_url": "u", "title": "t",
      "labels": [{"label": "Tree", "confidence": 1.0}, {"label": "Car", "confidence": 0.0},
                 {"label": "Sky", "confidence": 1.0}]}, None, (), "Tree, Sky", None),
    ("textcaps",
     {"question_id": "v1", "question": "Describe.", "image": IMAGE, "image_id": "x",
      "image_name": "x",
      "image_path": "train/x.jpg", "caption_str": ["A sign.", "Sign."],
      "reference_strs": ["A sign."]},
     "Describe.", (), "A sign.", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "row", "question", "options", "answer", "index"),
    LAYOUTS,
    ids=[row[0] for row in LAYOUTS],
)
def test_published_layout(
    name: str,
    row: dict[str, Any],
    question: str | None,
    options: tuple[str, ...],
    answer: str,
    index: int | None,
    tmp_path: Path,
    picture: Picture,
) -> None:
    preset = find_preset(name, by_name=True)
    assert preset is not None
    folder = publish(tmp_path / "published", preset.split, [row, row], picture)
    if preset.split == "train":
        (folder / "data" / "other_train-00000-of-00001.parquet").unlink()
    benchmark = read_benchmark(folder, preset=name)
    first = benchmark.examples[0]
    assert len(benchmark) == 2
    assert (first.question, first.options, first.answer) == (question, options, answer)
    assert first.answer_index == index
    pictures = sum(value == IMAGE for value in row.values())
    assert [ref.read() for ref in first.images] == [picture(i) for i in range(pictures)]
    assert benchmark.name == name


def test_naturalbench_rows_become_four_items(tmp_path: Path, picture: Picture) -> None:
    row = {
        "Index": 5, "Image_0": IMAGE, "Image_1": IMAGE,
        "Question_0": "Sunny?", "Image_0_Question_0": "Yes", "Image_1_Question_0": "No",
        "Question_1": "Which?; Option: A:red; B:blue;", "Image_0_Question_1": "A",
        "Image_1_Question_1": "B", "Question_Type": "yes_no", "Source": "DOCCI",
    }  # fmt: skip
    folder = publish(tmp_path / "nb", "train", [row], picture)
    (folder / "data" / "other_train-00000-of-00001.parquet").unlink()
    benchmark = read_benchmark(folder, preset="naturalbench")
    assert [(e.question, e.answer, e.images[0].read()) for e in benchmark] == [
        ("Sunny?", "Yes", picture(0)),
        ("Sunny?", "No", picture(1)),
        ("Which?; Option: A:red; B:blue;", "red", picture(0)),
        ("Which?; Option: A:red; B:blue;", "blue", picture(1)),
    ]
    assert [e.answer_index for e in benchmark] == [None, None, 0, 1]
    assert len(set(benchmark.clusters)) == 1
    assert len({e.id for e in benchmark}) == 4
    assert benchmark.examples[0].metadata["Source"] == "DOCCI"


def test_omnimedvqa_as_its_zip_unpacks(tmp_path: Path, picture: Picture) -> None:
    tables = tmp_path / "OmniMedVQA" / "QA_information" / "Open-access"
    tables.mkdir(parents=True)
    for i, source in enumerate(("ACRIMA", "BRATS")):
        image = tmp_path / "OmniMedVQA" / "Images" / source / f"{i}.png"
        image.parent.mkdir(parents=True)
        image.write_bytes(picture(i))
        row = {
            "dataset": source, "question_id": f"{source}_0", "question_type": "Disease Diagnosis",
            "question": "Which?", "gt_answer": "glaucoma", "image_path": f"Images/{source}/{i}.png",
            "option_A": "none", "option_B": "glaucoma", "modality_type": "Fundus",
        }  # fmt: skip
        if source == "BRATS":
            row |= {"option_C": "tumour", "option_D": "other", "gt_answer": "other"}
        (tables / f"{source}.json").write_text(json.dumps([row]))
    first, second = read_benchmark(tables, preset="omnimedvqa").examples
    assert (first.id, first.options, first.answer_index) == ("ACRIMA_0", ("none", "glaucoma"), 1)
    assert (second.answer, second.answer_index) == ("other", 3)
    assert [e.images[0].read() for e in (first, second)] == [picture(0), picture(1)]


@pytest.mark.parametrize("version", [1, 2])
def test_pmc_vqa_in_both_releases(tmp_path: Path, picture: Picture, version: int) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "PMC1_F1.jpg").write_bytes(picture(0))
    choices = " A:Diffuse , B:Focal , C:None , D:Unknown "
    (tmp_path / "test.csv").write_text(
        "Figure_path,Question,Answer,Choice A,Choice B,Choice C,Choice D,Answer_label\n"
        f"PMC1_F1.jpg,Which uptake?,Focal,{choices},B\n"
        if version == 1
        else "index,Figure_path,Caption,Question,Choice A,Choice B,Choice C,Choice D,Answer,split\n"
        f"0,PMC1_F1.jpg,a caption,Which uptake?,{choices},B,test\n"
    )
    example = read_benchmark(tmp_path / "test.csv", preset="pmc-vqa").examples[0]
    assert example.options == ("Diffuse", "Focal", "None", "Unknown")
    assert (example.answer, example.answer_index) == ("Focal", 1)
    assert example.images[0].read() == picture(0)


def test_medxpertqa_mm(tmp_path: Path, picture: Picture) -> None:
    for folder in ("MM", "images"):
        (tmp_path / folder).mkdir()
    (tmp_path / "images" / "MM-0-a.jpeg").write_bytes(picture(0))
    row = {
        "id": "MM-0", "question": "Which?\nAnswer Choices: (A) x (B) y", "label": "B",
        "options": {"A": "x", "B": "y"}, "images": ["MM-0-a.jpeg"], "medical_task": "Diagnosis",
        "body_system": "Skeletal", "question_type": "Reasoning",
    }  # fmt: skip
    (tmp_path / "MM" / "test.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "MM" / "dev.jsonl").write_text(json.dumps({**row, "id": "other"}) + "\n")
    example = read_benchmark(tmp_path / "MM", preset="medxpertqa-mm", images=tmp_path / "images")
    first = example.examples[0]
    assert (first.id, first.options, first.answer, first.answer_index) == (
        "MM-0",
        ("x", "y"),
        "y",
        1,
    )
    assert first.images[0].read() == picture(0)


def test_imagenet_by_class_folder(tmp_path: Path, picture: Picture) -> None:
    for i, (split, wordnet) in enumerate((("train", "n01"), ("val", "n02"))):
        (tmp_path / split / wordnet).mkdir(parents=True)
        (tmp_path / split / wordnet / "x.JPEG").write_bytes(picture(i))
    (example,) = read_benchmark(tmp_path, preset="imagenet").examples
    assert (example.answer, example.images[0].read()) == ("n02", picture(1))


def test_language_of_slake_applies_where_there_is_one(tmp_path: Path) -> None:
    rows = [{"question": q, "answer": "a", "q_lang": q} for q in ("en", "zh")]
    (tmp_path / "test.json").write_text(json.dumps(rows))
    assert [e.question for e in read_benchmark(tmp_path, preset="slake-en")] == ["en"]
    chosen = read_benchmark(f"{tmp_path}#lang=zh", preset="slake-en")
    assert [e.question for e in chosen] == ["zh"]


@pytest.mark.parametrize(
    ("folder", "preset", "count"),
    [("slake", "slake-en", 1061), ("vqa_rad", "vqa-rad", 451), ("pathvqa", "pathvqa", 6761)],
)  # fmt: skip
def test_authors_own_files(shared_data: Path, folder: str, preset: str, count: int) -> None:
    benchmark = read_benchmark(shared_data / folder, preset=preset)
    assert (len(benchmark), benchmark.split, len(benchmark.dropped)) == (count, "test", 0)
    assert all(e.question for e in benchmark)
    if folder != "pathvqa":  # whose images are not in the shared data
        assert all("missing" not in e.images[0].source for e in benchmark)


def test_a_named_file_wins_over_the_split_of_the_preset(shared_data: Path) -> None:
    benchmark = read_benchmark(shared_data / "slake" / "official_train.json", preset="slake-en")
    assert (len(benchmark), benchmark.split) == (4919, "train")


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean .*slake-en"):
        find_preset("slake", by_name=True)
    assert find_preset("slake") is None
    assert find_preset("mmstar") is not None


def test_every_preset_is_tested_here() -> None:
    tested = {layout[0] for layout in LAYOUTS}
    tested |= {"naturalbench", "omnimedvqa", "pmc-vqa", "medxpertqa-mm", "imagenet"}
    assert {preset.name for preset in PRESETS} == tested


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Is it red?", []),
        ("Vitamin A: what is it? And B: why?", []),
        ("Which? Options: A: one, B: two", ["one", "two"]),
        ("Which?\n(A) one\n(B) two\n(C) three", ["one", "two", "three"]),
        ("Options: B: two, A: one", []),
        (None, []),
    ],
)
def test_options_written_into_the_question(question: str | None, options: list[str]) -> None:
    assert options_in(question) == options
