"""UTF-8 and UTF-16, with a byte order mark and without: every text format reads and writes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers.base import TextLines, text_encoding
from heldout.benchmark.writers import find_writer
from heldout.benchmark.writers.base import FilePart

Picture = Callable[..., bytes]
MARKS = {"utf-8": b"\xef\xbb\xbf", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
ITEMS = [
    {"id": f"q{i}", "question": question, "answer": "Ċ žena 胸部 \U0001f9e0"}
    for i, question in enumerate(["What — is this?", "Größe, in cm?", 'Called "it"?'])
]


def encoded(text: str, encoding: str, mark: bool) -> bytes:
    return (MARKS[encoding] if mark else b"") + text.encode(encoding)


def table(delimiter: str) -> str:
    quoted = [
        delimiter.join('"' + value.replace('"', '""') + '"' for value in item.values())
        for item in ITEMS
    ]
    return "\n".join([delimiter.join(ITEMS[0]), *quoted]) + "\n"


TEXTS = {
    "t.json": json.dumps(ITEMS, ensure_ascii=False, indent=1),
    "object.json": json.dumps({"rows": ITEMS}, ensure_ascii=False),
    "t.jsonl": "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in ITEMS),
    "t.csv": table(","),
    "t.tsv": table("\t"),
    "t.txt": "".join(f"{i['id']}|{i['question']}|{i['answer']}\n" for i in ITEMS),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("mark", [True, False])
@pytest.mark.parametrize("encoding", MARKS)
def test_every_encoding_reads_alike(tmp_path: Path, name: str, encoding: str, mark: bool) -> None:
    (tmp_path / name).write_bytes(encoded(TEXTS[name], encoding, mark))
    benchmark = read_benchmark(tmp_path / name)
    assert [e.question for e in benchmark] == [item["question"] for item in ITEMS]
    assert [e.answer for e in benchmark] == [item["answer"] for item in ITEMS]
    assert not benchmark.dropped


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t.csv", "t.txt"])
def test_rows_taken_out_of_utf16_are_written_as_utf8(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(encoded(TEXTS[name], "utf-16-be", True))
    target = tmp_path / "out" / name
    benchmark = read_benchmark(tmp_path / name)
    find_writer(benchmark.reader).write([FilePart(tmp_path / name, frozenset({2}))], target)
    target.read_bytes().decode()
    assert [e.question for e in read_benchmark(target)] == [ITEMS[1]["question"]]


def test_pictures_in_a_wide_table_stay_in_the_file(tmp_path: Path, picture: Picture) -> None:
    """Found again by their bytes, also behind characters of four bytes and a broken half of one."""
    pictures = [base64.b64encode(picture(seed)).decode() for seed in range(3)]
    lines = [f"{i}\t\U0001f9e0 {i}?\t{data}" for i, data in enumerate(pictures)]
    text = "\n".join(["index\tquestion\timage", *lines]) + "\n"
    data = text.encode("utf-16-le").replace("\U0001f9e0 1".encode("utf-16-le"), b"\x3e\xd8 \x001\0")
    (tmp_path / "t.tsv").write_bytes(b"\xff\xfe" + data)
    benchmark = read_benchmark(tmp_path / "t.tsv")
    assert [benchmark.examples[i].images[0].read() for i in (0, 2)] == [picture(0), picture(2)]
    assert [e.question for e in benchmark] == ["\U0001f9e0 0?", "\ufffd 1?", "\U0001f9e0 2?"]


def test_offsets_are_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"\xff\xfe" + "aĊ\n\U0001f9e0b\nc".encode("utf-16-le"))
    with TextLines(path) as lines:
        places = [lines.offset]
        while lines.readline():
            places.append(lines.offset)
        assert places == [2, 8, 16, 18]
        lines.seek(8)
        assert lines.readline() == "\U0001f9e0b\n".encode()


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"PAR1", ("utf-8", 0)),
        (b"\xff\xd8\xff\xe0", ("utf-8", 0)),
        (b"[\0\n\0", ("utf-16-le", 0)),
        (b'\0{\0"', ("utf-16-be", 0)),
        (b"\0\0\0\x1c", ("utf-8", 0)),
        (b"", ("utf-8", 0)),
    ],
)
def test_only_text_is_taken_for_utf16(start: bytes, expected: tuple[str, int]) -> None:
    assert text_encoding(start) == expected
