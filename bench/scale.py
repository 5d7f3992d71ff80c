"""The rehearsal: corpora of up to 4 × 10^8 rows and 10^8 texts, made on the fly, through the whole search.

    python bench/scale.py spectrum                    # once, where real pictures are: bench/scale_spectrum.json
    python bench/scale.py rows 1e5 1e6 1e7            # a table: rows/s, memory, planted pairs found
    python bench/scale.py resume 1e7                  # killed in the middle, then continued
    python bench/scale.py texts 1e5 1e6 1e7

Rows are of 512 numbers in half precision, with the mean and the covariance of real embeddings; which rows a
shard holds depends on its number and the seed alone, so nothing is stored. Copies of the benchmark's pictures
(cosine .97 to .99) and its questions (as they are, with a word changed, inside a longer text) lie at known
places. Every size runs in a process of its own: corpus, engine, join, store, verification, claims and report.
Calibration of nearness is left out: it needs all ids of a corpus in memory. Prints one line of JSON per
size, and a table at the end; writes bench/out/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "scale.json"
SPECTRUM = ROOT / "bench" / "scale_spectrum.json"
WIDTH = 512
POOL = 4096  # rows that all others are mixed of
SIDE = 32  # pixels of a picture of the benchmark
PICTURES, COPIES = 8, 3
TEXT_COPIES = 2  # of every question, in each of three ways
Floats = NDArray[np.float32]


def unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def measure_spectrum() -> None:
    """Length of the mean and variance along each axis of the embeddings of real pictures."""
    from embeddings import real

    stored = real()
    if stored is None:
        raise SystemExit("the weights or the pictures are missing: see bench/embeddings.py")
    rows = stored[0].astype(np.float64)
    mean = rows.mean(axis=0)
    variances = np.linalg.eigvalsh(np.cov(rows.T))[::-1].clip(0)
    record = {
        "source": "EfficientNet-lite0 on real pictures, bench/embeddings.py",
        "rows": len(rows),
        "mean_length": float(np.linalg.norm(mean)),
        "variances": [float(f"{value:.4g}") for value in variances],
    }
    SPECTRUM.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{SPECTRUM.relative_to(ROOT)}: mean {record['mean_length']:.3f}, {len(rows):,} rows")


@cache
def pools(seed: int) -> tuple[Floats, Floats]:
    """Two tables: a row of the corpus is a row of the first plus the difference of two of the second."""
    spectrum = json.loads(SPECTRUM.read_text())
    draw = np.random.default_rng(seed)
    axes = np.linalg.qr(draw.standard_normal((WIDTH, WIDTH)))[0]
    mean = draw.standard_normal(WIDTH)
    mean *= spectrum["mean_length"] / np.linalg.norm(mean)
    spread = draw.standard_normal((POOL, WIDTH)) * np.sqrt(spectrum["variances"])
    rows = spread @ axes.T
    return (
        np.asarray(mean + np.sqrt(0.75) * rows, np.float32),
        np.asarray(rows / np.sqrt(8), np.float32),
    )


def mixed(count: int, seed: int, number: int) -> Floats:
    first, second = pools(seed)
    draw = np.random.default_rng([seed, number])
    x, y, z = draw.integers(0, POOL, (3, count))
    rows = first[x]
    rows += second[y]
    rows -= second[z]
    rows *= (1 / np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]
    return np.asarray(rows, np.float32)


def projection() -> Floats:
    """Pixels to rows: SIDE² numbers to WIDTH, with orthonormal columns."""
    draw = np.random.default_rng(99)
    basis = np.linalg.qr(draw.standard_normal((SIDE * SIDE, WIDTH)))[0]
    return np.ascontiguousarray(basis, np.float32)


def write_inputs(folder: Path, seed: int) -> tuple[Path, Path]:
    """A benchmark whose pictures the encoder maps onto rows like those of the corpus, and that encoder."""
    import torch
    from PIL import Image

    class Projection(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, axes: torch.Tensor) -> None:
            super().__init__()
            self.register_buffer("axes", axes)

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            return (pictures.mean(dim=1) - 128 / 255).flatten(1) @ self.axes

    bench = folder / "bench"
    bench.mkdir(parents=True, exist_ok=True)
    rows = mixed(PICTURES, seed, -1 % 2**32)
    pixels = rows @ projection().T
    entries = []
    for number, picture in enumerate(pixels):
        grey = (
            np.clip(128 + picture * (100 / np.abs(pixels).max()), 0, 255).round().astype(np.uint8)
        )
        Image.fromarray(grey.reshape(SIDE, SIDE)).convert("RGB").save(bench / f"{number}.png")
        entry = {"id": f"q{number}", "image": f"{number}.png", "question": question(number, seed)}
        entries.append({**entry, "answer": f"answer {number}"})
    (bench / "test.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    path = folder / "rows.pt"
    torch.jit.script(Projection(torch.from_numpy(projection()))).save(str(path))
    return bench, path


@dataclass
class MadeShards:
    """``count`` items in shards of ``per_shard``, made from their number and a seed."""

    name: str
    count: int
    per_shard: int
    seed: int

    def shards(self) -> Iterator[Any]:
        from heldout.corpus import Shard

        for index in range(self.count_shards()):
            yield Shard(index, f"{index:06d}", f"{self.seed}/{index}/{self.count}")

    def count_shards(self) -> int:
        return -(-self.count // self.per_shard)

    def rows_of(self, index: int) -> int:
        return min(self.per_shard, self.count - index * self.per_shard)

    def id_of(self, row: int) -> str:
        return f"{row // self.per_shard:06d}/{row % self.per_shard}"


@dataclass
class MadeRows(MadeShards):
    """``planted``: (row, picture, cosine)."""

    encoder: str
    queries: tuple[tuple[float, ...], ...]
    planted: tuple[tuple[int, int, float], ...]
    reader: str = "made"
    source: str = "made"

    def embeddings(self, shard: Any) -> NDArray[np.float16]:
        count, first = self.rows_of(shard.index), shard.index * self.per_shard
        rows = mixed(count, self.seed, shard.index)
        for row, picture, cosine in self.planted:
            if first <= row < first + count:
                ours = np.array(self.queries[picture], np.float32)
                noise = np.random.default_rng([self.seed, row]).standard_normal(WIDTH)
                noise -= (noise @ ours) * ours
                noise /= np.linalg.norm(noise)
                rows[row - first] = cosine * ours + np.sqrt(1 - cosine**2) * noise
        return rows.astype(np.float16)

    def read(self, shard: Any) -> Iterator[Any]:
        from heldout.corpus import CorpusItem

        for row in range(self.rows_of(shard.index)):
            yield CorpusItem(f"{shard.id}/{row}")


def search_rows(
    count: int, folder: Path, seed: int, workers: int, per_shard: int
) -> dict[str, Any]:
    from heldout.audit import conclude
    from heldout.benchmark import check, read_benchmark
    from heldout.engine import LocalEngine
    from heldout.overlap import NearSearch, forget_texts, open_encoder, scan
    from heldout.store import Run

    watch = Watch()
    bench, model = write_inputs(folder, seed)
    spec = f"torchscript:{model}#trust=yes,size={SIDE},statistics=none"
    encoder = open_encoder(spec)
    benchmark = read_benchmark(bench, name="made")
    from PIL import Image

    rows = encoder.encode([Image.open(bench / f"{number}.png") for number in range(PICTURES)])
    draw = np.random.default_rng([seed, 1])
    places = draw.choice(count, PICTURES * COPIES, replace=False)
    planted = tuple(
        (int(row), number % PICTURES, float(cosine))
        for number, (row, cosine) in enumerate(
            zip(places, draw.uniform(0.97, 0.99, len(places)), strict=True)
        )
    )
    queries = tuple(tuple(map(float, row)) for row in rows)
    corpus = MadeRows("rows", count, per_shard, seed, encoder.identity, queries, planted)
    run = Run.create(folder / "run", command=["bench/scale.py"], seed=0)
    stages: dict[str, float] = {}
    begun = time.perf_counter()
    with LocalEngine(workers) as engine, run.writing():
        scan(benchmark, [corpus], run, engine, near=NearSearch(spec))
        stages["search"] = time.perf_counter() - begun
    forget_texts(run)
    run.write_json("check.json", check(benchmark).model_dump(mode="json"))
    conclusion = conclude(run, quiet=True)
    seconds = time.perf_counter() - begun
    stages["claims"] = seconds - stages["search"]
    matches = run.frame("matches")
    pairs = set(zip(matches["benchmark_id"], matches["corpus_id"], strict=True))
    wanted = {(f"q{picture}", corpus.id_of(row)) for row, picture, _ in planted}
    near = {
        (row["benchmark_id"], row["corpus_id"]): row["similarity"]
        for row in matches.iter_rows(named=True)
    }
    off = [
        abs(near[f"q{picture}", corpus.id_of(row)] - cosine)
        for row, picture, cosine in planted
        if (f"q{picture}", corpus.id_of(row)) in near
    ]
    others = [similarity for pair, similarity in near.items() if pair not in wanted]
    return {
        "kind": "rows",
        "count": count,
        "shards": corpus.count_shards(),
        "workers": workers,
        "seconds": seconds,
        "stages": stages,
        "planted": len(wanted),
        "found": len(wanted & pairs),
        "largest_error": max(off, default=None),
        "nearest_stranger": max(others, default=None),
        "claims": [claim.status for claim in conclusion.claims],
        "run_bytes": sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()),
        "run_files": sum(path.is_file() for path in run.path.rglob("*")),
        **watch.record(),
    }


class Watch:
    """Peak resident memory of this process and of the largest of its workers, looked at now and then."""

    def __init__(self) -> None:
        self.worker = 0.0
        self._ended = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while not self._ended.wait(0.3):
            for task in Path("/proc/self/task").glob("*/children"):
                for child in task.read_text().split():
                    self.worker = max(self.worker, peak(Path("/proc") / child / "status"))

    def record(self) -> dict[str, float]:
        self._ended.set()
        spent = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        return {
            "core_seconds": sum(each.ru_utime + each.ru_stime for each in spent),
            "driver_mib": peak(Path("/proc/self/status")),
            "worker_mib": self.worker,
        }


def peak(status: Path) -> float:
    try:
        lines = status.read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM")), 0.0)


# A corpus of texts.

WORDS = 20_000  # different words; the n-th is drawn about 1/n of the time


@cache
def vocabulary(seed: int) -> list[str]:
    draw = np.random.default_rng([seed, 2])
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    sizes = draw.integers(3, 11, WORDS)
    return ["".join(letters[draw.integers(0, len(letters), size)]) for size in sizes]


def sentences(count: int, seed: int, number: int) -> list[str]:
    """Captions of 6 to 24 words."""
    words = vocabulary(seed)
    draw = np.random.default_rng([seed, 3, number])
    sizes = draw.integers(6, 25, count)
    places = np.minimum(np.exp(draw.random(int(sizes.sum())) * np.log(WORDS)), WORDS - 1)
    drawn = [words[place] for place in places.astype(int).tolist()]
    ends = np.cumsum(sizes).tolist()
    return [
        " ".join(drawn[end - size : end]) for end, size in zip(ends, sizes.tolist(), strict=True)
    ]


def question(number: int, seed: int) -> str:
    return f"{sentences(1, seed, 10**6 + number)[0]} which of them is on the left?"


@dataclass
class MadeTexts(MadeShards):
    """``planted``: (place, question, way)."""

    planted: tuple[tuple[int, int, str], ...]
    reader: str = "made"
    source: str = "made"

    def read(self, shard: Any) -> Iterator[Any]:
        from heldout.corpus import CorpusItem

        count, first = self.rows_of(shard.index), shard.index * self.per_shard
        texts = sentences(count, self.seed, shard.index)
        for place, number, way in self.planted:
            if first <= place < first + count:
                texts[place - first] = self.disguised(number, way, texts[place - first])
        for row, text in enumerate(texts):
            yield CorpusItem(f"{shard.id}/{row}", text=text)

    def disguised(self, number: int, way: str, around: str) -> str:
        text = question(number, self.seed)
        if way == "edited":
            words = text.split()
            words[2] = f"{words[2]}s"
            return " ".join(words)
        return f"{around} {text} {around}" if way == "contained" else text


def search_texts(
    count: int, folder: Path, seed: int, workers: int, per_shard: int
) -> dict[str, Any]:
    from heldout.audit import audit_overlap
    from heldout.benchmark import read_benchmark
    from heldout.engine import LocalEngine

    watch = Watch()
    bench, _ = write_inputs(folder, seed)
    draw = np.random.default_rng([seed, 4])
    ways = ("as it is", "edited", "contained")
    places = draw.choice(count, PICTURES * len(ways) * TEXT_COPIES, replace=False)
    planted = tuple(
        (int(place), number % PICTURES, ways[number // PICTURES % len(ways)])
        for number, place in enumerate(places)
    )
    corpus = MadeTexts("texts", count, per_shard, seed, planted)
    begun = time.perf_counter()
    with LocalEngine(workers) as engine:
        result = audit_overlap(
            read_benchmark(bench, name="made"),
            corpus,
            folder / "run",
            engine,
            exact=True,
            text_encoder="none",
            command=["bench/scale.py"],
        )
    seconds = time.perf_counter() - begun
    rows = result.text_matches
    pairs = set(zip(rows["benchmark_id"], rows["corpus_id"], strict=True))
    wanted = {(f"q{number}", corpus.id_of(place)) for place, number, _ in planted}
    return {
        "kind": "texts",
        "count": count,
        "shards": corpus.count_shards(),
        "workers": workers,
        "seconds": seconds,
        "planted": len(wanted),
        "found": len(wanted & pairs),
        "others": len(pairs - wanted),
        "claims": list(result.claims["status"]),
        **watch.record(),
    }


# The sizes, each in a process of its own.


def in_process(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    record: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return record


def resume(count: int, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kill a search when half of its shards are joined, and continue it."""
    from heldout.store import saved_shards

    command = [sys.executable, __file__, "one-rows", str(count), *shared(options, folder)]
    joined = folder / "run/stages/neighbours/rows"
    half = -(-count // options.per_shard) // 2
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and (not joined.exists() or len(saved_shards(joined)) < half):
        time.sleep(0.5)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = len(saved_shards(joined))
    killed = time.perf_counter() - begun
    begun = time.perf_counter()
    again = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while again.poll() is None and len(saved_shards(joined)) <= before:
        time.sleep(0.1)
    first = time.perf_counter() - begun
    printed, _ = again.communicate()
    record: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return {
        **record,
        "kind": "resume",
        "killed_after_s": killed,
        "shards_kept": before,
        "seconds_to_first_new_shard": first,
    }


def shared(options: argparse.Namespace, folder: Path) -> list[str]:
    return [
        *("--folder", str(folder), "--workers", str(options.workers), "--seed", str(options.seed)),
        *("--per-shard", str(options.per_shard)),
    ]


def show(records: list[dict[str, Any]]) -> None:
    print(
        "| | count | shards | s | core s | per core s | driver MiB | worker MiB | planted found |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for record in records:
        rate = record["count"] / record["core_seconds"]
        print(
            f"| {record['kind']} | {record['count']:,} | {record['shards']:,} "
            f"| {record['seconds']:,.1f} | {record['core_seconds']:,.1f} | {rate:,.0f} | {record['driver_mib']:,.0f} "
            f"| {record['worker_mib']:,.0f} | {record['found']} of {record['planted']} |"
        )


WEB = 10**8  # what a larger machine would search


def project(records: list[dict[str, Any]]) -> None:
    """What WEB items would cost by the two largest sizes that were measured: a projection, not a measurement."""
    sizes = sorted(records, key=lambda record: record["count"])[-2:]
    if len(sizes) < 2 or sizes[0]["count"] == sizes[1]["count"]:
        return
    small, large = sizes
    per_item = (large["core_seconds"] - small["core_seconds"]) / (large["count"] - small["count"])
    rest = large["core_seconds"] - per_item * large["count"]
    hours = (rest + per_item * WEB) / 3600
    memory = [f"{record['driver_mib']:,.0f}" for record in sizes]
    print(
        f"projected, not measured: {WEB:,} {large['kind']}: {hours:.1f} core hours "
        f"({1e6 * per_item:.1f} core microseconds each, {rest:.0f} core s to start and conclude; "
        f"driver {memory[0]} and {memory[1]} MiB at {small['count']:,} and {large['count']:,})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "what", choices=("spectrum", "rows", "texts", "resume", "one-rows", "one-texts")
    )
    parser.add_argument("counts", nargs="*", type=lambda text: int(float(text)))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-shard", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    options.per_shard = options.per_shard or (65_536 if "texts" not in options.what else 100_000)
    if options.what == "spectrum":
        measure_spectrum()
        return
    if options.what.startswith("one-"):
        search = search_rows if options.what == "one-rows" else search_texts
        arguments = (options.folder, options.seed, options.workers, options.per_shard)
        print(json.dumps(search(options.counts[0], *arguments)))
        return
    records = json.loads(OUT.read_text()) if OUT.exists() else []
    new = []
    for count in options.counts:
        folder = Path(tempfile.mkdtemp(prefix="heldout-scale-"))
        try:
            if options.what == "resume":
                record = resume(count, options, folder)
            else:
                record = in_process([f"one-{options.what}", str(count), *shared(options, folder)])
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(record), flush=True)
        new.append(record)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps([*records, *new], indent=1) + "\n")
    show(new)
    if options.what in ("rows", "texts"):
        project(new)


if __name__ == "__main__":
    main()
