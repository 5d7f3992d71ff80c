"""Every corpus format from servers of object stores: the same items as from disk, read as streams."""

from __future__ import annotations

import io
import json
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import servers

from heldout.benchmark import read_benchmark
from heldout.corpus import Corpus, EmbeddingCorpus, open_corpus, read_items
from heldout.remote import CHANGED, RemoteError
from heldout.remote._transfer import RemoteFile, facts_of, fetch
from heldout.remote.stores import open_store, renew_stores
from heldout.store import Dropped


def contents(corpus: Corpus) -> list:
    """Everything a corpus yields, pictures by their bytes; places are left out."""
    items = []
    for shard in corpus.shards():
        for item in read_items(corpus, shard):
            if isinstance(item, Dropped):
                items.append((item.id, item.reason))
            else:
                data = item.image.read() if item.image is not None else None
                items.append((shard.id, item.id, data, item.text, item.question, item.answer))
    return items


def write_tar(path: Path, picture, count: int, mode: str = "w") -> None:
    with tarfile.open(path, mode) as tar:
        for number in range(count):
            for name, data in (
                (f"{number:03}.png", picture(number)),
                (f"{number:03}.txt", f"caption {number}".encode()),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def folder_of_images(folder: Path, picture) -> None:
    for number in range(12):
        place = folder / ("a" if number % 3 else "b/deep")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.png").write_bytes(picture(number))
    (folder / "a" / "1.txt").write_text("the first")
    (folder / "a" / "2.json").write_text(json.dumps({"caption": "the second"}))
    (folder / "b" / "not-an-image.bin").write_bytes(b"0123")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.png").write_bytes(picture(99))


def tars(folder: Path, picture) -> None:
    write_tar(folder / "000.tar", picture, 5)
    write_tar(folder / "001.tar.gz", picture, 5, "w:gz")


def zips(folder: Path, picture) -> None:
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number in range(8):
            archive.writestr(f"{number}.png", picture(number))
    rows = [{"image": f"{number}.png", "caption": f"caption {number}"} for number in range(8)]
    (folder / "captions.jsonl").write_text("\n".join(map(json.dumps, rows)))


def parquet(folder: Path, picture) -> None:
    pl.DataFrame(
        {
            "image": [{"bytes": picture(number), "path": f"{number}.png"} for number in range(9)],
            "caption": [f"caption {number}" for number in range(9)],
        }
    ).write_parquet(folder / "part.parquet", row_group_size=3)


def texts(folder: Path, picture) -> None:
    lines = [json.dumps({"text": f"document number {number}"}) for number in range(200)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    (folder / "b.txt").write_text("plain text of some words")


def table(folder: Path, picture) -> None:
    (folder / "images").mkdir()
    for number in range(4):
        (folder / "images" / f"{number}.png").write_bytes(picture(number))
    rows = [
        {"id": str(n), "image": f"{n}.png", "question": f"What is {n}?", "answer": "a thing"}
        for n in range(4)
    ]
    (folder / "train.json").write_text(json.dumps(rows))


@pytest.mark.parametrize("write", [folder_of_images, tars, zips, parquet, texts, table])
def test_a_corpus_reads_from_a_store_as_from_disk(
    write, tmp_path: Path, picture, store, bucket_name: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, picture)
    servers.fill(store, bucket_name, folder, "some/data/")
    local, remote = open_corpus(folder), open_corpus(f"{store.scheme}://{bucket_name}/some/data/")
    assert remote.reader == local.reader
    assert remote.name == local.name
    expected = contents(local)
    assert len(expected) > 3
    assert contents(remote) == expected


def test_ranges_of_names_and_stars_are_addresses_too(
    tmp_path: Path, picture, proxy, s3: str, bucket: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        write_tar(folder / f"{number:03}.tar", picture, 2)
    servers.upload(servers.s3_client(s3), bucket, folder)
    for pattern in ("{000..001}.tar", "00[01].tar"):
        shards = list(open_corpus(f"s3://{bucket}/{pattern}").shards())
        assert [shard.id for shard in shards] == ["000.tar", "001.tar"]


def test_a_tar_is_read_in_order_and_a_picture_in_it_is_not_asked_for_again(
    tmp_path: Path, picture, proxy, s3: str, bucket: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write_tar(folder / "000.tar", picture, 400)
    servers.upload(servers.s3_client(s3), bucket, folder)
    corpus = open_corpus(f"s3://{bucket}/000.tar")
    assert len(contents(corpus)) == 400
    ranges = [span for method, path, span in proxy.requests if path.endswith("000.tar") and span]
    starts = [int(span.removeprefix("bytes=").partition("-")[0]) for span in ranges]
    assert starts == sorted(set(starts))
    assert len(starts) < 30
    assert proxy.sent < 1.1 * (folder / "000.tar").stat().st_size + 100_000


def test_parquet_is_read_by_column_and_row_group(
    tmp_path: Path, proxy, s3: str, bucket: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    heavy = [np.random.default_rng(number).random(12_500) for number in range(60)]
    pl.DataFrame({"other": heavy, "text": ["some words"] * 60}).write_parquet(
        folder / "x.parquet", row_group_size=10, compression="uncompressed"
    )
    servers.upload(servers.s3_client(s3), bucket, folder)
    corpus = open_corpus(f"s3://{bucket}/x.parquet")
    assert len(contents(corpus)) == 60
    assert proxy.sent < 0.1 * (folder / "x.parquet").stat().st_size


def test_a_remote_table_is_read_by_the_thread_that_asks(
    tmp_path: Path, picture, store, bucket_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Arrow that held the file when Python ended would abort the process."""
    folder = tmp_path / "data"
    folder.mkdir()
    parquet(folder, picture)
    servers.fill(store, bucket_name, folder)
    threads = set()
    readinto = RemoteFile.readinto

    def noted(self: RemoteFile, buffer: object) -> int:
        threads.add(threading.get_ident())
        return readinto(self, buffer)

    monkeypatch.setattr(RemoteFile, "readinto", noted)
    address = f"{store.scheme}://{bucket_name}/part.parquet"
    benchmark = read_benchmark(address, mapping={"question": "caption"})
    assert [image.read() for image in benchmark.images] == [picture(n) for n in range(9)]
    assert threads == {threading.get_ident()}


def test_embeddings_are_read_by_range(tmp_path: Path, proxy, s3: str, bucket: str) -> None:
    folder = tmp_path / "data" / "img_emb"
    folder.mkdir(parents=True)
    rows = np.random.default_rng(0).normal(size=(20_000, 64)).astype(np.float16)
    np.save(folder / "img_emb_0.npy", rows)
    servers.upload(servers.s3_client(s3), bucket, tmp_path / "data")
    corpus = open_corpus(f"s3://{bucket}")
    assert isinstance(corpus, EmbeddingCorpus)
    (shard,) = corpus.shards()
    matrix = corpus.embeddings(shard)
    assert matrix.shape == (20_000, 64)
    for part in (slice(15_000, 15_010), np.array([7, 3, 9]), 19_999, slice(4, 1)):
        np.testing.assert_array_equal(matrix[part], rows[part])
    assert proxy.sent < rows.nbytes // 2


def test_a_benchmark_reads_from_a_store_as_from_disk(
    tmp_path: Path, picture, store, bucket_name: str, caplog
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    table(folder, picture)
    servers.fill(store, bucket_name, folder)
    local = read_benchmark(folder / "train.json")
    address = f"{store.scheme}://{bucket_name}/train.json"
    remote = read_benchmark(address)
    assert remote.fingerprint == local.fingerprint
    assert [image.read() for image in remote.images] == [image.read() for image in local.images]
    assert remote.source == address
    # Another object under the same name is not mixed with the one that was opened.
    facts = facts_of(address)
    store.put(bucket_name, "train.json", b"x" * facts.size)
    with pytest.raises(RemoteError) as error:
        fetch(address, 0, facts.size, facts)
    assert error.value.reason == CHANGED
    assert facts_of(f"{address}.gone") is None
    # Credentials that are read anew are those of now.
    before = open_store(store.scheme)._system
    renew_stores()
    assert open_store(store.scheme)._system is not before
    assert [r.message for r in caplog.records if r.levelname == "WARNING"] == []


@pytest.mark.parametrize("name", ["../secret.png", "/etc/hostname", "file:///etc/hostname"])
def test_names_in_remote_tables_lead_nowhere_else(
    name: str, tmp_path: Path, picture, proxy, s3: str, bucket: str
) -> None:
    client = servers.s3_client(s3)
    client.put_object(Bucket=bucket, Key="secret.png", Body=picture(1))
    rows = [{"image": name, "question": f"What is {n}?", "answer": "a"} for n in range(3)]
    client.put_object(Bucket=bucket, Key="set/x.json", Body=json.dumps(rows).encode())
    benchmark = read_benchmark(f"s3://{bucket}/set/x.json")
    with pytest.raises(Exception, match=r"missing image|remote image|outside"):
        benchmark.images[0].read()
