"""Nodes of a Ray cluster killed at random during a search: the tables are those of one process.

    python bench/nodes.py --shards 200 --kills 8
    python bench/nodes.py --shards 200 --kills 4 --autoscale

Starts a real cluster on this machine (a head and three nodes of one core each), writes a corpus of so many
tars with planted copies, searches it while nodes are killed without warning and replaced, and compares every
table and claim with those of a search in one process. With ``--autoscale`` the head has no core and there are no other
nodes: Ray's autoscaler starts up to three while tasks wait for them, and in the place of those that are killed (its
provider of nodes is the one for a single machine). Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
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


class GrowingCluster:
    """A head without cores whose autoscaler starts nodes of one core. Ray's AutoscalingCluster would stop every
    cluster on this machine when it starts and ends."""

    def __init__(self, folder: Path) -> None:
        self.address = f"{_own_address()}:{_free_port()}"
        node = {"resources": {"CPU": 1, "object_store_memory": STORE_BYTES}, "node_config": {}}
        head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
        config = {
            "cluster_name": "heldout-bench",
            "max_workers": NODES,
            "upscaling_speed": 1.0,
            "idle_timeout_minutes": 1.0,
            "provider": {
                "type": "fake_multinode",
                "use_node_id_as_ip": True,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
                "gcs_address": self.address,
            },
            "head_node_type": "ray.head.default",
            "available_node_types": {
                "ray.head.default": head,
                "core": {**node, "min_workers": 0, "max_workers": NODES},
            },
            "auth": {},
            "docker": {},
            "file_mounts": {},
            "file_mounts_sync_continuously": False,
            **{name: [] for name in _EMPTY},
        }
        (folder / "autoscaler.json").write_text(json.dumps(config))
        command = [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *("--num-cpus=0", f"--port={self.address.rpartition(':')[2]}"),
            *(f"--object-store-memory={STORE_BYTES}", "--include-dashboard=false"),
            *(f"--ray-client-server-port={_free_port()}", "--disable-usage-stats"),
            f"--autoscaling-config={folder / 'autoscaler.json'}",
            f"--system-config={json.dumps(QUICK_TO_NOTICE)}",
        ]
        with (folder / "ray.log").open("wb") as log:
            self._head = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env={**os.environ, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"},
            )
        host, _, port = self.address.partition(":")
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                return
            if self._head.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit((folder / "ray.log").read_text())

    def nodes(self) -> list[Any]:
        """The processes that are nodes, the head aside."""
        found = []
        for process in psutil.Process(self._head.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.name() == "raylet" and "--head" not in process.cmdline():
                    found.append(process)
        return found

    def shutdown(self) -> None:
        processes = psutil.Process(self._head.pid).children(recursive=True)
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.kill()
        self._head.kill()
        self._head.wait()
        psutil.wait_procs(processes, timeout=10)


_EMPTY = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "cluster_synced_files",
    "rsync_exclude",
    "rsync_filter",
)


class Reclaimer(Killer):
    """Kills nodes that an autoscaler started; it starts others when it notices."""

    def __init__(self, cluster: GrowingCluster, run: Path, total: int, kills: int) -> None:
        super().__init__(cluster, [], run, total, kills)
        self.seen: set[int] = set()
        self.most = 0

    def watch(self, searching: threading.Thread) -> None:
        while searching.is_alive():
            searching.join(0.2)
            nodes = self.cluster.nodes()
            self.seen |= {node.pid for node in nodes}
            self.most = max(self.most, len(nodes))
            done = self.finished()
            if self.moments and done >= self.moments[0] and nodes:
                self.moments.pop(0)
                self.draw.choice(nodes).kill()
                self.killed.append(done)


def _own_address() -> str:
    import ray

    return str(ray._private.services.get_node_ip_address())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def rehearse(folder: Path, shards: int, kills: int, autoscale: bool = False) -> dict[str, Any]:
    """Search on a cluster of dying nodes, and in one process; what differs, and how many died when."""
    from heldout.engine import LocalEngine, RayEngine
    from heldout.engine.ray_engine import import_ray

    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    ray = import_ray()
    from ray.cluster_utils import Cluster

    write_data(folder, shards)
    cluster: Any = GrowingCluster(folder) if autoscale else Cluster()
    killer: Killer
    try:
        if autoscale:
            killer = Reclaimer(cluster, folder / "ray", shards, kills)
        else:
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
    grown = (
        {"nodes_started": len(killer.seen), "nodes_at_once": killer.most}
        if isinstance(killer, Reclaimer)
        else {}
    )
    return {
        "shards": shards,
        **grown,
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
    parser.add_argument("--autoscale", action="store_true", help="nodes come when they are needed")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heldout-nodes-"))
    try:
        print(json.dumps(rehearse(folder, options.shards, options.kills, options.autoscale)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
