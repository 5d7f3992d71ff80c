"""Corpora with repeated names, missing columns and runs inside them."""

from __future__ import annotations

import io
import os
import random
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.corpus import Corpus, CorpusItem, open_corpus
from heldout.corpus.corpus import unique_ids
from heldout.errors import InputError
from heldout.store import Dropped, Run

Picture = Callable[..., bytes]


def everything(corpus: Corpus) -> tuple[list[CorpusItem], list[Dropped]]:
    found = [item for shard in corpus.shards() for item in corpus.read(shard)]
    items = [item for item in found if isinstance(item, CorpusItem)]
    return items, [item for item in found if isinstance(item, Dropped)]


def test_members_of_one_name_in_a_tar_are_told_apart(tmp_path: Path, picture: Picture) -> None:
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for seed, name in enumerate(("a.png", "b.png", "a.png", "b.png", "a.png")):
            member = tarfile.TarInfo(name)
            member.size = len(picture(seed))
            tar.addfile(member, io.BytesIO(picture(seed)))
    items, _ = everything(open_corpus(tmp_path))
    assert [item.id for item in items] == [
        "0.tar/a",
        "0.tar/b",
        "0.tar/a#2",
        "0.tar/b#2",
        "0.tar/a#3",
    ]
    assert [item.image.read() for item in items if item.image] == [picture(i) for i in range(5)]


def test_members_of_one_name_in_a_zip_are_told_apart(tmp_path: Path, picture: Picture) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "0.zip", "w") as archive:
        warnings.simplefilter("ignore")
        for seed in range(2):
            archive.writestr("a.png", picture(seed))
    items, _ = everything(open_corpus(tmp_path))
    assert [item.id for item in items] == ["0.zip/a.png", "0.zip/a.png#2"]


def test_rows_of_one_id_are_told_apart(tmp_path: Path) -> None:
    table = pa.table({"id": ["x", "x", "y"], "text": ["one", "two", "three"]})
    pq.write_table(table, tmp_path / "a.parquet")
    items, _ = everything(open_corpus(tmp_path / "a.parquet"))
    assert [item.id for item in items] == ["a.parquet/x", "a.parquet/x#2", "a.parquet/y"]
    (tmp_path / "t.csv").write_text("id,question,answer\nx,q,a\nx,r,b\n")
    items, _ = everything(open_corpus(tmp_path / "t.csv"))
    assert [item.id for item in items] == ["x", "x#2"]


def test_ids_stay_unique_in_any_order_and_number() -> None:
    chance = random.Random(3)
    names = [f"{chance.randrange(3000)}" for _ in range(6000)]
    names += [f"{chance.randrange(3000)}#{chance.randrange(2, 5)}" for _ in range(3000)]
    chance.shuffle(names)
    lost = Dropped("corpus", names[0], "lost", "beside the others")
    found = [item.id for item in unique_ids([lost, *map(CorpusItem, names)])][1:]
    assert len(set(found)) == len(found) == len(names)
    kept = [name for name, new in zip(names, found, strict=True) if name == new]
    assert len(kept) >= len(set(names)) * 0.8  # a first one keeps its name unless it was given away
    assert found == [item.id for item in unique_ids(map(CorpusItem, names))]


def test_parquet_files_with_images_and_without_are_both_read(
    tmp_path: Path, picture: Picture
) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "0.parquet")
    images = [{"bytes": picture(i), "path": None} for i in range(2)]
    pq.write_table(pa.table({"image": images, "text": ["c", "d"]}), tmp_path / "1.parquet")
    items, dropped = everything(open_corpus(tmp_path))
    assert [(item.text, item.image is None) for item in items] == [
        ("a", True),
        ("b", True),
        ("c", False),
        ("d", False),
    ]
    assert dropped == []


def test_a_run_inside_the_corpus_is_not_part_of_it(tmp_path: Path, picture: Picture) -> None:
    for seed in range(2):
        (tmp_path / f"{seed}.png").write_bytes(picture(seed))
    before = [(shard.id, shard.key) for shard in open_corpus(tmp_path).shards()]
    run = Run.create(tmp_path / "0run", command=["heldout", "overlap"], seed=0)
    (run.path / "tables").mkdir(exist_ok=True)
    (run.path / "picture.png").write_bytes(picture(7))
    pq.write_table(pa.table({"text": ["x"]}), run.path / "matches.parquet")
    corpus = open_corpus(tmp_path)
    items, dropped = everything(corpus)
    assert corpus.reader == "files"
    assert [item.id for item in items] == ["0.png", "1.png"]
    assert [(d.id, d.reason, d.scope) for d in dropped] == [("0run", "run folder", "words")]
    # A run that is resumed finds the shards it finished.
    assert [(shard.id, shard.key) for shard in corpus.shards()] == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "manifest.json").write_text('{"name": "an app"}')
    (tmp_path / "other" / "2.png").write_bytes(picture(2))
    items, _ = everything(open_corpus(tmp_path))
    assert [item.id for item in items[2:]] == ["other/2.png", "other/manifest.json"]


@pytest.mark.parametrize("reader", [None, "files", "table"])
def test_a_pipe_or_nothing_is_no_corpus(tmp_path: Path, reader: str | None) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(InputError, match="is a pipe"):
        open_corpus(tmp_path / "a.tar", reader=reader)
    with pytest.raises(InputError, match="empty path"):
        open_corpus("", reader=reader)


def test_a_folder_of_images_that_is_not_there(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": ["a.png"], "text": ["c"]}), tmp_path / "0.parquet")
    with pytest.raises(InputError, match="images: .*does not exist"):
        open_corpus(tmp_path, images=tmp_path / "nowhere")
