"""Speed and memory of image overlap, one table: join, streaming, fingerprints, embedding, GPU.

    python bench/overlap.py                      # about ten minutes on two quiet cores
    python bench/overlap.py --only join stream   # some sections
    python bench/overlap.py --large              # also 10,000 queries x 1,000,000 rows against faiss
    python bench/join.py --repeats 6             # the first lines of the join alone, with core times

Ours and the peer take turns in the same run and each one's best counts, so that a busy machine harms
both alike; a ratio on a busy machine is still not a measurement. Every section runs in a process of
its own, without the thread variables of your shell: OPENBLAS_NUM_THREADS=2 in the environment would
give each of our two workers two threads for its one core, and costs a factor of several. Peers come
with `pip install -e '.[bench]'`. Rows: see embeddings.py. Writes bench/out/overlap.json.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "overlap.json"
CORES = 2
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")
SIZES = [("real", 100_000), ("made up", 100_000), ("fitted", 300_000), ("fitted", 1_000_000)]
Line = dict[str, str]


def line(what: str, size: str, ours: str, peer: str, ratio: float | None, asked: str) -> Line:
    shown = "" if ratio is None else f"{ratio:.2f}x"
    return {"what": what, "size": size, "ours": ours, "peer": peer, "ratio": shown, "asked": asked}


def join_lines(folder: Path, large: bool) -> Iterator[Line]:
    import numpy as np

    from join import THRESHOLD, K, compare

    plan = [(1000, *SIZES[0], 4), (1000, *SIZES[1], 4), (2000, *SIZES[2], 2), (1000, *SIZES[3], 2)]
    if large:
        plan.append((10_000, *SIZES[3], 1))
    for count, name, rows, repeats in plan:
        queries = np.load(folder / f"{name}-{rows}-queries.npy")[:count]
        path = folder / f"{name}-{rows}.npy"
        for found in compare(path, queries, cores=CORES, repeats=repeats):
            top = found["mode"] == "top-k"
            what = f"top-{K} against search" if top else f"≥ {THRESHOLD} against range search"
            same = "same pairs" if not found["differing"] else f"{found['differing']} ties differ"
            yield line(
                f"join, {what}",
                f"{count:,} × {rows:,} × 512 {name}; {found['hits']:,} hits, {same}",
                f"{found['seconds']:.2f} s ({found['core seconds']:.2f} core s)",
                f"{found['faiss']:.2f} s ({found['faiss core']:.2f} core s)",
                found["faiss"] / found["seconds"],
                "1x" if top else "4x",
            )
            if not top:
                yield line(
                    f"join, ≥ {THRESHOLD} against top-{K} search",
                    f"{count:,} × {rows:,} × 512 {name}",
                    f"{found['seconds']:.2f} s",
                    f"{found['faiss top-k']:.2f} s",
                    found["faiss top-k"] / found["seconds"],
                    "4x",
                )


def stream_lines(folder: Path, large: bool) -> Iterator[Line]:
    from streaming import peak, speeds

    sizes = [SIZES[0], SIZES[2], SIZES[3]]
    for memory in (8, 64):
        for name, rows in sizes if memory == 8 else sizes[::2]:
            queries = folder / f"{name}-{rows}-queries.npy"
            found = peak(folder / f"{name}-{rows}.npy", queries, 500, memory * 2**20)
            yield line(
                f"join, ≥ .95 and top-5: memory added, memory={memory} MiB",
                f"500 × {rows:,} × 512 {name}",
                f"{found['peak'] - found['before']:.0f} MiB; "
                f"{found['seconds'] / rows * 1e6:.1f} µs a row",
                "",
                None,
                "flat",
            )
    name, rows = SIZES[3]
    path, queries = folder / f"{name}-{rows}.npy", folder / f"{name}-{rows}-queries.npy"
    for found in speeds(path, queries, [10, 100, 1000], cores=CORES, repeats=2):
        yield line(
            "join, ≥ .95: streaming against plain reading, cold",
            f"{found['queries']:,} × {rows:,} × 512 {name}",
            f"{found['mb_per_s']:.0f} MB/s",
            f"{found['plain']:.0f} MB/s",
            found["mb_per_s"] / found["plain"],
            "disk speed",
        )


def fingerprint_lines(folder: Path, large: bool) -> Iterator[Line]:
    fingerprints = importlib.import_module("fingerprints")
    files = fingerprints.real_files(600)
    rows = fingerprints.measure(files, rounds=3, workers=CORES)
    peer = {row.processes: row for row in rows if row.name == fingerprints.PEER}
    agreement = ", ".join(f"{key} {value}" for key, value in fingerprints.check(files).items())
    size = f"{len(files)} real files; {agreement}"
    for row in rows:
        if row.processes == CORES and row.name != fingerprints.PEER:
            for processes, ratio in ((1, row.against_loop), (CORES, row.against_same)):
                yield line(
                    f"{row.name}, {CORES} processes against {fingerprints.PEER} on {processes}",
                    size,
                    f"{row.per_second:.0f} /s",
                    f"{peer[processes].per_second:.0f} /s",
                    ratio,
                    "3x" if "PDQ" in row.name else "",
                )
                size = f"{len(files)} real files"


def embedding_lines(folder: Path, large: bool) -> Iterator[Line]:
    from embedding import clip_b32, copy_files, measure
    from heldout.overlap.images.encoder import open_encoder

    copy_files(folder / "pictures", 48)
    encoder = open_encoder(clip_b32(folder / "clip-b32-random"))
    found = measure(encoder, folder / "pictures", 3)
    yield line(
        "embedding against the encoder alone",
        f"{found['pictures']:.0f} pictures, CLIP B/32 (random weights)",
        f"{found['embed_shard_per_second']:.1f} /s",
        f"{found['encoder_alone_per_second']:.1f} /s",
        found["share"],
        "0.90x",
    )


def gpu_lines(folder: Path, large: bool) -> Iterator[Line]:
    what, size = "GPU join against the plain product", "4,096 × 4,000,000 × 768 bf16, top-5"
    found = importlib.util.find_spec("torch") is not None
    if not (found and importlib.import_module("torch").cuda.is_available()):
        yield line(what, size, "no GPU here", "", None, "0.85x")
        return
    out = folder / "gpu.json"
    script = ROOT / "bench" / "join_gpu.py"
    subprocess.run([sys.executable, str(script), "--out", str(out)], check=True, stdout=2)
    result = json.loads(out.read_text())
    best = next(tile for tile in result["tiles"] if "join" in tile)
    ours, peer = best["join"]["seconds"], result["product"]["seconds"]
    yield line(
        f"{what} ({result['device']})",
        size,
        f"{ours * 1e3:.1f} ms",
        f"{peer * 1e3:.1f} ms",
        peer / ours,
        "0.85x",
    )


SECTIONS: dict[str, Callable[[Path, bool], Iterator[Line]]] = {
    "join": join_lines,
    "stream": stream_lines,
    "fingerprints": fingerprint_lines,
    "embedding": embedding_lines,
    "gpu": gpu_lines,
}


def run(section: str, folder: Path, large: bool) -> Iterator[Line]:
    """One section in a process of its own; a section that fails says so and ends only itself."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    command = [sys.executable, __file__, "--section", section, str(folder)]
    command += ["--large"] if large else []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            yield json.loads(text)
    if process.returncode:
        yield line(section, "", f"failed, exit code {process.returncode}", "", None, "")


