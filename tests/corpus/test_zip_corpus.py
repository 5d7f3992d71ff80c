"""Zips: the streamed directory, PMC captions, lying sizes, members that point elsewhere."""

from __future__ import annotations

import json
import pickle
import random
import struct
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.corpus import CorpusItem, open_corpus
from heldout.corpus.files import FilesCorpus
from heldout.corpus.zips import zip_entries, zip_spans
from heldout.image import ImageError
from heldout.store import Dropped


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path_factory.mktemp("cache")))


def read_all(corpus):
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def write_zip(path: Path, members, method=zipfile.ZIP_DEFLATED, mode="w") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, mode, method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_items_with_their_bytes(tmp_path, picture, method):
    members = [("d/", b""), ("d/a.png", picture(1)), ("bild-ü.png", picture(2)), ("x.txt", b"x")]
    path = write_zip(tmp_path / "i.zip", members, method)
    found = read_all(open_corpus(path))
    assert [item.id for item in found] == ["i.zip/d/a.png", "i.zip/bild-ü.png", "i.zip/x.txt"]
    assert [item.image.read() for item in found[:2]] == [picture(1), picture(2)]


def test_spans_and_entries_are_those_of_the_standard_library(tmp_path, monkeypatch):
    members = [(f"{k:05d}" + "n" * (k % 300) + ".png", bytes(k % 50)) for k in range(3000)]
    path = write_zip(tmp_path / "i.zip", members)
    with path.open("r+b") as file:  # something in front, as in a self-extracting archive
        data = file.read()
        file.seek(0)
        file.write(b"#!/bin/sh\n" * 100 + data)
    spans = list(zip_spans(path, 700))
    counts = [span.count for span in spans]
    assert sum(counts) == 3000 and max(counts) <= 700 and len(counts) > 4
    mine = [
        (e.name, e.crc, e.size, e.compressed, e.header) for s in spans for e in zip_entries(path, s)
    ]
    with zipfile.ZipFile(path) as archive:
        theirs = [
            (i.filename, i.CRC, i.file_size, i.compress_size, i.header_offset)
            for i in archive.infolist()
        ]
    assert mine == theirs


