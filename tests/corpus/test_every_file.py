"""A folder is all of its files: whatever lies beside a file, its items are read, or its kind is named."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heldout
from heldout.corpus import CorpusItem, files_without, open_corpus
from heldout.corpus.files import FilesCorpus
from heldout.store import Dropped

Row = dict[str, Any]
QUESTIONS = (
    "Which lantern did the keeper of the northern lighthouse carry up the stairs",
    "How many barrels of salted herring were left in the cellar of the mill",
    "Why had the clockmaker hidden the silver wheel below the bakery floor",
)
OTHERS = (
    "What does the gardener plant beside the stone wall in early spring",
    "Who repaired the bridge after the flood had taken its middle arch",
)


def rows_of(questions: Sequence[str]) -> list[Row]:
    return [{"question": f"{text}?", "answer": f"reason {k}"} for k, text in enumerate(questions)]


def _lines(rows: Sequence[Row]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _json(rows: Sequence[Row]) -> bytes:
    return json.dumps(list(rows)).encode()


def _chat(rows: Sequence[Row]) -> bytes:
    turns = [
        {
            "messages": [
                {"role": "user", "content": row["question"]},
                {"role": "assistant", "content": row["answer"]},
            ]
        }
        for row in rows
    ]
    return json.dumps(turns).encode()


def _delimited(mark: str) -> Callable[[Sequence[Row]], bytes]:
    def write(rows: Sequence[Row]) -> bytes:
        lines = ["question" + mark + "answer", *(r["question"] + mark + r["answer"] for r in rows)]
        return "\n".join(lines).encode() + b"\n"

    return write


def _parquet(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def _arrow(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    table = pa.Table.from_pylist(list(rows))
    with pa.ipc.new_stream(buffer, table.schema) as out:
        out.write_table(table)
    return buffer.getvalue()


def _tar(mode: str, name: str, write: Callable[[Sequence[Row]], bytes]) -> Any:
    def packed(rows: Sequence[Row]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
            member = tarfile.TarInfo(name)
            data = write(rows)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        return buffer.getvalue()

    return packed


def _samples(rows: Sequence[Row]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number, row in enumerate(rows):
            data = json.dumps(row).encode()
            member = tarfile.TarInfo(f"{number:05d}.json")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _zip(name: str, write: Callable[[Sequence[Row]], bytes]) -> Callable[[Sequence[Row]], bytes]:
    def packed(rows: Sequence[Row]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, write(rows))
        return buffer.getvalue()

    return packed


def _html(rows: Sequence[Row]) -> bytes:
    shown = "".join(f"<p>{r['question']}</p><ul><li><b>{r['answer']}</b></li></ul>" for r in rows)
    return f"<!doctype html><html><head><style>p {{}}</style></head><body>{shown}</body></html>".encode()


def _page(rows: Sequence[Row]) -> bytes:
    return "\n\n".join(f"{row['question']}\n{row['answer']}" for row in rows).encode()


def _spreadsheet(rows: Sequence[Row]) -> bytes:
    """The words of an .xlsx, as every program that writes one keeps them."""
    texts = "".join(f"<si><t>{row[key]}</t></si>" for row in rows for key in ("question", "answer"))
    return _zip(
        "xl/sharedStrings.xml", lambda _: f'<?xml version="1.0"?><sst>{texts}</sst>'.encode()
    )(rows)


FORMATS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    "rows.jsonl": _lines,
    "rows.jsonl.gz": lambda rows: gzip.compress(_lines(rows)),
    "rows.json": _json,
    "chat.json": _chat,
    "rows.csv": _delimited(","),
    "rows.csv.bz2": lambda rows: bz2.compress(_delimited(",")(rows)),
    "rows.tsv": _delimited("\t"),
    "rows.parquet": _parquet,
    "rows.arrow": _arrow,
    "rows.xlsx": _spreadsheet,
    "samples.tar": _samples,
    "table.tar": _tar("w", "data/rows.csv", _delimited(",")),
    "page.tar.gz": _tar("w:gz", "data/page.html", _html),
    "rows.zip": _zip("data/rows.parquet", _parquet),
    "page.html": _html,
    "page.xml": lambda rows: b'<?xml version="1.0"?>' + _html(rows),
    "page.md": _page,
    "page.txt": _page,
    "page": _page,
}


def read_all(folder: Path) -> tuple[list[CorpusItem], list[Dropped]]:
    corpus = open_corpus(folder)
    found = [item for shard in corpus.shards() for item in corpus.read(shard)]
    items = [item for item in found if isinstance(item, CorpusItem)]
    return items, [item for item in found if isinstance(item, Dropped)]


def words(items: Sequence[CorpusItem]) -> str:
    return "\n".join(f"{item.question} {item.text} {item.metadata}" for item in items)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read_beside_every_other(name: str, tmp_path: Path) -> None:
    for place, other in enumerate(FORMATS):
        folder = tmp_path / str(place)
        folder.mkdir()
        (folder / f"a-{name}").write_bytes(FORMATS[name](rows_of(QUESTIONS)))
        (folder / f"b-{other}").write_bytes(FORMATS[other](rows_of(OTHERS)))
        items, dropped = read_all(folder)
        assert not [one for one in dropped if one.scope == "many"], (name, other)
        for text in (*QUESTIONS, *OTHERS):
            assert text in words(items), (name, other)


@pytest.mark.parametrize("name", FORMATS)
def test_a_gate_fires_whatever_a_leak_is_written_in(name: str, tmp_path: Path) -> None:
    bench = tmp_path / "bench.jsonl"
    bench.write_bytes(_lines(rows_of(QUESTIONS)))
    train = tmp_path / "train"
    train.mkdir()
    (train / f"a-{name}").write_bytes(FORMATS[name](rows_of(QUESTIONS)))
    (train / "b.jsonl").write_bytes(_lines(rows_of(OTHERS)))
    options = {"encoder": "none", "text_encoder": "none", "workers": 1, "quiet": True}
    result = heldout.overlap(bench, train, tmp_path / "run", **options)
    gate = heldout.gate(result.run, tmp_path / "gate", clean=True)
    assert not gate.passed
    assert gate.protected[0].leaked == len(QUESTIONS)
    (cleaned,) = gate.cleaned
    assert cleaned.path is not None, cleaned.reason
    items, _ = read_all(cleaned.path)
    assert all(text not in words(items) for text in QUESTIONS)
    assert all(text in words(items) for text in OTHERS)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("paper.pdf", b"%PDF-1.7\n\x00\x01\x02", ".pdf"),
        ("weights.npz.bin", b"\x00\x01\x02\x03", ".bin"),
        ("core", b"\x7fELF\x00", "no ending"),
        ("rows.parquet", b"PAR1 cut short", ".parquet"),
        ("part.tar", b"\x00" * 100, ".tar"),
        ("part.zip", b"PK\x03\x04 cut", ".zip"),
    ],
)
def test_a_gate_does_not_pass_over_what_nobody_read(
    name: str, content: bytes, kind: str, tmp_path: Path
) -> None:
    bench = tmp_path / "bench.jsonl"
    bench.write_bytes(_lines(rows_of(QUESTIONS)))
    train = tmp_path / "train"
    train.mkdir()
    (train / name).write_bytes(content)
    (train / "b.jsonl").write_bytes(_lines(rows_of(OTHERS)))
    options: Row = {"encoder": "none", "text_encoder": "none", "workers": 1, "quiet": True}
    result = heldout.overlap(bench, train, tmp_path / "run", **options)
    assert "clean" not in result.claims["status"]
    gate = heldout.gate(result.run, tmp_path / "gate")
    assert not gate.passed
    assert f"1 {kind}" in gate.sentence() and f"allow_unread '{kind}'".replace("'", "") in (
        gate.sentence().replace("'", "")
    )
    assert heldout.gate(result.run, tmp_path / "allowed", allow_unread=(kind,)).passed


def test_pages_and_pictures_are_all_in_the_cleaned_set(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    train = tmp_path / "train"
    train.mkdir()
    for number in range(6):
        (train / f"{number}.html").write_bytes(_html(rows_of([OTHERS[number % 2]])))
        (train / f"{number}.png").write_bytes(picture(number))
        (train / f"{number}.txt").write_text(f"caption {number}")
    corpus = open_corpus(train)
    assert isinstance(corpus, FilesCorpus)
    written = files_without(corpus, ["2.png", "3.html"], tmp_path / "clean")
    assert (written.kept, written.removed, written.missing) == (10, 2, ())
    left = {path.name for path in (tmp_path / "clean").iterdir()}
    assert left == {path.name for path in train.iterdir()} - {"2.png", "2.txt", "3.html"}


def test_a_picture_that_a_row_names_is_read_once_with_it(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / f"images/{number}.png").write_bytes(picture(number))
    rows = [{"image": f"images/{n}.png", **row} for n, row in enumerate(rows_of(QUESTIONS[:2]))]
    (tmp_path / "rows.jsonl").write_bytes(_lines(rows))
    items, _ = read_all(tmp_path)
    shown = [(item.id, item.image.read() if item.image else None) for item in items]
    assert shown == [
        ("images/2.png", picture(2)),
        ("rows.jsonl/1", picture(0)),
        ("rows.jsonl/2", picture(1)),
    ]
    # A picture goes with the last row that names it.
    corpus = open_corpus(tmp_path)
    assert isinstance(corpus, FilesCorpus)
    files_without(corpus, ["rows.jsonl/1"], tmp_path / "clean")
    left = {path.name for path in (tmp_path / "clean/images").iterdir()}
    assert left == {"1.png", "2.png"}


def test_a_page_is_read_as_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        "<!doctype html><script>var x = 'unseen';</script><h2>Which <i>or</i>gan?</h2><ol type=A start=2>"
        "<li>liver<li>a &amp; b</ol><img alt='a lung'><script type='application/json'>{\"q\": \"Why?\"}</script>"
    )
    ((item,), _) = read_all(tmp_path)
    lines = [line for line in (item.text or "").splitlines() if line.strip()]
    assert lines == ["Which organ?", "B. liver", "C. a & b", "a lung", '{"q": "Why?"}']


def _chat_rows(rows: Sequence[Row]) -> bytes:
    return "".join(
        json.dumps({"prompt": r["question"], "completion": r["answer"]}) + "\n" for r in rows
    ).encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.txt", f"{QUESTIONS[0]}?".encode()),  # beside a picture that a table names, too
        (
            "p.json",
            _chat_rows(rows_of(QUESTIONS[:1] + OTHERS)),
        ),  # JSON Lines, called like a picture
        ("rows.json.gz", gzip.compress(_json(rows_of(QUESTIONS[:1])))),
        ("patients.csv", f"BMI,question,answer\n20,{QUESTIONS[0]}?,a\n".encode()),  # no bitmap
        ("item.json", json.dumps({"question": f"{QUESTIONS[0]}?", "note": "\u2019"}).encode()),
        ("nested.json", json.dumps([[f"{QUESTIONS[0]}?"], "\u2019"]).encode()),
        ("rows.jsonlines", _lines(rows_of(QUESTIONS[:1] + OTHERS))),
        ("wide.jsonl", _lines(rows_of(QUESTIONS[:1])).decode().encode("utf-16")),
        ("notes.ipynb", json.dumps({"cells": [{"source": [f"{QUESTIONS[0]}?"]}]}).encode()),
    ],
)
def test_what_lies_in_unusual_places_is_read(
    name: str, content: bytes, tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    (tmp_path / "p.png").write_bytes(picture(1))
    (tmp_path / "metadata.csv").write_text("file_name,text\np.png,a small picture\n")
    (tmp_path / name).write_bytes(content)
    items, dropped = read_all(tmp_path)
    assert QUESTIONS[0] in words(items), dropped
    assert dropped == []


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("book.pdf", b"%PDF-1.4\n" + b"Gau`T" * 12 + b"\n" + (b"9lJKN2" * 12 + b"\n") * 90, ".pdf"),
        ("mail.eml", b"To: a\n\n" + (b"QUJD" * 18 + b"\n") * 90, ".eml"),
        ("rows.jsonl", b'["no", "object"]\n' * 5, ".jsonl"),
    ],
)
def test_what_is_coded_as_text_is_not_read(
    name: str, content: bytes, kind: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    _, dropped = read_all(tmp_path)
    assert kind in [one.kind for one in dropped if one.scope == "many"]


def test_a_cleaned_set_keeps_rows_that_nobody_can_read(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    train = tmp_path / "train"
    train.mkdir()
    leak, *rest = rows_of(QUESTIONS)
    (train / "a.json").write_text(json.dumps([leak, "no object", *rest]))
    (train / "b.csv").write_text(
        f"question,answer\n{leak['question']},a\ntoo,many,fields\nWhy?,b\n"
    )
    chat = {
        "conversations": [
            {"from": "human", "value": leak["question"]},
            {"from": "gpt", "value": "a"},
        ]
    }
    (train / "c.json").write_text(json.dumps([chat, *rest]))
    with zipfile.ZipFile(train / "d.zip", "w") as archive:
        archive.writestr("rows.jsonl", _lines([leak, *rest]))
    with zipfile.ZipFile(train / "e.zip", "w") as archive:
        archive.writestr("page.txt", leak["question"])
    (train / "f.jpg").write_bytes(picture(1))
    (train / "f.json").write_text(json.dumps(rest))
    corpus = open_corpus(train)
    assert isinstance(corpus, FilesCorpus)
    found = [item for shard in corpus.shards() for item in corpus.read(shard)]
    gone = {
        item.id for item in found if isinstance(item, CorpusItem) and QUESTIONS[0] in words([item])
    }
    written = files_without(corpus, [*gone, "f.jpg"], tmp_path / "clean")
    assert (len(gone), written.missing) == (5, ())
    clean = tmp_path / "clean"
    assert json.loads((clean / "a.json").read_text()) == ["no object", *rest]
    assert (clean / "b.csv").read_text() == "question,answer\ntoo,many,fields\nWhy?,b\n"
    assert json.loads((clean / "c.json").read_text()) == rest
    with zipfile.ZipFile(clean / "d.zip") as archive:
        assert archive.read("rows.jsonl") == _lines(rest)
    assert not (clean / "e.zip").exists()  # nothing was left in it
    assert json.loads((clean / "f.json").read_text()) == rest  # a table, not what tells of f.jpg
