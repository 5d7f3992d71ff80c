"""Embeddings are made once per corpus and encoder, kept whole, and never mixed."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.benchmark import Benchmark, Example
from heldout.corpus import Corpus, Shard, open_corpus
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.image import FileOnDisk, ImageRef
from heldout.overlap import NearSearch, scan
from heldout.overlap.images._pixels import PixelsEncoder
from heldout.overlap.images.embed import ShardEmbeddings, embed_shard
from heldout.overlap.images.embedding_rows import benchmark_pictures, whole_pictures
from heldout.overlap.images.embeddings import EmbeddingStore
from heldout.overlap.images.encoder import Floats, open_encoder
from heldout.store import Run, ShardResult, Stage

Picture = Callable[..., bytes]


@pytest.fixture
def corpus(tmp_path: Path, picture: Picture) -> Path:
    """Seven pictures; one is there three times, one of these in another file format."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.png").write_bytes(picture(number, (90, 70)))
    (folder / "5.png").write_bytes(picture(2, (90, 70)))
    (folder / "6.webp").write_bytes(picture(2, (90, 70), "WEBP"))
    framed = Image.new("RGB", (200, 180))
    framed.paste(Image.open(folder / "1.png"), (50, 60))
    framed.save(folder / "7.png")
    (folder / "8.png").write_bytes(b"not an image")
    return folder


def bench(folder: Path, *names: str) -> Benchmark:
    return Benchmark(
        "bench",
        tuple(
            Example(name, (ImageRef(name, FileOnDisk(str(folder / name))),), "q?", answer="a")
            for name in names
        ),
    )


def search(benchmark: Benchmark, corpus: Path | Corpus, run: Path, near: NearSearch) -> Run:
    opened = open_corpus(corpus, name="web") if isinstance(corpus, Path) else corpus
    found = Run.create(run)
    with LocalEngine(1) as engine, found.writing():
        scan(benchmark, [opened], found, engine, near=near, quiet=True)
    return found


def embedded_shards(run: Run) -> int:
    counts = run.manifest()["stages"]["overlap:web"]["counts"]
    return int(counts["embedded_shards"])


def test_whole_pictures_are_the_corpus_in_item_order(corpus: Path, tmp_path: Path) -> None:
    run = search(bench(corpus, "0.png", "2.png"), corpus, tmp_path / "run", NearSearch("pixels", 2))
    found, encoder = whole_pictures(run, "web"), open_encoder("pixels")
    assert found.identity == encoder.identity
    assert found.ids == [f"{n}.png" for n in range(6)] + ["6.webp", "7.png"]
    assert found.groups.tolist() == [0, 1, 2, 3, 4, 2, 2, 5]
    rows = np.concatenate(found.rows)
    assert rows.dtype == np.float16
    assert all(isinstance(matrix, np.memmap) for matrix in found.rows)
    for name, row in zip(found.ids, rows, strict=True):
        expected = encoder.encode([Image.open(corpus / name)])[0]
        assert float(row.astype(np.float32) @ expected) > 0.999
    ours = benchmark_pictures(run)
    assert ours.identity == encoder.identity
    assert ours.rows.dtype == np.float32
    assert len(set(ours.pictures)) == 2
    expected = encoder.encode([Image.open(corpus / name) for name in ("0.png", "2.png")])
    assert np.allclose(ours.rows, expected, atol=1e-6)


def test_what_is_inside_a_frame_is_a_row_of_its_own(corpus: Path, tmp_path: Path) -> None:
    run = search(bench(corpus, "1.png"), corpus, tmp_path / "run", NearSearch("pixels", 1))
    (row,) = [r for r in run.read_table("matches").to_pylist() if r["corpus_id"] == "7.png"]
    assert row["similarity"] > 0.99


