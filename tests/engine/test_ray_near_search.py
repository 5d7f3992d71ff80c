"""A near search on a real Ray cluster, of which one node is killed: the tables stay the same."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import Engine, LocalEngine, RayEngine
from heldout.store import Run, saved_shards
from ray_nodes import RayCluster

pytest.importorskip("cv2", reason="registration needs heldout[vision]")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

TABLES = ("items", "matches", "dropped", "thumbnails")


def search(data: Path, run: Path, engine: Engine) -> None:
    corpus = open_corpus(data / "corpus", name="corpus")
    bench = read_benchmark(data / "bench")
    audit_overlap(bench, [corpus], run, engine, encoder="pixels", nearest=2, text=False, quiet=True)


def test_a_near_search_survives_the_death_of_a_node(
    ray_connection: RayCluster, near_data: Path, tmp_path: Path
) -> None:
    doomed = ray_connection.add_node()
    ray_connection.cluster.wait_for_nodes()
    killed = []

    def kill_when_embedding() -> None:
        deadline = time.monotonic() + 800
        while time.monotonic() < deadline:
            done = len(list((tmp_path / "ray").glob("embeddings/**/*.npy")))
            if done >= 3:
                ray_connection.cluster.remove_node(doomed, allow_graceful=False)
                killed.append(done)
                return
            time.sleep(0.02)

    watcher = threading.Thread(target=kill_when_embedding)
    watcher.start()
    with RayEngine(ray_connection.address) as engine:
        search(near_data, tmp_path / "ray", engine)
    watcher.join()
    assert killed and killed[0] < 15, "the node was to die while the corpus was being embedded"
    with LocalEngine(1) as serial:
        search(near_data, tmp_path / "local", serial)
        assert_same(tmp_path / "ray", tmp_path / "local")
        # Interrupted on the cluster, it is finished here.
        log = tmp_path / "ray/stages/overlap/corpus/shards.log"
        kept = sorted(saved_shards(log.parent).values())
        log.write_bytes(log.read_bytes()[: kept[len(kept) // 2] + 9])
        shutil.rmtree(tmp_path / "ray/tables")
        search(near_data, tmp_path / "ray", serial)
    assert_same(tmp_path / "ray", tmp_path / "local")
    (stage,) = Run.open(tmp_path / "ray").manifest()["stages"].values()
    assert stage["reused"] == len(kept) // 2


def assert_same(*runs: Path) -> None:
    for name in TABLES:
        ours, theirs = (run / f"tables/{name}.parquet" for run in runs)
        assert ours.read_bytes() == theirs.read_bytes(), name
