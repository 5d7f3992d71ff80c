"""Nodes of a Ray cluster killed at random during a search: the tables are those of one process.

    python bench/nodes.py --shards 200 --kills 8

Starts a real cluster on this machine (a head and three nodes of one core each), writes a corpus of so many
tars with planted copies, searches it while nodes are killed without warning and replaced, and compares every
table and claim with those of a search in one process. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import secrets
import shutil
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

NODES = 3
STORE_BYTES = 100_000_000
QUICK_TO_NOTICE = {  # a dead node, which by default takes fifteen seconds
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_failure_threshold": 3,
}
TABLES = ("items", "matches", "dropped", "thumbnails", "text_matches", "text_queries", "leaks")
PICTURES = 10


def write_data(folder: Path, shards: int, per_shard: int = 3, side: int = 96) -> None:
    """``bench`` with PICTURES pictures; ``corpus`` of tars, every tenth of them with a disguised copy."""
    rng = np.random.default_rng(0)

    def texture() -> Image.Image:
        layers = [
            Image.fromarray(rng.integers(0, 256, (cells, cells), dtype=np.uint8)).resize(
                (side, side)
            )
            for cells in (6, 16, 40)
        ]
        return Image.fromarray(np.mean([np.asarray(layer) for layer in layers], 0).astype("u1"))

    (folder / "bench").mkdir(parents=True)
    (folder / "corpus").mkdir()
    ours = [texture() for _ in range(PICTURES)]
    rows = []
    for number, image in enumerate(ours):
        image.save(folder / f"bench/{number}.png")
        question = (
            f"Which of the {number + 3} structures in this picture lies to the left of the centre?"
        )
        rows.append({"id": number, "image": f"{number}.png", "question": question, "answer": "a"})
    (folder / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for shard in range(shards):
        pictures = [texture() for _ in range(per_shard)]
        words = f"caption number {shard} of a picture that nobody asked about"
        if shard % 10 == 3:
            known = ours[shard // 10 % PICTURES]
            pictures[1] = ImageOps.mirror(known) if shard % 20 == 3 else known.resize((150, 150))
            words = rows[shard // 10 % PICTURES]["question"]  # type: ignore[assignment]
        with tarfile.open(folder / f"corpus/{shard:05d}.tar", "w") as tar:
            for index, picture in enumerate(pictures):
                buffer = io.BytesIO()
                picture.save(buffer, "JPEG", quality=85)
                for ending, data in (("jpg", buffer.getvalue()), ("txt", words.encode())):
                    member = tarfile.TarInfo(f"{index}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def search(folder: Path, run: Path, engine: Any) -> None:
    from heldout.audit import audit_overlap

    audit_overlap(
        folder / "bench",
        f"corpus={folder / 'corpus'}",
        run,
        engine,
        encoder="pixels",
        nearest=2,
        text_encoder="none",
        quiet=True,
    )


class Killer:
    """Kills a node and adds another one, at random moments, while a search runs in a thread: Ray starts
    nodes from the main one alone."""

    def __init__(self, cluster: Any, nodes: list[Any], run: Path, total: int, kills: int) -> None:
        self.cluster, self.nodes, self.run_folder = cluster, nodes, run
        draw = random.Random(total)
        # In shards finished, over all stages: the moments lie all over the search.
        self.moments = sorted(draw.randrange(1, 3 * total) for _ in range(kills))
        self.draw = draw
        self.killed: list[int] = []

    def finished(self) -> int:
        from heldout.store import saved_shards

        folders = [path.parent for path in self.run_folder.glob("stages/**/shards.log")]
        return sum(len(saved_shards(folder)) for folder in folders)

    def watch(self, searching: threading.Thread) -> None:
        while self.moments and searching.is_alive():
            searching.join(0.1)
            done = self.finished()
            if done >= self.moments[0]:
                self.moments.pop(0)
                node = self.nodes.pop(self.draw.randrange(len(self.nodes)))
                self.cluster.remove_node(node, allow_graceful=False)
                self.killed.append(done)
                self.nodes.append(add_node(self.cluster))


def add_node(cluster: Any, **more: Any) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES, **more)


def rehearse(folder: Path, shards: int, kills: int) -> dict[str, Any]:
    """Search on a cluster of dying nodes, and in one process; what differs, and how many died when."""
    from heldout.engine import LocalEngine, RayEngine
    from heldout.engine.ray_engine import import_ray

    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = import_ray()
    from ray.cluster_utils import Cluster

    write_data(folder, shards)
    cluster = Cluster()
    try:
        add_node(cluster, include_dashboard=False, _system_config=QUICK_TO_NOTICE)
        nodes = [add_node(cluster) for _ in range(NODES)]
        cluster.wait_for_nodes()
        killer = Killer(cluster, nodes, folder / "ray", shards, kills)
        begun = time.perf_counter()
        with RayEngine(cluster.address) as engine:
            searching = threading.Thread(target=search, args=(folder, folder / "ray", engine))
            searching.start()
            killer.watch(searching)
            searching.join()
        seconds = time.perf_counter() - begun
    finally:
        ray.shutdown()
        cluster.shutdown()
    with LocalEngine(1) as serial:
        search(folder, folder / "local", serial)
    names = [f"tables/{name}.parquet" for name in TABLES] + ["claims.json", "findings.json"]
    differ = [
        name
        for name in names
        if (folder / "ray" / name).read_bytes() != (folder / "local" / name).read_bytes()
    ]
    manifest = json.loads((folder / "ray/manifest.json").read_text())
    (stage,) = manifest["stages"].values()
    return {
        "shards": shards,
        "killed": len(killer.killed),
        "killed_at": killer.killed,
        "failed_shards": len(stage["failed"]),
        "seconds": seconds,
        "differ": differ,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--kills", type=int, default=8)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heldout-nodes-"))
    try:
        print(json.dumps(rehearse(folder, options.shards, options.kills)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
