"""Faults of stores: retried within bounds, resumed by range, else the rest is dropped with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest
import servers
from test_remote_corpora import contents, write_tar

from heldout.corpus import open_corpus
from heldout.remote import CHANGED, LOST, REFUSED, RemoteError, _transfer, located
from heldout.store import MAY_PASS, Dropped


@pytest.fixture
def tar(tmp_path: Path, picture, s3: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tar of 400 pictures, also in the bucket; it is read in a dozen ranges."""
    monkeypatch.setattr(_transfer, "BLOCK", 100_000)
    monkeypatch.setattr(_transfer, "_FIRST", 50_000)
    folder = tmp_path / "data"
    folder.mkdir()
    write_tar(folder / "000.tar", picture, 400)
    servers.upload(servers.s3_client(s3), bucket, folder)
    return folder / "000.tar"


@pytest.mark.parametrize("kind", ["throttle", "reset"])
def test_a_fault_in_the_middle_of_a_tar_costs_one_range(
    kind: str, tar: Path, proxy, bucket: str
) -> None:
    corpus = open_corpus(f"s3://{bucket}/000.tar")
    reads = iter(["", kind, kind, "", "", kind])
    proxy.plan = lambda method, path: next(reads, "") if method == "GET" else ""
    assert contents(corpus) == contents(open_corpus(tar))
    assert proxy.faults[kind] == 3
    assert proxy.sent < 1.1 * tar.stat().st_size + 100_000  # nothing before the fault came twice


def test_faults_everywhere_lose_nothing(tar: Path, proxy, bucket: str) -> None:
    proxy.share = 0.3
    assert contents(open_corpus(f"s3://{bucket}/000.tar")) == contents(open_corpus(tar))
    assert proxy.faults["throttle"] + proxy.faults["reset"] > 0


def lost(corpus) -> list[Dropped]:
    return [
        item
        for shard in corpus.shards()
        for item in corpus.read(shard)
        if isinstance(item, Dropped)
    ]


def test_a_store_that_stays_away_costs_the_rest_of_the_shard_and_says_so(
    tar: Path, proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(f"s3://{bucket}/000.tar")
    shards = list(corpus.shards())
    reads = iter(["", ""])
    proxy.plan = lambda method, path: next(reads, "reset") if method == "GET" else ""
    items = list(corpus.read(shards[0]))
    problem = items[-1]
    assert isinstance(problem, Dropped)
    assert (problem.reason, problem.scope) == (LOST, "many")
    assert f"of {tar.stat().st_size:,}" in problem.detail
    assert "members" in problem.detail
    assert 10 < len(items) < 400
    assert problem.reason in MAY_PASS  # the same command tries this shard again
    assert proxy.faults["reset"] == _transfer.TRIES


def test_a_host_that_was_given_up_is_not_tried_as_often_again(proxy, bucket: str) -> None:
    proxy.plan = lambda method, path: "throttle"
    with pytest.raises(RemoteError, match=LOST):
        located(f"s3://{bucket}/x").exists()
    with pytest.raises(RemoteError, match=LOST):
        located(f"s3://{bucket}/y").exists()
    assert proxy.faults["throttle"] == _transfer.TRIES + 2


def test_an_object_that_changes_while_it_is_read_is_not_mixed(
    tar: Path, picture, proxy, s3: str, bucket: str
) -> None:
    corpus = open_corpus(f"s3://{bucket}/000.tar")
    (shard,) = corpus.shards()
    items = corpus.read(shard)
    first = next(items)
    write_tar(tar, lambda seed: picture(seed + 1000), 400)
    servers.upload(servers.s3_client(s3), bucket, tar.parent)
    read = [first, *items]
    assert isinstance(read[-1], Dropped)
    assert read[-1].reason == CHANGED
    assert len(read) < 400
    (again,) = open_corpus(f"s3://{bucket}/000.tar").shards()
    assert again.key != shard.key  # a run that is continued reads it anew


def test_expired_credentials_are_read_anew_once(
    tar: Path, proxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(["refuse"])
    proxy.plan = lambda method, path: next(replies, "")
    assert located(f"s3://{bucket}/000.tar").is_file()
    proxy.plan = lambda method, path: "refuse"
    monkeypatch.setattr(_transfer, "_lost", {})
    with pytest.raises(RemoteError, match=f"{REFUSED}.*expired") as caught:
        located(f"s3://{bucket}/001.tar").is_file()
    assert servers.SECRET not in str(caught.value)
    assert servers.KEY not in str(caught.value)


def test_a_missing_object_is_missing_at_once(proxy, bucket: str) -> None:
    assert not located(f"s3://{bucket}/nothing").exists()
    with pytest.raises(FileNotFoundError):
        located(f"s3://{bucket}/nothing").read_bytes()
    assert len(proxy.requests) <= 4
