"""One item that cannot be done costs one item: not its shard, and not the truth of the counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_corpus import PER_SHARD, HostileCorpus

from heldout.audit import audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.engine import Engine, LocalEngine, RayEngine
from heldout.engine.ray_engine import import_ray
from heldout.image import ImageRef, InlineBytes
from heldout.store import UNREAD, Run

Picture = Callable[..., bytes]
SHARDS = 3
REASONS = {
    "memory": "out of memory",
    "depth": "cannot be processed",
    "bug": "cannot be processed",
    "kill": "killed its worker",
}


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "ray":
        import hostile_corpus

        cluster = request.getfixturevalue("ray_connection")
        pickler = import_ray().cloudpickle
        pickler.register_pickle_by_value(hostile_corpus)
        with RayEngine(cluster.address, workers=2) as chosen:
            yield chosen
        pickler.unregister_pickle_by_value(hostile_corpus)
        return
    with LocalEngine(1) as serial:
        yield serial


def pictures(picture: Picture, count: int = SHARDS * PER_SHARD) -> list[bytes]:
    return [picture(number) for number in range(count)]


def bench(picture: Picture, *numbers: int) -> Benchmark:
    examples = tuple(
        Example(
            f"b{n}",
            (ImageRef(str(n), InlineBytes(picture(n), str(n))),),
            f"What can be seen in picture {n}?",
            answer="x",
        )
        for n in numbers
    )
    return Benchmark("bench", examples)


def unread(counts: dict[str, int]) -> int:
    """Files, archives and folders that were not read."""
    return sum(count for key, count in counts.items() if key.startswith(UNREAD))


def scanned(run: Run) -> dict[str, object]:
    (stage,) = run.manifest()["stages"].values()
    return dict(stage)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("engine", "how"),
    [
        *(("serial", how) for how in ("memory", "depth", "bug")),
        pytest.param("ray", "kill", marks=pytest.mark.ray),
    ],
    indirect=["engine"],
)
def test_an_item_that_fails_is_lost_alone(
    tmp_path: Path, picture: Picture, engine: Engine, how: str
) -> None:
    corpus = HostileCorpus(pictures(picture), {PER_SHARD + 7: how})
    run = Run.create(tmp_path / "run")
    benchmark = bench(picture, 3, PER_SHARD + 6, PER_SHARD + 8, 2 * PER_SHARD + 5)
    audit_overlap(benchmark, [corpus], run, engine, text=False, quiet=True)
    stage = scanned(run)
    counts = stage["counts"]
    assert stage["failed"] == {}
    assert (counts["items"], counts["images"]) == (SHARDS * PER_SHARD, SHARDS * PER_SHARD - 1)
    assert counts["lost_items"] == 1 and not unread(counts)
    found = {row["benchmark_id"] for row in run.read_table("matches").to_pylist()}
    assert found == {example.id for example in benchmark}
    dropped = run.read_table("dropped").to_pylist()
    assert [(row["id"], row["reason"]) for row in dropped] == [
        (f"item {PER_SHARD + 7}", REASONS[how])
    ]


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("forked_workers")
def test_what_worker_processes_lose_is_tried_again_and_found(
    tmp_path: Path, picture: Picture
) -> None:
    """A shard cut short, an item that kills whoever scans or encodes it, and one for which memory ran out,
    which may be there the next time: no shard of theirs is finished for good."""
    pytest.importorskip("cv2", reason="telling copies from look-alikes needs heldout[vision]")
    run = Run.create(tmp_path / "run")
    killer, hungry = PER_SHARD + 7, 2 * PER_SHARD + 1
    large = [picture(number, size=(64, 64)) for number in range(SHARDS * PER_SHARD)]
    corpus = HostileCorpus(large, {killer: "kill", hungry: "memory"}, reader_fails_at=9)
    kept = (3, 8, killer - 1, killer + 1, hungry + 1)
    benchmark = bench(lambda number: large[number], *kept, killer, hungry)
    near: dict[str, Any] = {"encoder": "pixels", "nearest": 2, "text": False}

    def matched() -> set[str]:
        rows = run.read_table("matches").to_pylist()
        return {row["benchmark_id"] for row in rows if row["relation"] == "same image"}

    with LocalEngine(2) as engine:
        audit_overlap(benchmark, [corpus], run, engine, quiet=True, **near)
        stage = scanned(run)
        assert stage["failed"] == {}
        assert stage["counts"]["images"] == SHARDS * PER_SHARD - 3 - 2
        # Lost by the scan and by the encoder, once in all; of the shard nobody knows how many.
        assert (stage["counts"]["lost_items"], unread(stage["counts"])) == (2, 1)
        assert matched() == {f"b{number}" for number in kept}
        dropped = {row["id"]: row["reason"] for row in run.read_table("dropped").to_pylist()}
        assert dropped == {
            "shard 0": "shard cut short",
            f"item {killer}": REASONS["kill"],
            f"item {hungry}": REASONS["memory"],
        }
        matrices = run.path.glob("embeddings/**/img_emb_*.npy")
        vectors = sorted(len(np.load(matrix)) for matrix in matrices)
        assert vectors == [9, PER_SHARD - 1, PER_SHARD - 1]
        claim = run.read_json("claims.json")["claims"][0]
        coverage = next(c for c in claim["controls"] if c["name"] == "corpus coverage")
        assert "; 2 items could not be read" in coverage["reason"]
        corpus.deadly.clear()
        corpus.reader_fails_at = None
        audit_overlap(benchmark, [corpus], run, engine, quiet=True, **near)
    assert scanned(run)["counts"]["lost_items"] == 0
    assert matched() == {example.id for example in benchmark}
    assert len(run.read_table("dropped")) == 0


def test_where_too_much_is_lost_nothing_is_called_clean(tmp_path: Path, picture: Picture) -> None:
    run = Run.create(tmp_path / "run")
    deadly = dict.fromkeys((1, PER_SHARD + 1), "bug")
    corpus = HostileCorpus(pictures(picture), deadly)
    with LocalEngine(1) as engine:
        audit_overlap(bench(picture, 999), [corpus], run, engine, text=False, quiet=True)
    assert scanned(run)["counts"]["lost_items"] == 2
    (claim,) = run.read_json("claims.json")["claims"]
    assert claim["status"] != "clean"


def test_what_stands_before_the_row_a_reader_fails_at_is_kept(
    tmp_path: Path, picture: Picture
) -> None:
    run = Run.create(tmp_path / "run")
    corpus = HostileCorpus(pictures(picture), reader_fails_at=PER_SHARD + 9)
    with LocalEngine(1) as engine:
        audit_overlap(bench(picture, PER_SHARD + 8), [corpus], run, engine, quiet=True)
    stage = scanned(run)
    assert stage["failed"] == {}
    assert stage["counts"]["images"] == SHARDS * PER_SHARD - 3
    assert unread(stage["counts"]) == 1  # nobody knows how many
    assert len(run.read_table("matches")) == 1
    (dropped,) = [r for r in run.read_table("dropped").to_pylist() if r["stage"] == "corpus"]
    assert (dropped["id"], dropped["reason"]) == ("shard 1", "shard cut short")
    assert "after 9 items" in dropped["detail"]
    texts = run.manifest()["text"]["hostile"]
    assert texts["failed"] == {}
    assert texts["counts"]["text_items"] == SHARDS * PER_SHARD - 3
    assert unread(texts["counts"]) == 1
    assert all(claim["status"] != "clean" for claim in run.read_json("claims.json")["claims"])


def test_a_corpus_of_which_everything_fails_is_not_tried_item_by_item(
    tmp_path: Path, picture: Picture
) -> None:
    corpus = HostileCorpus(pictures(picture, PER_SHARD), dict.fromkeys(range(PER_SHARD), "exit"))
    run = Run.create(tmp_path / "run")
    with LocalEngine(1) as engine:
        audit_overlap(bench(picture, 3), [corpus], run, engine, text=False, quiet=True)
    stage = scanned(run)
    assert list(stage["failed"]) == ["shard 0"]
    assert "SystemExit" in stage["failed"]["shard 0"]


def huge_png(path: Path, side: int) -> None:
    """A picture of side x side colours in a small file, written line by line."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return len(data).to_bytes(4, "big") + kind + data + check.to_bytes(4, "big")

    packer = zlib.compressobj(6)
    packed = b"".join(
        packer.compress(b"\0" + bytes([row % 251, 9, 7]) * side) for row in range(side)
    )
    header = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", packed + packer.flush())
        + chunk(b"IEND", b"")
    )


