"""Datasets on the hub, through a server that speaks the hub's routes: read by range, pinned to a commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import servers
from test_remote_corpora import contents, parquet

from heldout.corpus import open_corpus
from heldout.remote import located

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = """
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus, read_items
for name in ("hf://datasets/owner/set", "hf://datasets/owner/set@main"):
    corpus = open_corpus(name)
    print(corpus.name, corpus.source)
    for shard in corpus.shards():
        for item in read_items(corpus, shard):
            if item.image is None:  # the card
                continue
            print(item.id, item.text, len(item.image.read()))
benchmark = read_benchmark("hf://datasets/owner/set", mapping={"question": "caption"})
print(benchmark.name, benchmark.source, len(benchmark), len(benchmark.images[2].read()))
"""


def test_a_dataset_on_the_hub_is_read_by_range_and_pinned(tmp_path: Path, picture) -> None:
    folder = tmp_path / "set"
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("# a card")
    parquet(folder / "data", picture)
    with servers.serving(servers.hub_server(folder, "owner/set", COMMIT)) as hub:
        # huggingface_hub reads its endpoint when it is imported
        environment = {**os.environ, "HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_TELEMETRY": "1"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first == f"set hf://datasets/owner/set@{COMMIT}"
    lengths = [len(item[2]) for item in contents(open_corpus(folder)) if item[2]]
    items = [f"data/part.parquet/{n + 1} caption {n} {lengths[n]}" for n in range(9)]
    assert rest[:9] == items
    assert rest[9:19] == [first, *items]
    assert rest[19] == f"set hf://datasets/owner/set@{COMMIT} 9 {lengths[2]}"
    files = [(path, span) for path, span in hub.seen if "resolve" in path]
    assert files
    assert all(COMMIT in path and span for path, span in files)


def test_the_folder_of_an_owner_is_not_asked_for_again_and_again() -> None:
    with pytest.raises(FileNotFoundError, match="owner"):
        list(located("hf://datasets/owner").iterdir())


def test_a_snapshot_in_the_hubs_cache_on_disk_reads_through_its_links(
    tmp_path: Path, picture
) -> None:
    blobs = tmp_path / "datasets--owner--set" / "blobs"
    snapshot = tmp_path / "datasets--owner--set" / "snapshots" / COMMIT
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number in range(3):
        (blobs / f"blob{number}").write_bytes(picture(number))
        (snapshot / f"{number}.png").symlink_to(f"../../blobs/blob{number}")
    (snapshot / "bad.png").symlink_to("/etc/hostname")
    read = contents(open_corpus(snapshot))
    assert [item[1:3] for item in read if len(item) > 2] == [
        (f"{number}.png", picture(number)) for number in range(3)
    ]
    assert ("bad.png", "link outside the corpus") in read
