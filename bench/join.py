"""The exact join against faiss.IndexFlatIP: same rows, same machine, taking turns. See overlap.py.

    python bench/join.py [--rows "real" 100000] [--queries 1000] [--repeats 6]

Ours reads float16 rows from a .npy (page cache warm) on an engine with as many workers as cores;
planning counts. faiss gets the same rows as float32, already in memory (not timed), with as many
threads. Seconds on the wall, best of the repeats; and core seconds (this process and its workers), which
a busy machine moves less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from heldout.engine import open_engine
from heldout.overlap.images._join import Hits
from heldout.overlap.images._join_index import JoinIndex
from join_stream import join

THRESHOLD = 0.95
K = 5
TIE = 1e-5  # faiss' float32 sums differ from ours by less


def core_seconds() -> float:
    """Processor time so far, of this process and of the workers it has."""
    workers = psutil.Process().children(recursive=True)
    spent = [worker.cpu_times() for worker in workers]
    return time.process_time() + float(sum(times.user + times.system for times in spent))


def differing(
    hits: Hits,
    query: NDArray[np.int64],
    row: NDArray[np.int64],
    queries: NDArray[np.float32],
    corpus: NDArray[np.float16],
    k: int | None,
) -> int:
    """Pairs only one side has. Only ties of float32 may differ: anything else ends the benchmark."""
    width = len(corpus)
    ours = hits.query.astype(np.int64) * width + hits.position
    apart = np.setxor1d(ours, query * width + row)
    for one, place in zip(*np.divmod(apart, width), strict=True):
        exact = float(queries[one].astype(np.float64) @ corpus[place].astype(np.float64))
        bar = hits.similarity[hits.query == one][-1] if k else THRESHOLD
        if abs(exact - bar) > TIE:
            raise AssertionError(
                f"query {one}, row {place}: similarity {exact}, but the bar is {bar}"
            )
    return len(apart)


def compare(
    path: Path, queries: NDArray[np.float32], *, cores: int, repeats: int
) -> list[dict[str, Any]]:
    """Two lines: everything at or above THRESHOLD, and the K nearest."""
    import faiss

    faiss.omp_set_num_threads(cores)
    corpus = np.load(path, mmap_mode="r")
    flat = faiss.IndexFlatIP(corpus.shape[1])
    for first in range(0, len(corpus), 100_000):
        flat.add(corpus[first : first + 100_000].astype(np.float32))
    best: dict[str, float] = {}
    core: dict[str, float] = {}
    found: dict[str, Any] = {}

    def take(name: str, work: Callable[[], Any]) -> None:
        begun, used = time.perf_counter(), core_seconds()
        found[name] = work()
        best[name] = min(time.perf_counter() - begun, best.get(name, np.inf))
        core[name] = min(core_seconds() - used, core.get(name, np.inf))

    with open_engine("local", workers=cores) as engine:

        def ours(**options: Any) -> Hits:  # the index is built inside: planning counts
            return join(JoinIndex(queries, **options), [path], engine=engine)

        # Both sides start their threads or processes before the clock.
        join(JoinIndex(queries[:8], k=1), [path], engine=engine)
        flat.search(queries[:64], K)
        for _ in range(repeats):
            take("threshold", lambda: ours(threshold=THRESHOLD))
            take("range search", lambda: flat.range_search(queries, THRESHOLD))
            take("top-k", lambda: ours(k=K))
            take("search", lambda: flat.search(queries, K))
    limits, _, rows = found["range search"]
    owner = np.repeat(np.arange(len(queries)), np.diff(limits.astype(np.int64)))
    nearest = found["search"][1]
    everyone = np.repeat(np.arange(len(queries)), nearest.shape[1])
    lines = []
    for mode, peer, query, row, k in (
        ("threshold", "range search", owner, rows.astype(np.int64), None),
        ("top-k", "search", everyone, nearest.ravel().astype(np.int64), K),
    ):
        line = {
            "mode": mode,
            "queries": len(queries),
            "rows": len(corpus),
            "seconds": best[mode],
            "faiss": best[peer],
            "faiss top-k": best["search"],
            "core seconds": core[mode],
            "faiss core": core[peer],
            "hits": len(found[mode]),
            "differing": differing(found[mode], query, row, queries, corpus, k),
        }
        lines.append(line)
    return lines


def main() -> None:
    from embeddings import write_all

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs=2, default=["real", "100000"], metavar=("KIND", "COUNT"))
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=6)
    options = parser.parse_args()
    name, rows = options.rows[0], int(options.rows[1])
    with tempfile.TemporaryDirectory(prefix="heldout-join-") as temporary:
        folder = Path(temporary)
        made = write_all(folder, [(name, rows)])
        queries = np.load(folder / f"{name}-{rows}-queries.npy")[: options.queries]
        print(f"{len(queries):,} queries, {rows:,} {name} rows ({made})")
        for found in compare(
            folder / f"{name}-{rows}.npy", queries, cores=2, repeats=options.repeats
        ):
            print(
                f"{found['mode']:10} ours {found['seconds']:.2f} s ({found['core seconds']:.2f} core s), "
                f"faiss {found['faiss']:.2f} s ({found['faiss core']:.2f} core s): "
                f"{found['faiss'] / found['seconds']:.2f}x on the wall, "
                f"{found['faiss core'] / found['core seconds']:.2f}x in core time; "
                f"{found['hits']:,} hits, {found['differing']} differ"
            )
    print(f"load over 1, 5 and 15 minutes: {os.getloadavg()}")


if __name__ == "__main__":
    main()
