"""What a search holds of the pairs that hashes propose, and of the copies among them: memory of the driver.

    python bench/pairs.py 1e5 1e6 1e7

The process that drives a search does all that it does (plan shards, choose the pairs to verify, verify them in
tasks, note the copies for the search of texts, write the tables), but its workers' answers are made up: shards of
1,000 corpus pictures that lie near the hash of a benchmark picture, and verdicts. Three in ten are copies of twenty
pictures that stand everywhere, each saved anew; one in ten lies near a dozen pictures, as charts of one template do;
the others are strangers. Each size in a process of its own; prints one line of JSON each, writes bench/out/pairs.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from driver import PICTURES, write_bench
from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import CorpusItem, Shard
from heldout.engine import Kind, Outcome
from heldout.image import Digests
from heldout.overlap.images import scan as scanning
from heldout.overlap.images.exact import COUNTS, scan_shard
from heldout.overlap.images.hashes import PDQ, PHASH
from heldout.overlap.images.verify import COUNTS as VERIFIED
from heldout.overlap.images.verify import verify_shard
from heldout.overlap.texts.index import TextSearch
from heldout.overlap.texts.scan import COUNTS as TEXTS
from heldout.overlap.texts.scan import scan_texts
from heldout.store import Dropped, Run, ShardResult, make_table
from memory import peak_mib

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "pairs.json"
PER_SHARD = 1000
EVERYWHERE = 20
TEMPLATE = 12


class MadeCorpus:
    """Shards whose items nobody reads."""

    name, source, reader = "made", "made", "made"

    def __init__(self, shards: int) -> None:
        self.count = shards

    def shards(self) -> Iterator[Shard]:
        for index in range(self.count):
            yield Shard(index, f"{index:09d}.tar", f"{index:09d}.tar {index * 7919}")

    def count_shards(self) -> int | None:
        return self.count

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        yield from ()


def text(*values: object) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()


class MadeEngine:
    """Answers as workers would."""

    name = "made"

    def __init__(self, benchmark: Benchmark) -> None:
        known = (benchmark.digests[ref] for ref in benchmark.images)
        self.pictures = [digest.pixels for digest in known if isinstance(digest, Digests)]
        self.rows = self.sent = 0

    def map(
        self, function: Any, tasks: Iterable[Any], **_: Any
    ) -> Generator[Outcome[Any, Any], None, None]:
        self.sent = max(self.sent, len(pickle.dumps(function)))  # to every worker
        answer = {scan_shard: self.scanned, verify_shard: self.verified}.get(function.func)
        for index, task in enumerate(tasks):
            value = answer(task) if answer else ShardResult({}, dict.fromkeys(TEXTS, 0))
            yield Outcome(index, task, value)

    def map_kinds(
        self, kinds: Sequence[Kind[Any, Any]], **_: Any
    ) -> Generator[tuple[int, Outcome[Any, Any]], None, None]:
        for place, kind in enumerate(kinds):
            for outcome in self.map(kind.function, kind.tasks):
                yield place, outcome

    def scanned(self, shard: Shard) -> ShardResult:
        draw = random.Random(shard.index)
        rows = []
        for number in range(PER_SHARD):
            kind = ("copy", "copy", "copy", "template", *["stranger"] * 6)[number % 10]
            first = draw.randrange(EVERYWHERE if kind == "copy" else PICTURES)
            near = 1 if kind != "template" or number % 100 != 3 else TEMPLATE
            for step in range(near):
                row = {
                    "picture": self.pictures[(first + step) % PICTURES],
                    "corpus_id": f"{shard.index:09d}/{kind}-{number:05d}",
                    "digest": text(shard.index, number),
                    "shard": shard.index,
                    "view": "as is",
                }
                coarse = draw.randrange(58, 65) / 64 if kind == "copy" else 58 / 64
                rows.append({**row, "method": PHASH, "similarity": coarse})
                if kind == "copy":
                    rows.append({**row, "method": PDQ, "similarity": 1 - draw.randrange(20) / 256})
        self.rows += len(rows)
        counts = dict.fromkeys(COUNTS, 0) | {"items": PER_SHARD, "images": PER_SHARD}
        rows.sort(key=lambda row: (row["method"], row["picture"], row["corpus_id"]))
        return ShardResult({"candidates": make_table("candidates", rows)}, counts)

    def verified(self, task: Any) -> ShardResult:
        matches = []
        for candidate in task.candidates:
            copy = "/copy" in candidate.corpus_id
            number = self.pictures.index(candidate.picture)
            evidence = {
                "benchmark_image": candidate.picture,
                "benchmark_pixels": candidate.picture,
                "corpus_image": candidate.digest,
                "corpus_source": "",
                "found_by": [origin._asdict() for origin in candidate.origins],
            }
            matches.append(
                {
                    "benchmark_id": f"q{number}",
                    "image_index": 0,
                    "corpus": "made",
                    "corpus_id": candidate.corpus_id,
                    "method": candidate.origins[0].method,
                    "similarity": candidate.origins[0].similarity,
                    "degree": "none",
                    "relation": "transformed copy" if copy else "look-alike",
                    "transform": "",
                    "modality": "image only" if copy else "none",
                    "label_relation": "unknown",
                    "evidence": json.dumps(evidence),
                }
            )
        counts = dict.fromkeys(VERIFIED, 0) | {"pairs": len(task.candidates)}
        return ShardResult({"matches": make_table("matches", matches)}, counts)


def measured(folder: Path, count: int) -> dict[str, Any]:
    os.fsync = lambda _: None  # type: ignore[assignment]
    os.urandom = random.Random(0).randbytes  # the same pictures each time, and so the same table
    benchmark = read_benchmark(str(write_bench(folder)))
    corpus: Any = MadeCorpus(count // PER_SHARD)
    engine: Any = MadeEngine(benchmark)
    run = Run.create(folder / "run", command=["bench/pairs.py"])
    begun, cores, before = time.perf_counter(), time.process_time(), peak_mib()
    with run.writing():
        scanned = scanning.scan(benchmark, [corpus], run, engine, quiet=True)
        images = peak_mib()
        engine.sent = 0
        words = TextSearch(methods=("exact", "embedding"), encoder="wordllama")
        scan_texts(benchmark, [corpus], run, engine, words, scanned=scanned, quiet=True)
    table = run.table_path("matches").read_bytes()
    return {
        "corpus_pictures": count,
        "rows": engine.rows,
        "verified": scanned[0].counts["pairs"],
        "before_mib": round(before),
        "images_mib": round(images),
        "texts_mib": round(peak_mib()),
        "sent_to_a_worker_mb": round(engine.sent / 1e6, 1),
        "seconds": round(time.perf_counter() - begun),
        "core_seconds": round(time.process_time() - cores),
        "matches": hashlib.sha256(table).hexdigest()[:12],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("counts", nargs="+", type=float)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        with tempfile.TemporaryDirectory(prefix="heldout-pairs-") as folder:
            print(json.dumps(measured(Path(folder), int(options.counts[0]))))
        return
    rows = []
    for count in options.counts:
        command = [sys.executable, __file__, str(count), "--inside"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
