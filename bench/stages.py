"""Comparing and embedding at the same time, against one after the other: seconds, and the same rows.

    python bench/stages.py                          # a Ray cluster of two nodes on this machine
    python bench/stages.py --engine local --workers 16 --shape l14 --shards 96 --pictures 64

The cluster is real, its GPU is not: one node has a core, the other has a core and says that it has a GPU, so that only
it embeds (the tower of a small CLIP with random weights, on its core). With ``local``, workers of this machine
share its GPU. Each way searches a corpus of tars until it is compared, embedded and joined, the workers started by a
search before; the best round of each counts. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import secrets
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from embedding import SHAPES, clip_b32
from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import Engine, Kind, LocalEngine, Outcome, RayEngine
from heldout.overlap import NearSearch
from heldout.overlap.images.scan import _ShardSearch
from heldout.store import Run
from nodes import STORE_BYTES, write_data

SHAPES["small"] = {
    "hidden_size": 192,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


class OneAfterTheOther:
    """An engine that ends one kind of tasks before it begins the next."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.name = engine, engine.name
        self.map = engine.map

    def map_kinds(
        self, kinds: Sequence[Kind[Any, Any]], *, tries: int = 3
    ) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
        for place, kind in enumerate(kinds):
            for outcome in self._engine.map(
                kind.function, kind.tasks, tries=tries, on_gpu=kind.on_gpu
            ):
                yield place, outcome


@contextlib.contextmanager
def cluster_of_two() -> Iterator[Engine]:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    from heldout.engine.ray_engine import import_ray

    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        store = {"object_store_memory": STORE_BYTES}
        cluster.add_node(num_cpus=1, include_dashboard=False, **store)
        cluster.add_node(num_cpus=1, num_gpus=1, **store)
        cluster.wait_for_nodes()
        with RayEngine(cluster.address) as engine:
            yield engine
    finally:
        ray.shutdown()
        cluster.shutdown()


def search(
    benchmark: Benchmark, corpus: Path, run: Path, engine: Any, spec: str
) -> tuple[float, str]:
    """Seconds from the first shard to the last row that is joined, and a digest of what was written."""
    record = Run.create(run, command=["bench/stages.py"])
    with record.writing():
        near = NearSearch(spec, 2)
        shards = _ShardSearch.of(benchmark, record, engine, near, True, True)
        begun = time.perf_counter()
        result, stage, neighbours = shards.search(open_corpus(corpus, name="corpus"))
        seconds = time.perf_counter() - begun
    if result.failed or neighbours is None or neighbours.failed:
        raise SystemExit(f"failed: {result.failed}")
    total = hashlib.sha256()
    for path in sorted((run / "embeddings").rglob("*.npy")):
        total.update(path.read_bytes())
    for each in (stage, neighbours.stage):
        tables = [
            table for name in ("matches", "candidates", "dropped") for table in each.parts(name)
        ]
        total.update(json.dumps([table.to_pylist() for table in tables]).encode())
    return seconds, total.hexdigest()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    write_data(folder, options.shards, options.pictures, options.side)
    write_data(folder / "first", 4, 2)
    spec = clip_b32(folder / "clip", options.shape)
    benchmark = read_benchmark(folder / "bench")
    benchmark.identify(lambda: None)
    opened = cluster_of_two() if options.engine == "cluster" else LocalEngine(options.workers)
    ways: dict[str, list[float]] = {"one after the other": [], "at the same time": []}
    wrote = set()
    with opened as engine:
        search(benchmark, folder / "first/corpus", folder / "warm", engine, spec)
        for number in range(options.rounds):
            for way, seconds in ways.items():
                chosen = OneAfterTheOther(engine) if way == "one after the other" else engine
                run = folder / f"{way.replace(' ', '-')}-{number}"
                spent, digest = search(benchmark, folder / "corpus", run, chosen, spec)
                seconds.append(spent)
                wrote.add(digest)
    return {
        "shards": options.shards,
        "pictures": options.shards * options.pictures,
        **{way: round(min(seconds), 1) for way, seconds in ways.items()},
        "all": {way: [round(each, 1) for each in seconds] for way, seconds in ways.items()},
        "same": len(wrote) == 1,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=("cluster", "local"), default="cluster")
    parser.add_argument("--workers", type=int, help="of the local engine")
    parser.add_argument("--shape", choices=list(SHAPES), default="small")
    parser.add_argument("--shards", type=int, default=40)
    parser.add_argument("--pictures", type=int, default=24, help="of a shard")
    parser.add_argument("--side", type=int, default=384, help="pixels of a picture")
    parser.add_argument("--rounds", type=int, default=3)
    with tempfile.TemporaryDirectory(prefix="heldout-stages-") as folder:
        print(json.dumps(measure(parser.parse_args(), Path(folder))))


if __name__ == "__main__":
    main()
