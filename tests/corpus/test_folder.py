"""Image folders: order, sidecars, links, and what is no image."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest

from heldout.corpus import CorpusItem, corpus_fingerprint, open_corpus
from heldout.corpus import _listing as listing
from heldout.corpus.corpus import LARGEST, SMALLEST, shard_work
from heldout.corpus.files import FilesCorpus
from heldout.store import Dropped


def read_all(corpus):
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def items(corpus):
    return [found for found in read_all(corpus) if isinstance(found, CorpusItem)]


def dropped(corpus):
    return {found.id: found.reason for found in read_all(corpus) if isinstance(found, Dropped)}


@pytest.fixture
def tree(tmp_path: Path, picture) -> Path:
    root = tmp_path / "pictures"
    for number, name in enumerate(["b/2.png", "b/10.png", "a.png", "c/d/e.jpg", "z.png"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))
    return root


def test_items_come_in_one_order_with_relative_ids_and_their_bytes(tree, picture):
    corpus = open_corpus(tree)
    assert corpus.reader == "files"
    found = items(corpus)
    assert [item.id for item in found] == ["a.png", "b/10.png", "b/2.png", "c/d/e.jpg", "z.png"]
    assert found[2].image.read() == picture(0)


def test_a_shard_read_alone_in_another_process_is_its_part_of_the_whole(tree):
    corpus = FilesCorpus(str(tree), "pictures", str(tree), files_per_shard=2)
    shards = list(corpus.shards())
    assert [shard.index for shard in shards] == [0, 1, 2]
    whole = items(corpus)
    again, third = pickle.loads(pickle.dumps((corpus, shards[1])))
    assert list(again.read(third)) == whole[2:4]


def test_a_key_changes_with_the_image_or_its_caption_and_with_nothing_else(tree):
    def keys():
        corpus = FilesCorpus(str(tree), "p", str(tree), files_per_shard=1)
        return [shard.key for shard in corpus.shards()]

    before = keys()
    assert keys() == before
    fingerprint = corpus_fingerprint(open_corpus(tree))
    (tree / "b/2.json").write_text('{"caption": "new"}')  # sorts before its image
    changed = [old != new for old, new in zip(before, keys(), strict=True)]
    assert changed == [False, False, True, False, False]
    assert corpus_fingerprint(open_corpus(tree)) != fingerprint


def test_captions_and_metadata_lie_beside_the_image_in_any_encoding(tree):
    (tree / "a.txt").write_bytes("Röntgenbild, 5 µm".encode("cp1252"))
    (tree / "z.txt").write_bytes("胸部".encode("utf-16"))
    (tree / "b/2.json").write_text(json.dumps({"question": "Is it?", "answer": "yes", "url": "u"}))
    (tree / "b/10.json").write_bytes(b"{not json")
    found = {item.id: item for item in items(open_corpus(tree))}
    assert set(found) == {"a.png", "b/10.json", "b/10.png", "b/2.png", "c/d/e.jpg", "z.png"}
    assert found["b/10.json"].text == "{not json"
    assert found["a.png"].text == "Röntgenbild, 5 µm"
    assert found["z.png"].text == "胸部"
    asked = found["b/2.png"]
    assert (asked.question, asked.answer, asked.text) == ("Is it?", "yes", "Is it?\nyes")
    assert asked.metadata["url"] == "u"
    assert dropped(open_corpus(tree)) == {}


def test_what_is_no_image_is_reported_and_what_is_one_is_found_without_an_ending(tree, picture):
    (tree / "plain").write_bytes(picture(9, format="JPEG"))
    (tree / "noise.bin").write_bytes(b"\x00\x01\x02")
    (tree / "scan").write_bytes(bytes(128) + b"DICM" + bytes(20))
    (tree / ".git").mkdir()
    (tree / ".git" / "object.png").write_bytes(picture(1))
    (tree / "README.md").write_text("about")
    corpus = open_corpus(tree)
    assert {"plain", "scan"} <= {item.id for item in items(corpus)}
    assert dropped(corpus) == {"noise.bin": "no reader takes it", ".git": "hidden folder"}


def test_links_that_leave_the_folder_are_reported_and_never_read(tree, tmp_path, picture):
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(5))
    (tree / "out.png").symlink_to(secret)
    (tree / "loop").symlink_to(tree)
    (tree / "in.png").symlink_to(tree / "a.png")
    (tree / "gone.png").symlink_to(tree / "nothing.png")
    os.mkfifo(tree / "pipe.png")
    (tree / "a.txt").symlink_to(tmp_path / "secret.png")
    corpus = open_corpus(tree)
    found = {item.id: item for item in items(corpus)}
    assert "in.png" in found
    assert found["a.png"].text is None
    assert dropped(corpus) == {
        "out.png": "link outside the corpus",
        "loop": "link to a folder",
        "gone.png": "unreadable file",
        "pipe.png": "not a regular file",
        "a.txt": "link outside the corpus",
    }


def test_names_that_are_not_utf8_have_ids_any_table_can_hold(tmp_path, picture):
    name = os.fsdecode(b"caf\xe9.png")
    try:
        (tmp_path / name).write_bytes(picture(1))
    except OSError:
        pytest.skip("this file system refuses such names")
    (item,) = items(open_corpus(tmp_path))
    item.id.encode()
    item.image.source.encode()
    assert item.image.read() == picture(1)


def test_a_folder_too_large_to_sort_in_memory_comes_in_the_same_order(tmp_path, monkeypatch):
    names = [f"{number * 7919 % 1000:04d}\n é.png" for number in range(1000)]
    for name in names:
        (tmp_path / name).touch()
    monkeypatch.setattr(listing, "RUN", 64)
    monkeypatch.setattr(listing, "_CHUNK", 50)
    assert [entry.name for entry in listing.walk(tmp_path)] == sorted(names)


def test_an_empty_folder_is_an_empty_corpus(tmp_path):
    assert list(open_corpus(tmp_path).shards()) == []


def test_a_small_folder_has_shards_for_several_workers(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f"{number:03d}.png").write_bytes(bytes(20_000))
    corpus = open_corpus(tmp_path)
    shards = list(corpus.shards())
    assert len(shards) >= 4
    ids = [
        item.id for shard in shards for item in corpus.read(shard) if isinstance(item, CorpusItem)
    ]
    assert ids == [f"{number:03d}.png" for number in range(400)]
    assert [(one.id, one.key) for one in corpus.shards()] == [(one.id, one.key) for one in shards]


def test_shards_hold_bounded_work_and_grow(tmp_path: Path) -> None:
    for number in range(60):  # sparse: no byte of them is written
        with (tmp_path / f"{number:03d}.png").open("wb") as file:
            file.truncate(9 << 20 if number % 7 else 100 << 20)
    sizes = []
    for shard in open_corpus(tmp_path).shards():
        names = [part.name for part in shard.payload]
        work = sum((tmp_path / name).stat().st_size for name in names)
        assert len(names) == 1 or work <= shard_work(shard.index)
        sizes.append(len(names))
    assert max(sizes) > 1 and sum(sizes) == 60
    assert [shard_work(index) for index in (0, 7, 8, 16, 1000)] == [
        SMALLEST,
        SMALLEST,
        2 * SMALLEST,
        4 * SMALLEST,
        LARGEST,
    ]


def test_opening_a_corpus_lists_no_folder_whole(tmp_path, picture, monkeypatch):
    """Path.iterdir and Path.glob hold every name, of a million files too."""
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture(number))

    def whole(self, *_):
        raise AssertionError(f"{self} was listed whole")

    monkeypatch.setattr(Path, "iterdir", whole)
    monkeypatch.setattr(Path, "glob", whole)
    corpus = open_corpus(tmp_path)
    assert [item.id for shard in corpus.shards() for item in corpus.read(shard)] == [
        "0.png",
        "1.png",
        "2.png",
    ]
