"""Corpora of words: JSON Lines and plain text, cut, packed, damaged and in every encoding."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.corpus import Corpus, CorpusItem, open_corpus
from heldout.corpus.files import FilesCorpus
from heldout.corpus.parts import PAGE
from heldout.store import Dropped


def read_all(corpus: Corpus) -> list[CorpusItem | Dropped]:
    corpus = pickle.loads(pickle.dumps(corpus))
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def items(corpus: Corpus) -> list[CorpusItem]:
    return [item for item in read_all(corpus) if isinstance(item, CorpusItem)]


def dropped(corpus: Corpus) -> list[tuple[str, str, str]]:
    found = [item for item in read_all(corpus) if isinstance(item, Dropped)]
    return [(one.id, one.reason, one.scope) for one in found]


def lines(*rows: Any) -> bytes:
    return b"".join(
        (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
    )


def test_a_folder_of_json_lines_plain_and_packed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_bytes(lines({"text": "one"}, {"text": "two"}))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines({"id": "q7", "question": "Q?"})))
    (tmp_path / "sub/c.json.bz2").write_bytes(bz2.compress(lines({"text": "four"})))
    stream = pa.CompressedOutputStream(pa.OSFile(str(tmp_path / "sub/d.jsonl.zst"), "wb"), "zstd")
    with stream:
        stream.write(lines({"text": "five"}, {"text": "six"}))
    (tmp_path / "README").write_text("about")
    corpus = open_corpus(tmp_path)
    assert corpus.reader == "files"
    assert {item.id: item.text for item in items(corpus)} == {
        "a.jsonl/1": "one",
        "a.jsonl/2": "two",
        "b.jsonl.gz/q7": "Q?",
        "sub/c.json.bz2/1": "four",
        "sub/d.jsonl.zst/1": "five",
        "sub/d.jsonl.zst/2": "six",
        "README": "about",
    }
    assert dropped(corpus) == []


def test_a_folder_of_plain_text_in_every_encoding(tmp_path: Path) -> None:
    words = {"a.txt": "naïve 血管", "b.md": "# Title", "c.html": "<p>Hel<b>lo</b></p>"}
    for name, text in words.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "old.txt").write_bytes("café “quoted”".encode("cp1252"))
    (tmp_path / "wide.txt").write_bytes("שלום".encode("utf-16"))
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress("packed".encode("utf-8-sig")))
    (tmp_path / "blank.txt").write_text(" \n\n")
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0\0\1")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4 \x01\x02")
    corpus = open_corpus(tmp_path)
    assert corpus.reader == "files"
    assert {item.id: item.text for item in items(corpus)} == {
        **words,
        "c.html": "Hello",
        "old.txt": "café “quoted”",
        "wide.txt": "שלום",
        "packed.txt.gz": "packed",
    }
    assert dropped(corpus) == [
        ("binary.txt", "no reader takes it", "many"),
        ("blank.txt", "empty file", "words"),
        ("paper.pdf", "no reader takes it", "many"),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("z.tsv", "question\tanswer\nHow many?\t3\n"),
        ("z.txt", "img1|What is it?|a cat\nimg2|What is that?|a dog\n"),
        ("z.json", '[{"question": "How many?", "answer": "3"}]'),
    ],
)
def test_a_table_and_texts_are_both_read(tmp_path: Path, name: str, content: str) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"Page {number} about this and that.")
    (tmp_path / name).write_text(content)
    corpus = open_corpus(tmp_path)
    texts = [item.id for item in items(corpus)]
    assert texts[:4] == [f"{number}.txt" for number in range(4)]
    assert len(texts) > 4 and all(text.startswith(f"{name}/") for text in texts[4:])
    assert dropped(corpus) == []


def test_a_book_is_cut_into_pages_at_its_paragraphs(tmp_path: Path) -> None:
    chapters = [f"Chapter {k}: " + "word " * 4000 for k in range(40)]
    (tmp_path / "book.txt").write_text("\n\n".join(chapters))
    found = items(open_corpus(tmp_path / "book.txt"))
    assert [item.id for item in found] == ["book.txt", *(f"book.txt/part {k}" for k in (2, 3, 4))]
    assert all(len(item.text or "") <= PAGE for item in found)
    assert all((item.text or "").startswith("Chapter") for item in found)
    assert " ".join(item.text or "" for item in found).split() == " ".join(chapters).split()
    (tmp_path / "endless.txt").write_text("血" * (2 * PAGE + 5))
    endless = items(open_corpus(tmp_path / "endless.txt"))
    assert [len(item.text or "") for item in endless] == [PAGE, PAGE, 5]


def test_lines_that_are_no_rows_are_dropped_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(
        lines(b"this is no JSON", {"text": "one"}, b"[1, 2]", b"", b"\xff\xfe", b'{"cut": "of')
    )
    corpus = open_corpus(tmp_path)  # even though the first line says nothing
    assert [item.id for item in items(corpus)] == ["c.jsonl/2"]
    assert dropped(corpus) == [
        ("c.jsonl line 1", "not JSON", "item"),
        ("c.jsonl line 3", "not an object", "item"),
        ("c.jsonl line 5", "not UTF-8", "item"),
        ("c.jsonl line 6", "not JSON", "item"),
    ]


def test_a_line_without_end_is_skipped_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heldout.benchmark.readers.json_rows.MAX_LINE", 1000)
    huge = {"text": "x" * 3500}
    (tmp_path / "c.jsonl").write_bytes(lines({"text": "one"}, huge, {"text": "three"}))
    corpus = open_corpus(tmp_path / "c.jsonl")
    assert [item.id for item in items(corpus)] == ["1", "3"]
    assert dropped(corpus) == [("c.jsonl line 2", "line too long", "item")]


@pytest.mark.parametrize(
    ("name", "reason"), [("c.jsonl.gz", "unreadable file"), ("c.txt.gz", "cut short")]
)
def test_a_cut_archive_keeps_what_is_whole_and_says_so(
    tmp_path: Path, name: str, reason: str
) -> None:
    rows = [{"text": f"{k} {os.urandom(500).hex()}"} for k in range(2000)]
    packed = gzip.compress(lines(*rows))
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    corpus = open_corpus(tmp_path / name)
    assert len(items(corpus)) > (500 if "jsonl" in name else 1)
    assert dropped(corpus)[-1] == (name, reason, "many")


def test_a_large_file_is_read_in_spans_that_lose_no_line(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    rows = [{"text": f"line {k} " + "é" * 5000} for k in range(800)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    whole = items(open_corpus(path))
    cut = FilesCorpus(str(path), "big", str(path), line_bytes=2 << 20)
    assert len(list(cut.shards())) == 4
    assert [(item.id, item.text) for item in items(cut)] == [
        (str(k + 1), row["text"]) for k, row in enumerate(rows)
    ]
    assert items(cut) == whole


def test_only_the_end_of_a_file_that_grew_is_another_shard(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    path.write_text("".join(json.dumps({"text": f"{k} " + "x" * 5000}) + "\n" for k in range(800)))
    corpus = FilesCorpus(str(path), "big", str(path), line_bytes=1 << 20)
    before = [shard.key for shard in corpus.shards()]
    with path.open("a") as file:
        file.write(json.dumps({"text": "new"}) + "\n")
    after = [shard.key for shard in corpus.shards()]
    assert len(before) == len(after) == 2
    assert before[:-1] == after[:-1]
    assert before[-1] != after[-1]


def test_small_files_share_a_shard_and_shards_depend_on_the_data_alone(tmp_path: Path) -> None:
    for k in range(10):
        (tmp_path / f"{k}.txt").write_text(f"page {k}")
    corpus = FilesCorpus(str(tmp_path), "c", str(tmp_path), files_per_shard=4)
    shards = list(corpus.shards())
    assert [len(shard.payload) for shard in shards] == [4, 4, 2]
    assert [shard.key for shard in corpus.shards()] == [shard.key for shard in shards]
    (tmp_path / "5.txt").write_text("another page")
    changed = [one.key != two.key for one, two in zip(corpus.shards(), shards, strict=True)]
    assert changed == [False, True, False]


def test_what_the_columns_of_words_are_called(tmp_path: Path) -> None:
    rows = [
        {"instruction": "Name it.", "output": "A cat."},
        {"content": "Plain words."},
        {"sentence": "Nobody knows this column.", "score": 3},
        {"question": "Which?", "choices": ["CT", "MR"], "answer": "B"},
        {"messages": [{"role": "user", "content": "Hi?"}, {"role": "assistant", "content": "Yo"}]},
        {"question": "\ud800 broken", "answer": "x"},
    ]
    (tmp_path / "c.jsonl").write_bytes(lines(*rows))
    corpus = open_corpus(tmp_path / "c.jsonl")
    assert corpus.reader == "files"
    found = items(corpus)
    assert [(item.question, item.answer) for item in found] == [
        ("Name it.", "A cat."),
        (None, None),
        (None, None),
        ("Which?", "MR"),
        ("Hi?", "Yo"),
        ("? broken", "x"),
    ]
    # What nobody knows is metadata, of which the search reads the words.
    assert [item.text for item in found[1:3]] == ["Plain words.", None]
    assert "Nobody knows this column." in found[2].metadata.values()
    assert found[3].metadata["options"] == ["CT", "MR"]


def test_parquet_of_words_alone(tmp_path: Path) -> None:
    table = pa.table({"text": ["one", None, "three"], "source": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "c.parquet")
    corpus = open_corpus(tmp_path)
    assert [(item.id, item.text, item.image) for item in items(corpus)] == [
        ("c.parquet/1", "one", None),
        ("c.parquet/2", None, None),
        ("c.parquet/3", "three", None),
    ]


def test_a_folder_of_splits_is_all_of_them_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    for name in ("train", "test"):
        row = {"id": name, "question": "?", "answer": "!"}
        (tmp_path / f"{name}.jsonl").write_bytes(lines(row))
    assert [item.id for item in items(open_corpus(tmp_path))] == [
        "test.jsonl/test",
        "train.jsonl/train",
    ]
    assert [item.id for item in items(open_corpus(f"{tmp_path}#split=train"))] == ["train"]


def test_the_words_beside_a_picture_without_an_ending_are_its_words(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    (tmp_path / "a").write_bytes(picture(1))
    (tmp_path / "a.txt").write_text("a caption")
    (item,) = items(open_corpus(tmp_path))
    assert (item.id, item.text) == ("a", "a caption")


def test_a_packed_table_with_images_has_them(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    (tmp_path / "a.png").write_bytes(picture(1))
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(lines({"image": "a.png", "question": "?", "answer": "!"})))
    (item,) = items(open_corpus(path))
    assert item.image is not None
    assert item.image.read() == picture(1)


def test_pipes_links_and_locked_files_are_named_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    os.mkfifo(tmp_path / "b.txt")
    (tmp_path / "c.txt").symlink_to(tmp_path / "gone.txt")
    (tmp_path / ".hidden").mkdir()
    corpus = open_corpus(tmp_path)
    assert [item.id for item in items(corpus)] == ["a.txt"]
    assert dropped(corpus) == [
        (".hidden", "hidden folder", "many"),
        ("b.txt", "not a regular file", "many"),
        ("c.txt", "unreadable file", "item"),
    ]
