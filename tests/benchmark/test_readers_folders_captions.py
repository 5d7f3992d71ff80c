"""LLaVA conversations, COCO captions and folders of images."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers import find_reader
from heldout.benchmark.readers.image_folder import ImageFolderReader
from heldout.benchmark.readers.llava import CocoReader, LlavaReader
from heldout.errors import InputError
from heldout.store import Dropped

Picture = Callable[..., bytes]

CONVERSATIONS = [
    {
        "id": "a",
        "image": "coco/1.png",
        "conversations": [
            {"from": "human", "value": "<image>\nWhat is it?"},
            {"from": "gpt", "value": "A cat."},
            {"from": "human", "value": "What colour?"},
            {"from": "gpt", "value": "Black."},
        ],
    },
    {
        "id": "b",
        "images": ["coco/1.png", "coco/2.png"],
        "conversations": [
            {"from": "human", "value": "Compare <image> and <image>."},
            {"from": "gpt", "value": "Same."},
        ],
    },
    {"id": "c", "conversations": [{"from": "gpt", "value": "no question"}]},
    {"id": "d", "conversations": "text"},
    {
        "id": "e",
        "conversations": [
            {"from": "human", "value": "q"},
            {"from": "gpt", "value": "a"},
            {"from": "human", "value": "unanswered"},
        ],
    },
    {"id": "f", "conversations": [{"from": "human", "value": 3}, None]},
]


@pytest.mark.parametrize("lines", [False, True])
def test_llava(tmp_path: Path, picture: Picture, lines: bool) -> None:
    (tmp_path / "coco").mkdir()
    for i in (1, 2):
        (tmp_path / "coco" / f"{i}.png").write_bytes(picture(i))
    path = tmp_path / ("train.jsonl" if lines else "train.json")
    text = "\n".join(json.dumps(c) for c in CONVERSATIONS) if lines else json.dumps(CONVERSATIONS)
    path.write_text(text)
    benchmark = read_benchmark(path)
    assert benchmark.reader == "llava"
    assert [(e.id, e.question, e.answer) for e in benchmark] == [
        ("a_1", "What is it?", "A cat."),
        ("a_2", "What colour?", "Black."),
        ("b", "Compare and .", "Same."),
        ("e", "q", "a"),
    ]
    assert [[r.read() for r in e.images] for e in benchmark.examples[1:3]] == [
        [picture(1)],
        [picture(1), picture(2)],
    ]
    assert "What is it?" in benchmark.examples[1].metadata["conversation"]
    assert [(d.id.split()[-1], d.reason) for d in benchmark.dropped] == [
        ("3", "broken conversation"),
        ("4", "broken conversation"),
        ("5", "broken conversation"),
        ("6", "broken conversation"),
    ]
    assert "has no answer" in benchmark.dropped[2].detail


def test_messages_with_parts(tmp_path: Path) -> None:
    item = {
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [{"type": "image", "image": "x.png"}, {"type": "text", "text": "q"}],
            },
            {"role": "assistant", "content": "a"},
        ]
    }
    (tmp_path / "t.jsonl").write_text(json.dumps(item) + "\nnot json\n")
    row, dropped = LlavaReader().rows(tmp_path / "t.jsonl")
    assert row.values == {  # type: ignore[union-attr]
        "id": "1",
        "system": "be brief",
        "image": ["x.png"],
        "question": "q",
        "answer": "a",
    }
    assert isinstance(dropped, Dropped)


def test_coco_captions_beside_their_year_folder(tmp_path: Path, picture: Picture) -> None:
    for folder in ("annotations", "val2017"):
        (tmp_path / folder).mkdir()
    (tmp_path / "val2017" / "0001.jpg").write_bytes(picture(1))
    captions = {
        "images": [
            {"id": 1, "file_name": "0001.jpg"},
            {"id": 2, "file_name": "0002.jpg"},
            {"id": 3},
        ],
        "annotations": [
            {"id": 10, "image_id": 1, "caption": "A cat. \n"},
            {"id": 11, "image_id": 1, "caption": "One cat."},
            {"id": 12, "image_id": 99, "caption": "Nowhere."},
            {"id": 13, "image_id": 1},
        ],
    }
    path = tmp_path / "annotations" / "captions_val2017.json"
    path.write_text(json.dumps(captions))
    benchmark = read_benchmark(path)
    assert benchmark.reader == "coco"
    assert [(e.id, e.answer, e.metadata["img_id"]) for e in benchmark] == [
        ("10", "A cat.", "1"),
        ("11", "One cat.", "1"),
        ("image_2", None, "2"),
    ]
    assert benchmark.examples[0].images[0].read() == picture(1)
    assert [d.reason for d in benchmark.dropped] == [
        "missing field",
        "unknown image",
        "missing field",
    ]


def test_coco_boxes_are_refused_with_a_hint(tmp_path: Path) -> None:
    boxes = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "annotations": [{"image_id": 1, "bbox": []}],
    }
    (tmp_path / "instances.json").write_text(json.dumps(boxes))
    with pytest.raises(InputError, match="captions_val2017"):
        list(CocoReader().rows(tmp_path / "instances.json"))


def images(root: Path, picture: Picture, *names: str) -> None:
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(picture(i))


def test_class_folders(tmp_path: Path, picture: Picture) -> None:
    images(tmp_path, picture, "dog/2.JPEG", "cat/1.png", "cat/deep/0.png")
    (tmp_path / "README.md").write_text("about")
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "cat" / "notes.bin").write_bytes(b"x")
    benchmark = read_benchmark(tmp_path)
    assert [(e.id, e.answer) for e in benchmark] == [
        ("cat/1.png", "cat"),
        ("cat/deep/0.png", "cat"),
        ("dog/2.JPEG", "dog"),
    ]
    assert [e.images[0].read() for e in benchmark] == [picture(1), picture(2), picture(0)]
    assert [(d.id, d.reason) for d in benchmark.dropped] == [
        (".hidden", "not an image"),
        ("cat/notes.bin", "not an image"),
    ]


def test_flat_folder_has_no_labels(tmp_path: Path, picture: Picture) -> None:
    images(tmp_path, picture, "b.png", "a.png")
    assert [(e.id, e.answer) for e in read_benchmark(tmp_path)] == [
        ("a.png", None),
        ("b.png", None),
    ]


def test_splits_of_an_image_folder(tmp_path: Path, picture: Picture) -> None:
    images(tmp_path, picture, "train/cat/1.png", "val/dog/2.png")
    assert [e.answer for e in read_benchmark(f"{tmp_path}#split=val")] == ["dog"]
    with pytest.raises(InputError, match="splits: train, val"):
        read_benchmark(tmp_path)


def test_a_folder_with_a_table_is_not_an_image_folder(tmp_path: Path, picture: Picture) -> None:
    images(tmp_path, picture, "images/1.png")
    (tmp_path / "test.json").write_text('[{"question": "q", "image": "1.png"}]')
    assert find_reader(tmp_path) is None
    assert read_benchmark(tmp_path).examples[0].images[0].read() == picture(0)


def test_links_and_undecodable_names(tmp_path: Path, picture: Picture) -> None:
    root = tmp_path / "root"
    images(root, picture, "cat/1.png")
    (root / "cat" / "up").symlink_to(root)
    (tmp_path / "secret.png").write_bytes(picture(9))
    (root / "cat" / "2.png").symlink_to(tmp_path / "secret.png")
    (Path(os.fsdecode(os.fsencode(root) + b"/cat/\xff.png"))).write_bytes(picture(3))
    read = list(ImageFolderReader().rows(root))
    assert [r.reason for r in read if isinstance(r, Dropped)] == ["link to a folder"]
    _, outside, escaped = read_benchmark(root).examples
    assert (escaped.id, escaped.images[0].read()) == ("cat/\\udcff.png", picture(3))
    assert outside.id == "cat/2.png"
    assert "the dataset folder" in outside.images[0].source


def test_real_folders(shared_data: Path) -> None:
    assert len(read_benchmark(shared_data / "slake" / "images")) == 642
    assert find_reader(shared_data / "slake") is None
    assert find_reader(shared_data / "vqa_med_2019") is None