LOW_MEMORY = """
import json, re, resource, sys
from pathlib import Path
from typing import Any
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.overlap.images.exact import build_index, scan_shard
from heldout.overlap.images.embedding_rows import pictures_of
from heldout.overlap.images.hashes import build_hash_index

benchmark, corpus = read_benchmark("bench"), open_corpus("corpus")
index, hashes = build_index(benchmark)[0], build_hash_index(pictures_of(benchmark))
(shard,) = corpus.shards()
(small,) = open_corpus("small").shards()
scan_shard(index, hashes, open_corpus("small"), small)  # libraries are loaded, threads started
now = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (now + (200 << 20),) * 2)
result = scan_shard(index, hashes, corpus, shard)
told = {"counts": result.counts, "dropped": result.tables["dropped"].to_pylist()}
print(json.dumps({**told, "matches": len(result.tables["matches"])}))
"""


@pytest.mark.timeout(900)
def test_a_picture_of_81_megapixels_under_low_memory_is_lost_alone(
    tmp_path: Path, picture: Picture
) -> None:
    for folder in ("bench", "corpus", "small"):
        (tmp_path / folder).mkdir()
    row = {"id": "a", "image": "a.png", "question": "What is it?", "answer": "x"}
    (tmp_path / "bench/test.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "bench/a.png").write_bytes(picture(3))
    (tmp_path / "small/a.png").write_bytes(picture(9))
    for number in range(6):
        (tmp_path / f"corpus/{number}.png").write_bytes(picture(number))
    huge_png(tmp_path / "corpus/2b.png", 9_000)
    done = subprocess.run(
        [sys.executable, "-c", LOW_MEMORY],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["counts"]["images"], result["counts"]["lost_items"]) == (6, 1)
    assert [(one["id"], one["reason"]) for one in result["dropped"]] == [
        ("2b.png", "out of memory")
    ]
    assert result["matches"] == 1
    assert result["counts"]["missing"] == 1  # the next run tries it again
