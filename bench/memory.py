"""Peak memory of reading a corpus, against its size: the lines must be flat.

    .venv/bin/python bench/memory.py --max 1000000
    .venv/bin/python bench/memory.py --max 0 --tsv-gb 5

Corpora of small distinct images are written to a temporary folder (about 5 GB for a million), each
is streamed in a fresh process that does per item what a scan does (read the bytes, digest them,
read the size), and everything is deleted again. Writes bench/out/memory.json and
bench/out/memory.svg.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "memory.json"
PER_TAR = 1000
TSV_SIDE = 256  # pixels; an image of 196 kB, 262 kB in base64


def bitmap(side: int) -> bytes:
    """A BMP of random pixels: distinct, valid, and as fast to make as its bytes are random."""
    pixels = os.urandom(side * side * 3)  # a side that is a multiple of 4 needs no row padding
    head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    return (
        head
        + struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, len(pixels), 0, 0, 0, 0)
        + pixels
    )


def write_tars(folder: Path, count: int) -> str:
    for number in range(count // PER_TAR):
        with tarfile.open(folder / f"{number:05d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for index in range(PER_TAR):
                key = f"{number * PER_TAR + index:09d}"
                for ending, data in (("bmp", bitmap(4)), ("txt", f"caption {key}".encode())):
                    member = tarfile.TarInfo(f"{key}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder)


def write_parquet(folder: Path, count: int) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cell = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", cell), ("caption", pa.string())])
    path = folder / "images.parquet"
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, 1000):
            images = [{"bytes": bitmap(4), "path": None} for _ in range(1000)]
            captions = [f"caption {start + index}" for index in range(1000)]
            writer.write_table(pa.table([images, captions], schema=schema))
    return str(path)


def write_folder(folder: Path, count: int) -> str:
    for number in range(count):  # all in one folder: the hardest case for a sorted listing
        (folder / f"{number:09d}.bmp").write_bytes(bitmap(4))
    return str(folder)


WRITERS: dict[str, Callable[[Path, int], str]] = {
    "webdataset": write_tars,
    "parquet": write_parquet,
    "folder": write_folder,
}


def write_tsv(path: Path, gigabytes: float) -> int:
    rows = 0
    with path.open("w") as file:
        file.write("index\timage\tquestion\tA\tB\tC\tD\tanswer\n")
        while file.tell() < gigabytes * 1e9:
            image = base64.b64encode(bitmap(TSV_SIDE)).decode()
            file.write(f"{rows}\t{image}\tWhich is question {rows}?\tone\ttwo\tthree\tfour\t")
            file.write("ABCD"[rows % 4] + "\n")
            rows += 1
    return rows


def peak_mib() -> float:
    """Peak resident memory of this program; ru_maxrss would include the one that started it."""
    status = Path("/proc/self/status")
    for line in status.read_text().splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def stream(reader: str, location: str) -> dict[str, Any]:
    """What one fresh process does: everything a scan does per item before it compares."""
    from heldout.corpus import CorpusItem, open_corpus
    from heldout.image import byte_digest, native_size

    corpus = open_corpus(location, reader=reader)
    baseline = peak_mib()
    start, items, dropped, last = time.perf_counter(), 0, 0, ""
    for shard in corpus.shards():
        for item in corpus.read(shard):
            if not isinstance(item, CorpusItem) or item.image is None:
                dropped += 1
                continue
            data = item.image.read()
            last = byte_digest(data)
            if native_size(data) != (4, 4):
                raise AssertionError(f"{item.id} is not the image that was written")
            items += 1
    seconds = time.perf_counter() - start
    return {
        "items": items,
        "dropped": dropped,
        "last_digest": last[:12],
        "baseline_mib": round(baseline, 1),
        "peak_mib": round(peak_mib(), 1),
        "items_per_second": round(items / seconds),
    }


def read_tsv(location: str) -> dict[str, Any]:
    from heldout.benchmark import read_benchmark
    from heldout.image import native_size

    baseline = peak_mib()
    start = time.perf_counter()
    benchmark = read_benchmark(location)
    read_seconds = time.perf_counter() - start
    looked = 0
    for ref in benchmark.images:  # every image is looked at once, none is kept
        looked += native_size(ref.read()) == (TSV_SIDE, TSV_SIDE)
    return {
        "items": len(benchmark),
        "images": looked,
        "bytes": Path(location).stat().st_size,
        "baseline_mib": round(baseline, 1),
        "peak_mib": round(peak_mib(), 1),
        "read_seconds": round(read_seconds, 1),
    }


def measured(*arguments: str) -> dict[str, Any]:
    """The result of this script run with ``arguments`` in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def measure_corpora(largest: int, only: list[str]) -> Iterator[dict[str, Any]]:
    sizes = [size for size in (10**3, 10**4, 10**5, 10**6, 10**7) if size <= largest]
    for reader in only:
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="heldout-memory-") as folder:
                location = WRITERS[reader](Path(folder), size)
                result = measured("--stream", reader, location)
            if result["items"] != size:
                raise AssertionError(f"{reader}: wrote {size:,} items, read {result}")
            print(f"{reader:>11} {size:>10,} items: {result}", flush=True)
            yield {"reader": reader, **result}


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    styles = {
        "webdataset": ("#1b6ca8", "o"),
        "parquet": ("#c2571a", "s"),
        "folder": ("#3a7d44", "^"),
    }
    for reader, (colour, marker) in styles.items():
        points = [(row["items"], row["peak_mib"]) for row in rows if row["reader"] == reader]
        if points:
            axes.plot(*zip(*points, strict=True), color=colour, marker=marker, label=reader)
    baseline = min(row["baseline_mib"] for row in rows)
    axes.axhline(baseline, color="#777777", linestyle="--", linewidth=1)
    axes.annotate(
        f"{baseline:.0f} MiB: Python and libraries loaded, nothing read yet",
        (0.01, baseline),
        xytext=(0, -6),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="left",
        va="top",
        color="#777777",
        fontsize=8,
    )
    axes.set_xscale("log")
    axes.set_ylim(0, 1.35 * max(row["peak_mib"] for row in rows))
    axes.set_xlabel("images in the corpus")
    axes.set_ylabel("peak resident memory (MiB)")
    axes.set_title("Peak memory while reading a corpus, by its size", fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=3, loc="upper left", fontsize=9)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(OUT.with_suffix(".svg"))
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--max", type=int, default=1_000_000, help="largest corpus; 0 for none")
    parser.add_argument("--only", nargs="*", default=list(WRITERS), choices=list(WRITERS))
    parser.add_argument(
        "--tsv-gb", type=float, default=0, help="also read a TSV benchmark this big"
    )
    parser.add_argument("--stream", nargs=2, metavar=("READER", "PATH"), help=argparse.SUPPRESS)
    parser.add_argument("--read-tsv", metavar="PATH", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stream or arguments.read_tsv:
        done = stream(*arguments.stream) if arguments.stream else read_tsv(arguments.read_tsv)
        print(json.dumps(done))
        return
    report: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {"corpora": []}
    if arguments.max:
        kept = [row for row in report["corpora"] if row["reader"] not in arguments.only]
        report["corpora"] = kept + list(measure_corpora(arguments.max, arguments.only))
    if arguments.tsv_gb:
        with tempfile.TemporaryDirectory(prefix="heldout-memory-") as folder:
            path = Path(folder) / "benchmark.tsv"
            rows = write_tsv(path, arguments.tsv_gb)
            report["tsv"] = {"rows_written": rows, **measured("--read-tsv", str(path))}
        print(f"TSV benchmark: {report['tsv']}")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(report, indent=2) + "\n")
    if report["corpora"]:
        draw(report["corpora"])


if __name__ == "__main__":
    main()