def show(found: dict[str, Any]) -> None:
    """One line of a Markdown table."""
    print("| " + " | ".join(found.values()) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--large", action="store_true", help="10,000 × 1,000,000, too")
    parser.add_argument("--section", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.section:
        for found in SECTIONS[options.section[0]](Path(options.section[1]), options.large):
            print(json.dumps(found), flush=True)
        return
    begun, lines = time.perf_counter(), []
    head = ("what", "size", "ours", "peer", "ratio", "asked")
    with tempfile.TemporaryDirectory(prefix="heldout-overlap-") as temporary:
        folder = Path(temporary)
        if {"join", "stream"} & set(options.only):
            from embeddings import write_all

            print(f"rows: {write_all(folder, SIZES)}; load {os.getloadavg()[0]:.1f}\n", flush=True)
        show(dict(zip(head, head, strict=True)))
        show(dict.fromkeys(head, "---"))
        for section in options.only:
            for found in run(section, folder, options.large):
                lines.append(found)
                show(found)
    spent, load = time.perf_counter() - begun, os.getloadavg()
    print(f"\n{spent:.0f} s; load over 1, 5 and 15 minutes: {load}", flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"seconds": spent, "load": load, "lines": lines}, indent=1))
    if any(found["ours"].startswith("failed") for found in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
