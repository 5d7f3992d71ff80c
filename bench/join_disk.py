"""Embeddings on disk through the join on a GPU: against the slower of the disk and the GPU, each alone.

    python bench/join_disk.py                                       # 1,000 × 16 million × 512, half precision: 16 GB
    python bench/join_disk.py --rows 200000 --shard 50000 --device cpu     # does it run

Rows lie in .npy files of --shard rows and are joined as a search joins them: one task a file, in worker processes
that each read a file and hand it to the GPU. The disk alone: as many processes read the same files. The GPU alone: the
same processes join a file that each holds in memory, copied to the device each time. "Cold" means that the files'
pages were dropped from the page cache just before. Hits are compared with those of the last number of workers.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.engine import Engine, open_engine
from heldout.overlap.images._join import Hits
from heldout.overlap.images._join_gpu import gpu_scan
from heldout.overlap.images._join_index import JoinIndex
from scale import mixed
from streaming import READ, forget

OUT = Path(__file__).resolve().parents[1] / "bench" / "out" / "join_disk.json"
WIDTH = 512
KINDS = ("disk", "gpu", "join")


def write_rows(folder: Path, shard: int, number: int) -> str:
    path = folder / f"{number:05d}.npy"
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, mixed(shard, 0, number).astype(np.float16))
            file.flush()
            os.fsync(file.fileno())  # pages that are not written cannot be dropped
        part.rename(path)
    return str(path)


@functools.lru_cache(maxsize=1)
def held(path: str) -> NDArray[np.float16]:
    rows: NDArray[np.float16] = np.load(path)
    return rows


def scanned(join: JoinIndex, rows: NDArray[Any], device: str) -> Hits:
    hits = gpu_scan(join, rows, None, device)
    if hits is None:
        raise AssertionError("the GPU failed; the log says why")
    return hits


def work(join: JoinIndex, kind: str, device: str, first: str, path: str) -> Hits:
    """One file: read plainly, or joined from memory, or read and joined."""
    if kind == "disk":
        buffer = bytearray(READ)
        with Path(path).open("rb", buffering=0) as file:
            while file.readinto(buffer):
                continue
        return Hits.empty()
    return scanned(join, held(first) if kind == "gpu" else np.load(path), device)


def seconds(
    engine: Engine, join: JoinIndex, kind: str, device: str, paths: list[str]
) -> tuple[float, dict[str, Hits]]:
    for path in paths:
        forget(Path(path))
    body = functools.partial(work, join, kind, device, paths[0])
    begun = time.perf_counter()
    hits = {}
    for outcome in engine.map(body, paths):
        if outcome.value is None:
            raise AssertionError(f"{outcome.task}: {outcome.error}")
        hits[outcome.task] = outcome.value
    return time.perf_counter() - begun, hits


def equal(one: dict[str, Hits], other: dict[str, Hits]) -> bool:
    fields = ("query", "position", "similarity", "unusable")
    return one.keys() == other.keys() and all(
        np.array_equal(getattr(one[path], name), getattr(other[path], name))
        for path in one
        for name in fields
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--shard", type=int, default=250_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=2, help="after one that starts the workers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, help="where the rows are made and kept")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heldout-disk-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = range(-(-options.rows // options.shard))
        with open_engine("local") as engine:
            made = list(engine.map(functools.partial(write_rows, folder, options.shard), numbers))
        if any(outcome.value is None for outcome in made):
            raise AssertionError(next(outcome.error for outcome in made if outcome.value is None))
        paths = sorted(str(outcome.value) for outcome in made)
        gigabytes = sum(Path(path).stat().st_size for path in paths) / 1e9
        join = JoinIndex(mixed(options.queries, 0, 10**6), k=5, threshold=0.95)
        lines: list[dict[str, Any]] = []
        found: dict[str, Hits] = {}
        same = True
        for workers in options.workers:
            best = dict.fromkeys(KINDS, float("inf"))
            with open_engine("local", workers=workers) as engine:
                for number in range(options.rounds + 1):
                    for kind in KINDS:
                        some = paths if number else paths[: 2 * workers]
                        spent, hits = seconds(engine, join, kind, options.device, some)
                        if number:
                            best[kind] = min(best[kind], spent)
                            if kind == "join":
                                same = same and (not found or equal(found, hits))
                                found = hits
            line: dict[str, Any] = {"workers": workers}
            line |= {f"{kind}_gb_per_s": round(gigabytes / best[kind], 3) for kind in KINDS}
            line["share"] = round(max(best["disk"], best["gpu"]) / best["join"], 3)
            lines.append(line)
            print(json.dumps(line), flush=True)
    result = {
        "shape": [options.queries, options.shard * len(paths), WIDTH],
        "files": len(paths),
        "gigabytes": round(gigabytes, 2),
        "device": options.device,
        "hits": sum(map(len, found.values())),
        "same_hits": same,
        "workers": lines,
    }
    print(json.dumps(result, indent=1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
