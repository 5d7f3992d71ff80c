"""One row that no program can handle is dropped with its reason; its neighbours are not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.check import check
from heldout.benchmark.readers import base, json_rows
from heldout.benchmark.writers import find_writer
from heldout.benchmark.writers.base import FilePart
from heldout.errors import InputError


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def item(number: int, extra: str = '""') -> str:
    return f'{{"id": "{number}", "question": "What is {number}?", "answer": "a{number}", "x": {extra}}}'


def document(name: str, rows: list[str]) -> str:
    if name.endswith(".jsonl"):
        return "".join(row + "\n" for row in rows)
    listed = "[" + ",\n ".join(rows) + "]"
    return listed if name == "t.json" else f'{{"rows": {listed}}}'


@pytest.mark.parametrize("depth", [150, 900, 100_000])
@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_a_deep_row_is_dropped_alone(tmp_path: Path, name: str, depth: int) -> None:
    rows = [item(1), item(2, nested(depth)), item(3), item(4, nested(20))]
    (tmp_path / name).write_text(document(name, rows))
    benchmark = read_benchmark(tmp_path / name)
    assert [example.id for example in benchmark] == ["1", "3", "4"]
    assert [(d.reason, d.scope) for d in benchmark.dropped] == [("nested too deeply", "item")]
    assert benchmark.dropped[0].id.endswith(" 2")
    assert benchmark.examples[1].origin.endswith(" row 3")
    assert check(benchmark).dropped[0]["reason"] == "nested too deeply"


def test_a_deep_row_inside_an_object(tmp_path: Path) -> None:
    rows = [item(1), item(2, nested(900)), item(3)]
    (tmp_path / "object.json").write_text(document("object.json", rows))
    benchmark = read_benchmark(tmp_path / "object.json")
    assert [example.id for example in benchmark] == ["1", "3"]
    assert [d.reason for d in benchmark.dropped] == ["nested too deeply"]


@pytest.mark.parametrize("text", [nested(100_000), '{"rows": ' + nested(100_000) + "}"])
def test_a_file_that_is_nothing_but_deep_gets_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError, match="100 levels|nested too"):
        read_benchmark(tmp_path / "t.json")


def test_a_deep_conversation_and_a_deep_caption(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "What?"}, {"from": "gpt", "value": "That."}]
    good = json.dumps({"id": "1", "conversations": turns})
    bad = f'{{"id": "2", "conversations": {nested(900)}}}'
    (tmp_path / "l.json").write_text(f"[{good}, {bad}, {good}]")
    benchmark = read_benchmark(tmp_path / "l.json")
    assert (len(benchmark), [d.reason for d in benchmark.dropped]) == (2, ["nested too deeply"])
    images = '[{"id": 1, "file_name": "a.jpg"}]'
    notes = f'[{{"image_id": 1, "caption": "a dog"}}, {{"image_id": 1, "caption": {nested(900)}}}]'
    (tmp_path / "c.json").write_text(f'{{"images": {images}, "annotations": {notes}}}')
    captions = read_benchmark(tmp_path / "c.json")
    assert (captions.reader, len(captions), len(captions.dropped)) == ("coco", 1, 1)


def test_a_deep_text_in_a_table_is_text(tmp_path: Path) -> None:
    table = pa.table({"question": ["a?", "b?"], "answer": ["c", "d"], "x": [nested(900), "y"]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert len(read_benchmark(tmp_path / "t.parquet").fingerprint) == 64
    assert check(read_benchmark(tmp_path / "t.parquet")).facts["items"] == 2


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.csv"])
def test_a_line_that_is_too_long_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Skipped to its end; the rows behind it keep the numbers they have in the file."""
    limit = 4096
    monkeypatch.setattr(json_rows, "MAX_LINE", limit)
    monkeypatch.setattr("heldout.benchmark.readers.delimited.MAX_RECORD", limit)
    for module in (json_rows, base):
        monkeypatch.setattr(module, "_CHUNK", 512)
    long = "y" * (3 * limit + 17) + r"\\\" ] }"
    if name == "t.csv":
        text = f"id,question,answer\n1,a?,b\n2,{'y' * 3 * limit},c\n3,d?,e\n4,f?,g"
    else:
        text = document(name, [item(1), item(2, f'"{long}"'), item(3), item(4)])
    (tmp_path / name).write_text(text)
    benchmark = read_benchmark(tmp_path / name)
    assert [example.id for example in benchmark] == ["1", "3", "4"]
    assert [example.origin for example in benchmark] == [f"{name} row {n}" for n in (1, 3, 4)]
    (dropped,) = benchmark.dropped
    assert (dropped.id.split()[-1], dropped.scope) == ("2", "item")
    assert dropped.reason in ("line too long", "row too long", "record over 4,096 bytes")


def test_a_line_of_104_megabytes_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("w") as file:
        file.write(item(1) + "\n" + '{"id": "2", "x": "')
        for _ in range(104):
            file.write("y" * (1 << 20))
        file.write('"}\n' + item(3) + "\n")
    benchmark = read_benchmark(path)
    assert [example.origin for example in benchmark] == ["t.jsonl row 1", "t.jsonl row 3"]
    assert [(d.id, d.reason) for d in benchmark.dropped] == [("t.jsonl line 2", "line too long")]


@pytest.mark.parametrize(
    "broken", ['{"id": 2, "x": tru}', '{"id": "2" "x": 1}', "}", '"\\u00g"', "xyz"]
)
def test_one_broken_element_loses_no_other(tmp_path: Path, broken: str) -> None:
    (tmp_path / "t.json").write_text(document("t.json", [item(1), broken, item(3)]))
    benchmark = read_benchmark(tmp_path / "t.json")
    assert [example.id for example in benchmark] == ["1", "3"]
    assert [d.id for d in benchmark.dropped] == ["t.json row 2"]


def test_rows_behind_a_dropped_one_are_written_by_their_own_numbers(tmp_path: Path) -> None:
    rows = [item(1), item(2, nested(100_000)), "{broken}", item(4)]
    for name in ("t.json", "t.jsonl"):
        (tmp_path / name).write_text(document(name, rows))
        writer = find_writer(read_benchmark(tmp_path / name).reader)
        target = tmp_path / "out" / name
        writer.write([FilePart(tmp_path / name, frozenset({1, 4}))], target)
        assert [example.id for example in read_benchmark(target)] == ["1", "4"]