def test_another_question_or_benchmark_embeds_nothing_again(corpus: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    run = search(bench(corpus, "0.png"), corpus, tmp_path / "run", NearSearch("pixels", 1))
    assert embedded_shards(run) == 1
    again = search(bench(corpus, "0.png"), corpus, tmp_path / "run", NearSearch("pixels", 3))
    assert embedded_shards(again) == 0
    first = search(
        bench(corpus, "0.png"), corpus, tmp_path / "one", NearSearch("pixels", 1, shared)
    )
    other = search(
        bench(corpus, "3.png"), corpus, tmp_path / "two", NearSearch("pixels", 1, shared)
    )
    assert (embedded_shards(first), embedded_shards(other)) == (1, 0)
    one, two = whole_pictures(first, "web"), whole_pictures(other, "web")
    assert one.ids == two.ids == whole_pictures(run, "web").ids
    assert not list((tmp_path / "one").rglob("*.npy"))


def test_a_corpus_that_grew_is_embedded_only_where_it_grew(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    stage_save, store_save = Stage.save, EmbeddingStore.save

    def staged(stage: Stage, index: int, result: ShardResult) -> None:
        if stage.folder.parent.name == "overlap":
            order.append("compared")
        stage_save(stage, index, result)

    def stored(store: EmbeddingStore, shard: Shard, embedded: ShardEmbeddings) -> None:
        order.append("embedded")
        store_save(store, shard, embedded)

    monkeypatch.setattr(Stage, "save", staged)
    monkeypatch.setattr(EmbeddingStore, "save", stored)
    folder = tmp_path / "tars"
    folder.mkdir()
    for number in (1, 3):
        write_tar(folder / f"{number}.tar", picture(number, (90, 70)))
    (tmp_path / "q.png").write_bytes(picture(1, (90, 70)))
    Image.open(folder.parent / "q.png").resize((80, 62)).save(tmp_path / "r.png")
    write_tar(folder / "4.tar", (tmp_path / "q.png").read_bytes())
    benchmark, near = bench(tmp_path, "r.png"), NearSearch("pixels", 1)
    run = search(benchmark, folder, tmp_path / "run", near)
    assert embedded_shards(run) == 3
    assert order == ["compared", "embedded"] * 3  # both stages at once, not one after the other
    verified = [(r["corpus_id"], r["relation"]) for r in run.read_table("matches").to_pylist()]
    assert {name.partition(".")[0] for name, relation in verified} >= {"1", "4"}
    write_tar(folder / "2.tar", picture(2, (90, 70)))  # in between: the last shard has a new place
    run = search(benchmark, folder, tmp_path / "run", near)
    assert embedded_shards(run) == 1
    names = [name.partition(".")[0] for name in whole_pictures(run, "web").ids]
    assert names == ["1", "2", "3", "4"]
    again = [(r["corpus_id"], r["relation"]) for r in run.read_table("matches").to_pylist()]
    assert again == verified  # pairs are looked for in the shard's new place
    (folder / "1.tar").unlink()
    run = search(benchmark, folder, tmp_path / "run", near)
    assert embedded_shards(run) == 1  # what speaks first for the corpus is read anew
    assert len(list((tmp_path / "run/embeddings").rglob("*.npy"))) == 3  # nothing stale is kept


def test_embeddings_of_another_encoder_are_refused(corpus: Path, tmp_path: Path) -> None:
    shared, near = tmp_path / "shared", NearSearch("pixels", 1, tmp_path / "shared")
    search(bench(corpus, "0.png"), corpus, tmp_path / "run", near)
    (told,) = shared.rglob("encoder.json")
    told.write_text(told.read_text().replace("pixels-", "pixels-of-old-"))
    with pytest.raises(InputError, match="cannot be compared"):
        search(bench(corpus, "0.png"), corpus, tmp_path / "again", near)
    with pytest.raises(InputError, match="cannot be compared"):
        search(bench(corpus, "0.png"), corpus, tmp_path / "x", NearSearch("pixels", 1, told.parent))
    with pytest.raises(InputError, match="corpus 'other'"):
        whole_pictures(Run.open(tmp_path / "run"), "other")
    with pytest.raises(InputError, match="benchmark .*'clip'"):
        benchmark_pictures(Run.open(tmp_path / "run"), "clip")


def test_embeddings_somebody_saved_are_a_corpus_without_pictures(
    corpus: Path, tmp_path: Path
) -> None:
    near = NearSearch("pixels", 1, tmp_path / "shared")
    first = search(bench(corpus, "0.png"), corpus, tmp_path / "run", near)
    (folder,) = (path.parent for path in (tmp_path / "shared").rglob("encoder.json"))
    saved = open_corpus(folder, name="web")
    # A picture that is not in the corpus, so that its neighbour is no exact copy.
    Image.open(corpus / "3.png").resize((80, 60)).save(tmp_path / "small.png")
    run = search(bench(tmp_path, "small.png"), saved, tmp_path / "saved", NearSearch("pixels", 1))
    row = max(run.read_table("matches").to_pylist(), key=lambda match: match["similarity"])
    assert row["corpus_id"].endswith(".npy/3")
    assert (row["relation"], row["method"]) == ("undecided", open_encoder("pixels").identity)
    assert "not the picture" in json.loads(row["evidence"])["unverified"]
    theirs, ours = whole_pictures(run, "web"), whole_pictures(first, "web")
    assert row["corpus_id"] == theirs.ids[ours.ids.index("3.png")]
    assert np.array_equal(theirs.groups, ours.groups)
    assert np.array_equal(theirs.rows[0], ours.rows[0])
    (folder / "encoder.json").unlink()
    with pytest.raises(InputError, match="of the encoder"):
        search(bench(tmp_path, "small.png"), saved, tmp_path / "laion", NearSearch("pixels", 1))


def test_a_picture_that_a_table_repeats_is_encoded_once(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "a.png").write_bytes(picture(1, (90, 70)))
    (tmp_path / "b.png").write_bytes(picture(2, (90, 70)))
    rows = [{"id": n, "image": "ab"[n % 2] + ".png", "question": f"{n}?"} for n in range(200)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus, encoder = open_corpus(tmp_path / "train.jsonl"), CountingEncoder()
    embedded = embed_shard(corpus, next(iter(corpus.shards())), encoder, batch=8)
    assert encoder.encoded == 2
    assert [item.id for item in embedded.items] == [str(n) for n in range(200)]
    assert embedded.rows.shape == (200, encoder.dimension)
    assert np.array_equal(embedded.rows[0], embedded.rows[198])
    assert not np.array_equal(embedded.rows[0], embedded.rows[1])
    assert len(set(embedded.digests)) == 2


class CountingEncoder(PixelsEncoder):
    encoded = 0

    def embed(self, batch: Floats) -> Floats:
        self.encoded += len(batch)
        return super().embed(batch)


def write_tar(path: Path, image: bytes) -> None:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("0.png")
        member.size = len(image)
        tar.addfile(member, io.BytesIO(image))
