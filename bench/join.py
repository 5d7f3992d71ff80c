"""The exact join against faiss on the same embeddings, two cores, one run, one table.

    .venv/bin/python bench/join.py                       # minutes; --rows, --queries to change sizes
    .venv/bin/python bench/join.py --data pictures --shared ../shared/data

What is timed: ours reads float16 rows from a memory-mapped .npy (page cache warm), on an engine with
as many workers as --cores, planning included; faiss.IndexFlatIP gets the same rows as float32 already
in memory (conversion and add not timed), with as many threads. Wall-clock seconds, best of --repeats,
alternating. `pictures` are descriptors of random crops of the real images under --shared;
`encoder-like` have a mean vector, clusters and a power-law spectrum. Writes bench/out/join.json.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.engine import open_engine
from heldout.overlap.join import Hits, JoinIndex, join

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "join.json"
WIDTH = 512
THRESHOLD = 0.95
K = 5
Floats = NDArray[np.float32]


def encoder_like(count: int, seed: int) -> Floats:
    """Half the squared length is a common mean; of the rest, half the variance is in 50 axes.

    Mean cosine between rows 0.5, standard deviation 0.06. An assumption about the shape of
    CLIP-like embeddings, not fitted to any: no encoder's weights are needed to run this.
    """
    shape = np.random.default_rng(0)
    basis = np.linalg.qr(shape.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    scale = (np.arange(1, WIDTH + 1) ** -0.4).astype(np.float32)
    scale /= np.linalg.norm(scale)
    mean = shape.standard_normal(WIDTH).astype(np.float32)
    mean /= np.linalg.norm(mean)
    centres = shape.standard_normal((200, WIDTH)).astype(np.float32) * scale
    draw = np.random.default_rng(seed)
    noise = draw.standard_normal((count, WIDTH), dtype=np.float32) * scale
    spread = (0.6 * centres[draw.integers(0, 200, count)] + 0.8 * noise) @ basis.T
    return unit(np.sqrt(0.5, dtype=np.float32) * (mean + spread))


def pictures(shared: Path) -> Callable[[int, int], Floats]:
    """Descriptors of random crops of real images: 16 × 16 grey levels and their two gradients."""
    from PIL import Image

    files = [
        path
        for path in sorted(shared.rglob("*"))
        if path.suffix.lower() in {".jpg", ".jpeg", ".png"} and "copies" not in path.parts
    ]
    images = []
    for path in files:
        with Image.open(path) as image:
            images.append(image.convert("L").resize((128, 128)))
    mix = np.linalg.qr(np.random.default_rng(0).standard_normal((16 * 16 * 3, WIDTH)))[0]

    def make(count: int, seed: int) -> Floats:
        draw = np.random.default_rng(seed)
        levels = np.empty((count, 16, 16), np.float32)
        for number in range(count):
            side = draw.uniform(60, 128)
            left, top = draw.uniform(0, 128 - side, 2)
            image = images[draw.integers(len(images))]
            box = (left, top, left + side, top + side)
            levels[number] = np.asarray(image.resize((16, 16), Image.Resampling.BOX, box))
        levels -= levels.mean(axis=(1, 2), keepdims=True)
        parts: list[Any] = [levels, np.gradient(levels, axis=1), np.gradient(levels, axis=2)]
        flat = np.concatenate([unit(part.reshape(count, -1)) for part in parts], axis=1)
        return unit(flat @ mix.astype(np.float32))

    return make


def unit(rows: Floats) -> Floats:
    return np.asarray(
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), np.float32
    )


def plant(queries: Floats, corpus: NDArray[np.float16], share: float = 0.05) -> Floats:
    """Make some queries near copies of corpus rows, with cosines from 0.93 to 1."""
    draw = np.random.default_rng(7)
    count = int(len(queries) * share)
    rows = corpus[np.sort(draw.integers(0, len(corpus), count))].astype(np.float32)
    noise = unit(draw.standard_normal(rows.shape, dtype=np.float32))
    cosine = draw.uniform(0.93, 1, (count, 1)).astype(np.float32)
    queries[:count] = cosine * rows + np.sqrt(1 - cosine**2) * noise
    return unit(queries)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    value = work()
    return time.perf_counter() - begun, value


def compare(
    hits: Hits, other: set[tuple[int, int]], queries: Floats, corpus: NDArray[np.float16], k: int
) -> dict[str, Any]:
    """Pairs only one side found, and how far those are from the bar: float32 ties, or errors."""
    apart = sorted(pairs(hits) ^ other)
    gap = 0.0
    for query, row in apart:
        exact = float(queries[query].astype(np.float64) @ corpus[row].astype(np.float64))
        bar = hits.similarity[hits.query == query][-1] if k else THRESHOLD
        gap = max(gap, abs(exact - bar))
    return {"differing_pairs": len(apart), "largest_gap": gap}


def pairs(hits: Hits) -> set[tuple[int, int]]:
    return set(zip(hits.query.tolist(), hits.position.tolist(), strict=True))


def measure(path: Path, queries: Floats, cores: int, repeats: int) -> list[dict[str, Any]]:
    import faiss

    faiss.omp_set_num_threads(cores)
    corpus = np.load(path, mmap_mode="r")
    flat = faiss.IndexFlatIP(corpus.shape[1])
    for first in range(0, len(corpus), 100_000):
        flat.add(corpus[first : first + 100_000].astype(np.float32))
    best: dict[str, float] = {}
    found: dict[str, Any] = {}

    def take(name: str, work: Callable[[], Any]) -> None:
        spent, found[name] = seconds(work)
        best[name] = min(spent, best.get(name, spent))

    with open_engine("local", workers=cores) as engine:

        def ours(**options: Any) -> Hits:  # the index is built inside: planning counts
            return join(JoinIndex(queries, **options), [path], engine=engine)

        join(JoinIndex(queries[:8], k=1), [path], engine=engine)  # start workers
        for _ in range(repeats):
            take("threshold", lambda: ours(threshold=THRESHOLD))
            take("top-k", lambda: ours(k=K))
            take("faiss range", lambda: flat.range_search(queries, THRESHOLD))
            take("faiss top-k", lambda: flat.search(queries, K))
    limits, _, rows = found["faiss range"]
    owner = np.repeat(np.arange(len(queries)), np.diff(limits.astype(np.int64)))
    ranged = set(zip(owner.tolist(), rows.tolist(), strict=True))
    nearest = {(q, int(p)) for q, row in enumerate(found["faiss top-k"][1]) for p in row}
    table = []
    for name, peers, other in (
        ("threshold", ("faiss range", "faiss top-k"), ranged),
        ("top-k", ("faiss top-k",), nearest),
    ):
        entry: dict[str, Any] = {
            "mode": name, "queries": len(queries), "rows": len(corpus),
            "hits": len(found[name]), "seconds": round(best[name], 3),
            **compare(found[name], other, queries, corpus, K if name == "top-k" else 0),
            "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        for peer in peers:
            entry[peer] = round(best[peer], 3)
            entry[f"{peer} ratio"] = round(best[peer] / best[name], 2)
        table.append(entry)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=("encoder-like", "pictures"), default="encoder-like")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    make = encoder_like if options.data == "encoder-like" else pictures(options.shared)
    results = []
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "img_emb_0.npy"
            corpus = np.lib.format.open_memmap(path, "w+", np.float16, (rows, WIDTH))
            for seed, first in enumerate(range(0, rows, 20_000)):
                stop = min(first + 20_000, rows)
                corpus[first:stop] = make(stop - first, seed + 1)
            for count in options.queries:
                queries = plant(make(count, 1_000_000), corpus)
                for entry in measure(path, queries, options.cores, options.repeats):
                    print(json.dumps({"data": options.data, **entry}), flush=True)
                    results.append({"data": options.data, **entry})
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
