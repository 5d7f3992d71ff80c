"""Listings: the order of a folder on disk, flat memory, and one that was killed goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import servers

from heldout.corpus import corpus_fingerprint, open_corpus
from heldout.corpus._listing import walk
from heldout.remote import RemotePath, files_below, listing, located, refresh, stores
from heldout.remote.stores import Child, Facts


def test_the_order_is_that_of_the_folder_on_disk(
    tmp_path: Path, proxy, s3: str, bucket: str
) -> None:
    names = ["a.png", "a/x.png", "a-b.png", "ab/y.png", "a/x/z.png", "Z.png", "ä.png", "a b/1.png"]
    for name in names:
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(b"x")
    servers.upload(servers.s3_client(s3), bucket, tmp_path / "data")
    local = [entry.name for entry in walk(tmp_path / "data")]
    assert [entry.name for entry in walk(located(f"s3://{bucket}"))] == local


def test_a_corpus_is_listed_once(proxy, s3: str, bucket: str, picture) -> None:
    client = servers.s3_client(s3)
    for number in range(5):
        client.put_object(Bucket=bucket, Key=f"{number}.png", Body=picture(number))
    corpus = open_corpus(f"s3://{bucket}")
    first = corpus_fingerprint(corpus)
    count = len(proxy.requests)
    assert corpus_fingerprint(corpus) == first
    assert len(list(corpus.shards())) == 1
    assert len(proxy.requests) == count
    client.put_object(Bucket=bucket, Key="more.png", Body=picture(9))
    assert corpus_fingerprint(corpus) == first  # all passes of a run see one state
    assert corpus_fingerprint(open_corpus(f"s3://{bucket}")) != first


class Endless:
    """A store of ``count`` objects in pages of a thousand; it fails at the page that begins at ``fails``."""

    flat = True

    def __init__(self, count: int, fails: int = -1) -> None:
        self.count, self.fails, self.asked = count, fails, 0

    def page(self, place: str, after: str) -> tuple[list[Child], bool]:
        self.asked += 1
        start = int(after.partition(".")[0]) + 1 if after else 0
        if start == self.fails:
            raise KeyboardInterrupt
        names = range(start, min(start + 1000, self.count))
        page = [Child(f"{number:09}.jpg", Facts(1000, f"mark{number}")) for number in names]
        return page, start + 1000 < self.count


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Endless]]:
    """The stores that are opened, the last one first in use."""
    opened: list[Endless] = []
    monkeypatch.setattr(listing, "open_store", lambda scheme: opened[-1])
    yield opened


def test_many_names_take_flat_memory(endless: list[Endless]) -> None:
    endless.append(Endless(50_000))
    root = RemotePath("s3://bucket/prefix")
    tracemalloc.start()
    try:
        assert sum(1 for _ in files_below(root)) == 50_000
        assert tracemalloc.get_traced_memory()[1] < 10e6  # as objects they take 15 MB or more
    finally:
        tracemalloc.stop()
    assert endless[0].asked == 50
    assert sum(1 for _ in files_below(root)) == 50_000
    assert endless[0].asked == 50


def test_an_interrupted_listing_goes_on_where_it_was(endless: list[Endless]) -> None:
    endless.append(Endless(10_000, fails=6000))
    root = RemotePath("s3://bucket/prefix")
    with pytest.raises(KeyboardInterrupt):
        list(files_below(root))
    listing._close()  # as if the process had ended
    endless.append(Endless(10_000))
    names = [child.name for child in files_below(root)]
    assert names == [f"{number:09}.jpg" for number in range(10_000)]
    assert endless[-1].asked == 4
    refresh(str(root))  # a complete one is not continued: the store may have changed
    endless.append(Endless(10_001))
    assert sum(1 for _ in files_below(root)) == 10_001


def test_a_line_that_was_cut_is_asked_for_again(endless: list[Endless], tmp_path: Path) -> None:
    endless.append(Endless(3000, fails=2000))
    root = RemotePath("s3://bucket/prefix")
    with pytest.raises(KeyboardInterrupt):
        list(files_below(root))
    (snapshot,) = listing._snapshots.values()
    listing._close()
    with snapshot.path.open("ab") as file:
        file.write(b'["000002')
    endless.append(Endless(3000))
    assert [child.name for child in files_below(root)] == [f"{n:09}.jpg" for n in range(3000)]


PROGRAM = """
import sys
from heldout.remote import files_below, located
names = files_below(located(sys.argv[1]))
print(next(names).name, flush=True)
sys.stdin.read()
print(1 + sum(1 for _ in names))
"""


def test_two_processes_that_list_one_folder_do_not_meet(proxy, s3: str, bucket: str) -> None:
    client = servers.s3_client(s3)
    for number in range(12):
        client.put_object(Bucket=bucket, Key=f"{number}.png", Body=b"x")
    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, f"s3://{bucket}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert other.stdout is not None
    assert other.stdout.readline().strip() == "0.png"
    assert sum(1 for _ in files_below(RemotePath(f"s3://{bucket}"))) == 12
    output, _ = other.communicate("")
    assert output.strip() == "12"


def test_pages_of_a_real_server(
    proxy, s3: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "PAGE", 10)
    client = servers.s3_client(s3)
    for number in range(45):
        client.put_object(Bucket=bucket, Key=f"in/{number:03}.png", Body=b"x")
    proxy.share = 0.2
    assert [child.name for child in files_below(RemotePath(f"s3://{bucket}/in"))] == [
        f"{number:03}.png" for number in range(45)
    ]
    assert len(list(located(f"s3://{bucket}/in").iterdir())) == 45


def test_the_listing_holds_no_credentials(
    web, picture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (web.folder / "in").mkdir()
    (web.folder / "in" / "1.png").write_bytes(picture(1))
    web.signature = "sig=s3cr3t"
    list(open_corpus(f"{web.address}/in/?sig=s3cr3t").shards())
    kept = [path.read_text() for path in (tmp_path / "machine-cache").rglob("*.jsonl")]
    assert json.loads(kept[0].splitlines()[0])[0] == "1.png"
    assert "s3cr3t" not in "".join(kept)
