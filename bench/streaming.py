"""The exact join from disk: memory against corpus size, time per row, and the speed of plain reading.

Every measurement of memory is taken in a process of its own. "cold" means that the file's pages were
dropped from the page cache just before (posix_fadvise), for the plain reader likewise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

READ = 8 * 2**20


def peak(path: Path, queries: Path, count: int, memory: int) -> dict[str, float]:
    """Peak resident memory (MiB) that a join adds to a process, and its seconds."""
    command = [sys.executable, __file__, str(path), str(queries), str(count), str(memory)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def forget(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_plainly(path: Path) -> float:
    """Seconds to read the whole file into one buffer, again and again."""
    buffer = bytearray(READ)
    begun = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            continue
    return time.perf_counter() - begun


def speeds(
    path: Path, queries: Path, counts: list[int], *, cores: int, repeats: int
) -> list[dict[str, Any]]:
    """Cold, MB/s: plain reading, and the threshold join with each number of queries."""
    from heldout.engine import open_engine
    from heldout.overlap.images._join_index import JoinIndex
    from join import THRESHOLD
    from join_stream import join

    asked = np.load(queries)
    megabytes = path.stat().st_size / 1e6
    best: dict[int, float] = {}
    with open_engine("local", workers=cores) as engine:
        join(JoinIndex(asked[:8], k=1), [path], engine=engine)  # start the workers
        for _ in range(repeats):
            for count in (0, *counts):
                forget(path)
                begun = time.perf_counter()
                if count:
                    join(JoinIndex(asked[:count], threshold=THRESHOLD), [path], engine=engine)
                    spent = time.perf_counter() - begun
                else:
                    spent = read_plainly(path)
                best[count] = min(spent, best.get(count, spent))
    return [
        {"queries": count, "mb_per_s": megabytes / best[count], "plain": megabytes / best[0]}
        for count in counts
    ]


def main(path: str, queries: str, count: str, memory: str) -> None:
    from heldout.overlap.images._join_index import JoinIndex
    from join import THRESHOLD
    from join_stream import join
    from memory import peak_mib

    asked = np.load(queries)[: int(count)]
    index = JoinIndex(asked, k=5, threshold=THRESHOLD)
    before = peak_mib()
    begun = time.perf_counter()
    hits = len(join(index, [Path(path)], memory=int(memory)))
    spent = time.perf_counter() - begun
    found = {"before": before, "peak": peak_mib(), "seconds": spent, "hits": hits}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
