"""Writers: chosen rows of every format, the kept ones byte for byte, read back alike."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import Benchmark, read_benchmark
from heldout.benchmark.readers import readers
from heldout.benchmark.writers import FilePart, find_writer, open_tables, writers
from heldout.errors import InputError

Picture = Callable[..., bytes]


def rewrite(source: Path, target: Path, keep: set[str]) -> Benchmark:
    """``source`` with only the items called ``keep``, through its own writer, read back."""
    opened = open_tables(source)
    table = opened.tables[0]
    rows = frozenset(
        row for example, row in zip(opened.benchmark, table.rows, strict=True) if example.id in keep
    )
    find_writer(table.file.reader.name).write([FilePart(table.file.path, rows)], target)
    return read_benchmark(target)


def test_every_reader_has_a_writer() -> None:
    assert [writer.name for writer in writers()] == [reader.name for reader in readers()]
    with pytest.raises(InputError, match="format 'mine'"):
        find_writer("mine")


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("layout", ["array", "by id", "one list"])
def test_json_keeps_the_text_of_what_it_keeps(tmp_path: Path, layout: str, indent: int) -> None:
    rows = [
        {"id": f"q{n}", "question": f"wh\u00e4t {n}?", "answer": "1e2", "x": [1, {"y": 2}]}
        for n in range(4)
    ]
    whole = {
        "array": rows,
        "by id": {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in rows},
        "one list": {"info": {"year": 2014}, "questions": rows, "licence": "CC0"},
    }[layout]
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(json.dumps(whole, indent=indent))
    every = ["q0", "q1", "q2", "q3"]
    assert [one.id for one in rewrite(source, target, set(every))] == every
    assert target.read_bytes() == source.read_bytes()
    for keep in ({"q1", "q3"}, {"q0"}, {"q2"}):
        assert {one.id for one in rewrite(source, target, keep)} == keep
        written = target.read_text()
        assert json.loads(written) == (
            [row for row in rows if row["id"] in keep]
            if layout == "array"
            else {k: v for k, v in whole.items() if k in keep}
            if layout == "by id"  # type: ignore[attr-defined]
            else {**whole, "questions": [row for row in rows if row["id"] in keep]}  # type: ignore[dict-item]
        )
        assert "wh\\u00e4t" in written  # as it was escaped


def test_json_lines_keep_bytes_order_mark_and_endings(tmp_path: Path) -> None:
    source, target = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    lines = [
        b'{"id": "a", "question":"x", "answer": 1.50}\r\n',
        b"\r\n",
        b'{"id" : "b", "question": "y"}\r\n',
        b'{"id": "c", "question": "z"}',
    ]
    source.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
    rewrite(source, target, {"a", "c"})
    assert target.read_bytes() == b"\xef\xbb\xbf" + lines[0] + lines[3]
    rewrite(source, target, {"c"})
    assert target.read_bytes() == b"\xef\xbb\xbf" + lines[3]


def test_a_cut_json_file_is_closed(tmp_path: Path) -> None:
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(
        '[{"id": "a", "question": "x"}, {"id": "b", "question": "y"}, {"id": "c", "ques'
    )
    assert [one.id for one in rewrite(source, target, {"b"})] == ["b"]
    assert json.loads(target.read_text()) == [{"id": "b", "question": "y"}]


def test_conversations_are_units(tmp_path: Path) -> None:
    def say(*texts: str) -> list[dict[str, str]]:
        return [
            {"from": "gpt" if n % 2 else "human", "value": text} for n, text in enumerate(texts)
        ]

    rows = [
        {"id": "a", "conversations": say("q1", "a1", "q2", "a2")},
        {"id": "x", "conversations": []},
        {"id": "b", "conversations": say("q3", "a3")},
    ]
    source = tmp_path / "a.json"
    source.write_text(json.dumps(rows))
    assert find_writer("llava").units(source) == {1: 1, 2: 1, 3: 3}
    assert [one.id for one in rewrite(source, tmp_path / "b.json", {"a_1", "a_2"})] == [
        "a_1",
        "a_2",
    ]
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [one.id for one in rewrite(lines, tmp_path / "b.jsonl", {"b"})] == ["b"]


def test_pathvqa_entries_are_units(tmp_path: Path) -> None:
    def entry(image: str, count: int) -> dict[str, object]:
        return {
            "img_id": image,
            "sentf": {"pvqa": [f"q{n}" for n in range(count)]},
            "labelf": {"pvqa": [{"yes": 1} for _ in range(count)]},
        }

    source = tmp_path / "a.json"
    broken = {**entry("bad", 2), "labelf": {"pvqa": [{"yes": 1}]}}
    source.write_text(json.dumps([entry("i1", 2), broken, {"img_id": "z"}, entry("i2", 1)]))
    assert find_writer("pathvqa").units(source) == {1: 1, 2: 1, 3: 4}
    assert [one.id for one in rewrite(source, tmp_path / "b.json", {"i2_0"})] == ["i2_0"]


def test_coco_keeps_images_of_kept_captions_and_nothing_else_changes(tmp_path: Path) -> None:
    whole = {
        "info": {"year": 2017},
        "licenses": [{"id": 1}],
        "images": [{"id": n, "file_name": f"{n}.jpg", "license": 1} for n in range(4)],
        "annotations": [
            {"id": 10, "image_id": 0, "caption": "a"},
            {"id": 11, "image_id": 0, "caption": "b"},
            {"id": 12, "image_id": 9, "caption": "nobody's"},
            {"id": 13, "image_id": 1, "caption": "c"},
            {"id": 14, "image_id": 2, "caption": "d"},
        ],
    }
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(json.dumps(whole, indent=2))
    back = rewrite(source, target, {"11", "13", "image_3"})
    assert [one.id for one in back] == ["11", "13", "image_3"]
    written = json.loads(target.read_text())
    assert [image["id"] for image in written["images"]] == [0, 1, 3]  # 2 has lost its caption
    assert (written["info"], written["licenses"]) == (whole["info"], whole["licenses"])


def test_parquet_keeps_schema_metadata_and_compression(tmp_path: Path, picture: Picture) -> None:
    label = {"_type": "ClassLabel", "names": ["cat", "dog"]}
    features = {"info": {"features": {"image": {"_type": "Image"}, "label": label}}}
    table = pa.table(
        {
            "image": [{"bytes": picture(n), "path": f"{n}.png"} for n in range(7)],
            "question": [f"q{n}" for n in range(7)],
            "label": pa.array([n % 2 for n in range(7)], pa.int64()),
        }
    ).replace_schema_metadata({"huggingface": json.dumps(features)})
    source, target = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table, source, row_group_size=3, compression="zstd")
    back = rewrite(source, target, {"2", "3", "7"})  # rows are ids here
    assert [one.question for one in back] == ["q1", "q2", "q6"]
    assert [one.answer for one in back] == ["dog", "cat", "cat"]
    written = pq.ParquetFile(target)
    assert written.schema_arrow.equals(table.schema, check_metadata=True)
    assert written.metadata.row_group(0).column(0).compression == "ZSTD"
    assert written.num_row_groups == 2  # the middle group has no row left
    assert [one.images[0].read() for one in back] == [picture(1), picture(2), picture(6)]
    first = target.read_bytes()
    rewrite(source, target, {"2", "3", "7"})
    assert target.read_bytes() == first


def test_saved_datasets_open_again(tmp_path: Path, picture: Picture) -> None:
    datasets = pytest.importorskip("datasets")
    images = [{"bytes": picture(n), "path": None} for n in range(5)]
    rows = {"question": [f"q{n}" for n in range(5)], "image": images}
    features = datasets.Features({"question": datasets.Value("string"), "image": datasets.Image()})
    datasets.Dataset.from_dict(rows, features).save_to_disk(str(tmp_path / "a"))
    back = rewrite(tmp_path / "a", tmp_path / "b", {"2", "5"})
    assert [one.question for one in back] == ["q1", "q4"]
    loaded = datasets.load_from_disk(str(tmp_path / "b"))
    assert loaded["question"] == ["q1", "q4"]
    assert loaded.features == features
    assert loaded[1]["image"].size == (24, 16)


def test_delimited_records_stay_bytes(tmp_path: Path) -> None:
    header = b"\xef\xbb\xbfindex;question;answer\r\n"
    records = [
        b'1;"two\r\nlines; here";A\r\n',
        b"2;caf\xe9;B\r\n",
        b"\r\n",
        b"3;too;many;fields\r\n",
        b"4;last;C",
    ]
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_bytes(header + b"".join(records))
    rewrite(source, target, {"1", "2", "4"})
    assert target.read_bytes() == header + records[0] + records[1] + records[4] + b"\n"


def test_an_image_whose_row_is_removed_moves_to_the_rows_that_share_it(
    tmp_path: Path, picture: Picture
) -> None:
    first, second = (base64.b64encode(picture(n)).decode() for n in (1, 2))
    source, target = tmp_path / "a.tsv", tmp_path / "b.tsv"
    rows = [
        ("5", first, "q0"),
        ("6", "5", 'q1 "quoted"'),
        ("7", "5", "q2"),
        ("8", second, "q3"),
        ("9", "8", "q4"),
    ]
    source.write_text("index\timage\tquestion\n" + "".join("\t".join(row) + "\n" for row in rows))
    before = {one.id: one.images[0].read() for one in read_benchmark(source)}
    back = rewrite(source, target, {"6", "7", "8", "9"})
    assert {one.id: one.images[0].read() for one in back} == {
        k: v for k, v in before.items() if k != "5"
    }
    assert [one.question for one in back] == ['q1 "quoted"', "q2", "q3", "q4"]
    lines = target.read_text().splitlines()
    assert lines[2] == "7\t6\tq2"  # row 6 has the image now
    assert lines[3:] == ["\t".join(row) for row in rows[3:]]  # untouched


def test_vqa_med_lines_stay_bytes(tmp_path: Path) -> None:
    lines = [b"a|what|ct\r\n", b"b|who|caf\xc3\xa9\n", b"c|why|\xff?\n", b"d|how|x"]
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_bytes(b"".join(lines))
    rewrite(source, target, {"2", "3", "4"})
    assert target.read_bytes() == b"".join(lines[1:]) + b"\n"


def test_image_folders_keep_places_and_captions(tmp_path: Path, picture: Picture) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    for name in ("cat/1.png", "cat/2.png", "dog/deep/1.png"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(picture(len(name)))
    (source / "cat/2.txt").write_text("a cat")
    (source / "cat/link.png").symlink_to(tmp_path / "elsewhere.png")
    (tmp_path / "elsewhere.png").write_bytes(picture(9))
    back = rewrite(source, target, {"cat/2.png", "cat/link.png", "dog/deep/1.png"})
    assert [(one.id, one.answer) for one in back] == [
        ("cat/2.png", "cat"),
        ("dog/deep/1.png", "dog"),
    ]
    assert (target / "cat/2.txt").read_text() == "a cat"
    assert not (target / "cat/link.png").exists()  # what the reader refuses is not copied in


def test_rows_of_two_files_join_only_if_they_have_the_same_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,question\n1,x\n")
    (tmp_path / "b.csv").write_text("id,answer\n2,y\n")
    parts = [FilePart(tmp_path / name, frozenset({1})) for name in ("a.csv", "b.csv")]
    with pytest.raises(InputError, match="other columns"):
        find_writer("delimited").write(parts, tmp_path / "c.csv")
    for name, column in (("a", "question"), ("b", "answer")):
        pq.write_table(pa.table({"id": ["1"], column: ["x"]}), tmp_path / f"{name}.parquet")
    parts = [FilePart(tmp_path / name, frozenset({1})) for name in ("a.parquet", "b.parquet")]
    with pytest.raises(InputError, match="other columns"):
        find_writer("parquet").write(parts, tmp_path / "c.parquet")