def test_zip64_archives_are_read(tmp_path, picture, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    path = write_zip(tmp_path / "i.zip", [(f"{k}.png", picture(k)) for k in range(5)])
    assert b"PK\6\6" in path.read_bytes()
    found = read_all(open_corpus(path))
    assert [item.image.read() for item in found] == [picture(k) for k in range(5)]


def test_a_shard_read_alone_in_another_process_is_its_part_of_the_whole(tmp_path, picture):
    path = write_zip(tmp_path / "i.zip", [(f"{k}.png", picture(k)) for k in range(10)])
    corpus = FilesCorpus(str(path), "i", "i", files_per_shard=4)
    shards = list(corpus.shards())
    again, last = pickle.loads(pickle.dumps((corpus, shards[2])))
    assert [item.id for item in again.read(last)] == ["i.zip/8.png", "i.zip/9.png"]
    assert [item.id for item in read_all(corpus)] == [f"i.zip/{k}.png" for k in range(10)]


def test_pmc_captions_are_joined_by_name(tmp_path, picture):
    names = ["sub/PMC212319_Fig3_4.jpg", "PMC7_Fig1.jpg", "other.jpg"]
    write_zip(tmp_path / "images.zip", [(name, picture(1, format="JPEG")) for name in names])
    lines = [
        {"image": "PMC212319_Fig3_4.jpg", "caption": "A tumour."},
        {"image": "PMC212319_Fig3_4.jpg", "caption": "Another view."},
        {"image": "images/other.jpg", "caption": "Else.", "license": "CC0"},
    ]
    text = "\n".join(json.dumps(line) for line in lines) + "\n{broken\n"
    (tmp_path / "pmc_oa.jsonl").write_text(text)
    corpus = open_corpus(tmp_path / "images.zip")
    lost, first, second, third = read_all(corpus)
    assert lost.reason == "not JSON"
    assert first.text == "A tumour.\nAnother view."
    assert first.metadata == {"pmcid": "PMC212319"}
    assert (second.text, second.metadata) == (None, {"pmcid": "PMC7"})
    assert (third.text, third.metadata["license"]) == ("Else.", "CC0")


def test_changed_captions_are_a_new_input(tmp_path, picture):
    write_zip(tmp_path / "images.zip", [("a.png", picture(1))])
    key = None
    for caption in ("first", "second one"):
        pq.write_table(pa.table({"image": ["a.png"], "caption": [caption]}), tmp_path / "c.parquet")
        corpus = open_corpus(tmp_path / "images.zip")
        (shard,) = corpus.shards()
        (item,) = corpus.read(shard)
        assert item.text == caption
        assert shard.key != key
        key = shard.key


def test_members_that_cannot_be_used_are_reported(tmp_path, picture):
    path = tmp_path / "i.zip"
    bad = [("../up.png", b"x"), ("/abs.png", b"x"), ("c:\\x.png", b"x"), ("data.bin", b"\0\1")]
    write_zip(path, bad)
    write_zip(path, [("lzma.png", picture(1))], zipfile.ZIP_LZMA, "a")
    write_zip(path, [("locked.png", picture(1)), ("noending", picture(2))], mode="a")
    data = bytearray(path.read_bytes())
    at = data.rfind(b"locked.png") - 46  # its entry in the central directory
    data[at + 8] |= 1  # the flag that says encrypted
    path.write_bytes(data)
    found = read_all(open_corpus(path))
    assert [item.id for item in found if isinstance(item, CorpusItem)] == ["i.zip/noending"]
    assert [item.reason for item in found if isinstance(item, Dropped)] == [
        "member outside the archive",
        "member outside the archive",
        "member outside the archive",
        "no reader takes it",
        "unknown zip compression",
        "encrypted zip member",
    ]


def test_sizes_that_lie_and_broken_checksums_are_found_on_reading(tmp_path, picture):
    original = write_zip(tmp_path / "i.zip", [("a.png", b"\0" * 100_000)]).read_bytes()
    at = original.rfind(b"PK\1\2")
    lies = {
        "smaller": (at + 24, struct.pack("<L", 50)),
        "larger": (at + 24, struct.pack("<L", 200_000)),
        "checksum": (at + 16, b"\1\2\3\4"),
        "elsewhere": (at + 42, struct.pack("<L", 7)),
    }
    for place, value in lies.values():
        data = bytearray(original)
        data[place : place + 4] = value
        (tmp_path / "i.zip").write_bytes(data)
        (item,) = read_all(open_corpus(tmp_path / "i.zip"))
        with pytest.raises(ImageError, match="damaged zip member"):
            item.image.read()
    bomb = bytearray(original)
    bomb[at + 24 : at + 28] = struct.pack("<L", 1 << 31)
    (tmp_path / "i.zip").write_bytes(bomb)
    (lost,) = read_all(open_corpus(tmp_path / "i.zip"))
    assert lost.reason == "image file too large"


def test_a_zip_cut_or_damaged_anywhere_never_raises(tmp_path, picture):
    path = write_zip(tmp_path / "i.zip", [(f"{k}.png", picture(k)) for k in range(8)])
    whole = path.read_bytes()
    chance = random.Random(5)
    for position in [1, *chance.sample(range(1, len(whole)), 60)]:
        path.write_bytes(whole[:position])
        (lost,) = read_all(open_corpus(path))
        assert (lost.id, lost.reason) == ("i.zip", "unreadable zip")
    for _ in range(150):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            broken[chance.randrange(len(whole) // 2, len(whole))] = chance.randrange(256)
        path.write_bytes(broken)
        for item in read_all(open_corpus(path)):
            if isinstance(item, CorpusItem):
                try:
                    item.image.read()
                except ImageError as error:
                    assert error.reason
