"""CSV and TSV: quotes over lines, base64 left in the file, shared images, broken records."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers import delimited
from heldout.benchmark.readers.delimited import DelimitedReader, Record
from heldout.image import ImageRef, TextField
from heldout.store import Dropped

Picture = Callable[..., bytes]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write(path: Path, rows: list[list[str]], delimiter: str = "\t") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def test_vlmevalkit_tsv(tmp_path: Path, picture: Picture) -> None:
    big = picture(0, size=(400, 300))  # more base64 than the csv module takes by default
    assert len(encoded(big)) > 131072
    path = write(
        tmp_path / "MMBench_TEST.tsv",
        [
            ["index", "image", "question", "A", "B", "C", "D", "answer", "category"],
            ["7", encoded(big), 'What is\n"this"?', "CT", "MRI", "", "", "B", "x"],
            ["8", "7", "And this?", "yes", "no", "", "", "A", "y"],
            ["9", "10", "Later?", "yes", "no", "maybe", "", "C", "y"],
            ["10", encoded(picture(1)), "Own", "yes", "no", "", "", "A", "y"],
        ],
    )
    first, second, third, fourth = read_benchmark(path).examples
    assert (first.id, first.question, first.options) == ("7", 'What is\n"this"?', ("CT", "MRI"))
    assert (first.answer, first.answer_index) == ("MRI", 1)
    assert first.images[0].read() == big
    assert isinstance(first.images[0].location, TextField)
    assert second.images == first.images
    assert third.images == fourth.images
    assert third.images[0].read() == picture(1)
    assert third.answer == "maybe"


def test_list_of_images_in_one_field(tmp_path: Path, picture: Picture) -> None:
    both = str([encoded(picture(0)), encoded(picture(1))])
    path = write(tmp_path / "t.tsv", [["index", "image", "question"], ["1", both, "q"]])
    images = read_benchmark(path).examples[0].images
    assert [ref.read() for ref in images] == [picture(0), picture(1)]
    assert len({ref.name for ref in images}) == 2


def test_image_path_column_and_short_names_stay_names(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "12.png").write_bytes(picture(0))
    path = write(tmp_path / "t.csv", [["index", "image", "question"], ["1", "12.png", "q"]], ",")
    assert read_benchmark(path).examples[0].images[0].read() == picture(0)


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_delimiter_is_found_by_looking(tmp_path: Path, delimiter: str) -> None:
    path = write(
        tmp_path / "t.csv", [["id", "question", "answer"], ["1", "a,b;c\td", "x"]], delimiter
    )
    assert read_benchmark(path).examples[0].question == "a,b;c\td"


def test_unclosed_quote_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('id,question\n1,fine\n2,"never closed\n3,also fine\n4,last\n')
    read = list(DelimitedReader().rows(path))
    assert [r.values["id"] for r in read if not isinstance(r, Dropped)] == ["1", "3", "4"]
    (dropped,) = (r for r in read if isinstance(r, Dropped))
    assert (dropped.id, dropped.reason) == ("t.csv row 2", "unclosed quote")
    assert "line 3" in dropped.detail


def test_a_quote_that_closes_too_far_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD", 200)
    path = tmp_path / "t.csv"
    filler = "".join(f"{i},good\n" for i in range(60))
    path.write_text(f'id,question\nx,"open\n{filler}y,closed"\nz,{"long" * 100}\nlast,good\n')
    read = list(DelimitedReader().rows(path))
    assert [r.reason for r in read if isinstance(r, Dropped)] == [
        "unclosed quote",
        "record over 200 bytes",
    ]
    kept = [r.values["id"] for r in read if not isinstance(r, Dropped)]
    assert kept == [*(str(i) for i in range(60)), "y", "last"]


def test_wrong_field_counts_null_bytes_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"id,question,answer\n1,a,b\n\n2,a\n3,a,b,c\n4,a\0,b\n5,a,b\r\n")
    read = list(DelimitedReader().rows(path))
    assert [(r.id, r.reason) for r in read if isinstance(r, Dropped)] == [
        ("t.csv row 2", "too few fields"),
        ("t.csv row 3", "too many fields"),
        ("t.csv row 4", "null byte"),
    ]
    assert [r.number for r in read if not isinstance(r, Dropped)] == [1, 5]
    assert read[-1].values["answer"] == "b"  # type: ignore[union-attr]


def test_mixed_encodings_and_byte_order_mark(tmp_path: Path, picture: Picture) -> None:
    path = tmp_path / "t.csv"
    image = encoded(picture(0)).encode()
    path.write_bytes(
        b"\xef\xbb\xbfid,image,question\n1,,na\xc3\xafve\n2,"
        + image
        + b",na\xefve \x93x\x94\n3,,\x81\n"
    )
    first, second, third = read_benchmark(path).examples
    assert (first.id, first.question) == ("1", "naïve")
    assert second.question == "naïve “x”"
    assert second.images[0].location.encoding == "cp1252"  # type: ignore[attr-defined]
    assert second.images[0].read() == picture(0)
    assert third.question == "\x81"


def test_records_agree_with_the_csv_module(tmp_path: Path) -> None:
    texts = ['a,"b\nc",d', '"x""\n""y",z', 'p"q,r', '"s"t,"u', 'v",w', '"",""', '"\n",""""']
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(texts).encode() + b"\n")
    mine = [next(csv.reader(io.StringIO(r.text, newline=""))) for r in delimited.records(path, ",")]
    assert mine == list(csv.reader(io.StringIO(path.read_text(), newline="")))
    spans = list(delimited.records(path, ","))
    assert b"".join(record.data for record in spans) == path.read_bytes()
    assert [path.read_bytes()[r.offset :][: len(r.data)] for r in spans] == [r.data for r in spans]


def test_repeated_and_empty_column_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",question,question\n0,a,b\n")
    (row,) = DelimitedReader().rows(path)
    assert row.values == {"column 1": "0", "question": "a", "question#3": "b"}  # type: ignore[union-attr]


def test_a_question_of_ten_megabytes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.csv", [["id", "question"], ["1", "word " * 2_000_000], ["2", "b"]], ","
    )
    assert [len(e.question or "") for e in read_benchmark(path)] == [10_000_000, 1]


def test_rows_hold_references_and_not_images(tmp_path: Path, picture: Picture) -> None:
    rows = [["index", "image", "question"], *([str(i), encoded(picture(i)), "q"] for i in range(3))]
    path = write(tmp_path / "t.tsv", rows)
    for row in DelimitedReader().rows(path):
        assert isinstance(row.values["image"], ImageRef)  # type: ignore[union-attr]
        assert len(repr(row.values)) < 500  # type: ignore[union-attr]


def test_encoding_falls_back_record_by_record() -> None:
    assert [
        Record(data, 0, len(data), 1).encoding for data in (b"a", b"\xc3\xa9", b"\xe9", b"\x81")
    ] == [
        "utf-8",
        "utf-8",
        "cp1252",
        "latin-1",
    ]
