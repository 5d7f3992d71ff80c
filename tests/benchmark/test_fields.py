"""From columns to Examples, and the revision of a benchmark over formats and hostile rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import Benchmark, read_benchmark
from heldout.benchmark.fields import FieldMap
from heldout.benchmark.image_finder import ImageFinder
from heldout.errors import InputError

Picture = Callable[..., bytes]


def example(row: dict[str, Any], **overrides: str) -> Any:
    return FieldMap.infer([row], overrides).example(row, 1, "row 1", ImageFinder(Path("nowhere")))


@pytest.mark.parametrize(
    ("row", "options", "answer", "index"),
    [
        ({"options": ["CT", "MRI"], "answer": "B"}, ("CT", "MRI"), "MRI", 1),
        ({"options": {"B": "MRI", "A": "CT", "C": None}, "answer": "A"}, ("CT", "MRI"), "CT", 0),
        ({"options": "['CT', 'MRI']", "answer": "mri"}, ("CT", "MRI"), "MRI", 1),
        ({"Choice A": " A:CT ", "Choice B": " B:MRI", "answer": "B"}, ("CT", "MRI"), "MRI", 1),
        (
            {
                "choices": [{"letter": "A", "content": "CT"}, {"letter": "B", "content": "MRI"}],
                "answer": "A",
            },
            ("CT", "MRI"),
            "CT",
            0,
        ),
        (
            {"choices": ["A. only one labelled", "MRI"], "answer": "MRI"},
            ("A. only one labelled", "MRI"),
            "MRI",
            1,
        ),
        ({"options": ["CT", "MRI"], "answer": 1}, ("CT", "MRI"), "MRI", 1),
        ({"options": ["CT", "MRI"], "answer": "9" * 5000}, ("CT", "MRI"), "9" * 5000, None),
        ({"answer": "yes"}, (), "yes", None),
    ],
)
def test_options_and_answers(
    row: dict[str, Any], options: tuple[str, ...], answer: str, index: int | None
) -> None:
    found = example({"question": "q", **row})
    assert (found.options, found.answer, found.answer_index) == (options, answer, index)


def test_several_accepted_answers_stay_visible() -> None:
    found = example({"caption": ["one", "two"]})
    assert found.answer == "one"
    assert found.metadata["caption"] == ["one", "two"]
    found = example({"question": "q", "answer": "['3', \"three\"]"})
    assert (found.answer, found.metadata["answer"]) == ("3", "['3', \"three\"]")
    for written in ("[1, 2]", "['3', 'three'", "[H]C(=O)O", "[]", "['3'] or ['4']"):
        assert example({"question": "q", "answer": written}).answer == written


def test_lone_surrogates_do_not_break_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"question": "a\\ud800", "answer": "b", "tags": ["\\udfff"]}\n'
    )
    benchmark = read_benchmark(tmp_path / "t.jsonl")
    assert benchmark.examples[0].question == "a\ufffd"
    assert len(benchmark.fingerprint) == 64


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("../../../../../../../../etc/passwd", "outside the dataset folder"),
        ("/etc/passwd", "outside the dataset folder"),
        ("a\0b", "bad image name"),
        ("x_" * 150, "missing image"),
        ("x_" * 2500 + ".png", "bad image name"),
        ("http://example.org/a.png", "remote image"),
        ({"bytes": 10**12}, "not an image"),
        ([[[[[[[[[["deep"]]]]]]]]]], "bad image name"),
        ({"path": "/etc/passwd"}, "outside the dataset folder"),
    ],
)
def test_hostile_image_cells_are_kept_as_nowhere(tmp_path: Path, value: Any, says: str) -> None:
    (ref,) = ImageFinder(tmp_path).find(value, "row 1")
    assert says in ref.source


@pytest.mark.parametrize("value", [None, "", "[]", [], {"bytes": None, "path": None}])
def test_no_image_at_all(tmp_path: Path, value: Any) -> None:
    assert ImageFinder(tmp_path).find(value, "row 1") == ()


def test_links_of_the_hub_cache_are_followed(tmp_path: Path, picture: Picture) -> None:
    snapshot = tmp_path / "datasets--x" / "snapshots" / "abc"
    blobs = tmp_path / "datasets--x" / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    (blobs / "0f").write_bytes(picture(0))
    (snapshot / "1.png").symlink_to(blobs / "0f")
    (ref,) = ImageFinder(snapshot).find("1.png", "row 1")
    assert ref.read() == picture(0)


def test_repeated_ids_and_missing_columns(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        '{"id": 1, "question": "a"}\n{"id": 1, "question": "b"}\n{}\n'
    )
    assert [e.id for e in read_benchmark(tmp_path / "t.jsonl")] == ["1", "1#2", "3"]
    with pytest.raises(InputError, match="no column 'lang'"):
        read_benchmark(f"{tmp_path / 't.jsonl'}#lang=en")


def test_split_column_and_split_by_name(tmp_path: Path) -> None:
    rows = [{"question": split, "split": split} for split in ("train", "TEST", "validation")]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [e.question for e in read_benchmark(f"{tmp_path}/all.jsonl#split=test")] == ["TEST"]
    assert [e.question for e in read_benchmark(f"{tmp_path}/all.jsonl#split=val")] == ["validation"]
    (tmp_path / "x_train.jsonl").write_text('{"question": "a"}\n')
    with pytest.raises(InputError, match="split 'train'.*'test'"):
        read_benchmark(f"{tmp_path}/x_train.jsonl#split=test")


ROWS: list[dict[str, Any]] = [
    {
        "id": str(i),
        "image": f"{i}.png",
        "question": f'What is "it",\n{i}?',
        "options": ["CT", "MRI"],
        "answer": "AB"[i % 2],
        "organ": "Lunge ü",
        "age": 40 + i,
        "note": None,
    }
    for i in range(4)
]


def in_format(
    folder: Path, kind: str, rows: list[dict[str, Any]], pictures: list[bytes]
) -> Benchmark:
    folder.mkdir()
    for row, data in zip(rows, pictures, strict=True):
        (folder / row["image"]).write_bytes(data)
    path = folder / f"data.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "parquet":
        inline = [
            {**row, "image": {"bytes": data}} for row, data in zip(rows, pictures, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(inline), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return read_benchmark(path)


def test_same_revision_in_every_format(tmp_path: Path, picture: Picture) -> None:
    pictures = [picture(i) for i in range(4)]
    kinds = ("jsonl", "csv", "tsv", "parquet")
    read = [in_format(tmp_path / kind, kind, ROWS, pictures) for kind in kinds]
    assert len({benchmark.fingerprint for benchmark in read}) == 1
    assert read[0].examples[1].answer_index == 1


def test_revision_changes_with_order_text_and_pixels(tmp_path: Path, picture: Picture) -> None:
    pictures = [picture(i) for i in range(4)]
    changed = [{**ROWS[0], "organ": "Herz"}, *ROWS[1:]]
    variants = [
        in_format(tmp_path / "a", "jsonl", ROWS, pictures),
        in_format(tmp_path / "b", "jsonl", ROWS[::-1], pictures[::-1]),
        in_format(tmp_path / "c", "jsonl", changed, pictures),
        in_format(tmp_path / "d", "jsonl", ROWS, [picture(9), *pictures[1:]]),
    ]
    assert len({benchmark.fingerprint for benchmark in variants}) == 4


def test_instructions_with_an_input_and_an_output() -> None:
    rows = [
        {"instruction": "<image>\nAnswer briefly.", "input": "What is it?", "output": "A dog."},
        {"instruction": "What is it?", "input": "", "output": "A cat."},
    ]
    fields = FieldMap.infer(rows)
    found = [fields.example(row, 1, "o", ImageFinder(Path("/nowhere"))) for row in rows]
    assert [e.question for e in found] == ["Answer briefly. What is it?", "What is it?"]
    assert [e.answer for e in found] == ["A dog.", "A cat."]
    assert found[0].metadata == {}


def test_text_is_a_question_where_something_answers_it() -> None:
    """LLaVA's question files call it text; a caption beside an image is no question."""
    assert FieldMap.infer([{"question_id": 1, "text": "t", "image": "a"}]).columns["question"] == (
        "text",
    )
    assert FieldMap.infer([{"text": "t", "answer": "a"}]).columns["question"] == ("text",)
    both = FieldMap.infer([{"image": "i", "text": "t", "output": "o"}]).columns
    assert (both["question"], both["answer"]) == (("text",), ("output",))
    assert FieldMap.infer([{"image": "a.jpg", "text": "a dog"}]).columns["question"] == ()
    assert FieldMap.infer([{"question": "q", "text": "t"}]).columns["question"] == ("question",)


def test_the_user_decides_before_other_names() -> None:
    rows = [{"instruction": "i", "input": "n", "output": "o"}]
    columns = FieldMap.infer(rows, {"question": "input", "answer": "instruction"}).columns
    assert (columns["question"], columns["answer"]) == (("input",), ("instruction",))
