"""What the process that drives a search holds: shards planned, resumed and merged; tables of many matches.

    python bench/driver.py shards 4e4 4e5     # one search of so many shards; and the same in 64 parts, merged
    python bench/driver.py matches 1e5 1e6 1e7

Every step runs in a process of its own, so that its memory is its own. Shards are saved here without
waiting for the disk (a search waits once a shard, which is measured apart on a thousand of them); one shard
in a hundred holds matches. Prints one line of JSON per step; writes bench/out/driver.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "driver.json"
PARTS = 64
SYNCED = 1000


def key(index: int) -> str:
    return f"00000/{index:09d}.tar {index * 7919 % 10**9} 1700000000"


def match(index: int, number: int) -> dict[str, Any]:
    evidence = {
        "benchmark_image": f"{number % 5000:064x}",
        "benchmark_pixels": f"{number % 5000:064x}",
        "corpus_image": f"{index * 1000 + number:064x}",
        "corpus_source": f"corpus/{index:06d}.tar",
        "corpus_text": "",
        "corpus_question": f"What is shown in picture {number}?",
        "corpus_answer": f"answer {number % 7}",
    }
    return {
        "benchmark_id": f"q{number % 5000}",
        "image_index": 0,
        "corpus": "made",
        "corpus_id": f"{index:06d}/{number}",
        "method": "pixels",
        "similarity": 1.0,
        "degree": "hard",
        "relation": "same image",
        "transform": "",
        "modality": "image only",
        "label_relation": "unknown",
        "evidence": json.dumps(evidence),
    }


def result(index: int, rows: int) -> Any:
    from heldout.store import ShardResult, make_table

    table = make_table("matches", [match(index, number) for number in range(rows)])
    return ShardResult({"matches": table}, {"items": 10_000, "images": 9_990, "dropped": 10})


def fill(folder: Path, count: int, part: int, of: int) -> dict[str, Any]:
    """Plan ``count`` shards and finish those of one part."""
    from heldout.store import Stage

    really, synced = os.fsync, 0.0
    stage = Stage(folder, {"p": 1})
    shared, nothing = result(1, 3), result(1, 0)
    begun = time.perf_counter()
    for saved, index in enumerate(range(part, count, of)):
        stage.plan(index, key(index))
        os.fsync = really if saved < SYNCED and of == 1 else lambda _: None  # type: ignore[assignment]
        stage.save(index, shared if index % 100 == 0 else nothing)
        if saved == SYNCED - 1:
            synced = time.perf_counter() - begun
    return {"seconds": time.perf_counter() - begun, "ms_per_synced_shard": synced}


def resume(folder: Path, count: int) -> dict[str, Any]:
    """What a run does that is started again: find what is finished, plan every shard, sum the counts."""
    from heldout.store import Stage

    begun = time.perf_counter()
    stage = Stage(folder, {"p": 1})
    opened = time.perf_counter()
    left = sum(stage.plan(index, key(index)) for index in range(count))
    planned = time.perf_counter()
    counts = stage.counts()
    return {
        "opened_s": opened - begun,
        "planned_s": planned - opened,
        "counted_s": time.perf_counter() - planned,
        "left": left,
        "items": counts["items"],
    }


def tables(folder: Path, count: int) -> dict[str, Any]:
    from heldout.store import Stage

    stage = Stage(folder, {"p": 1})
    for index in range(count):
        stage.plan(index, key(index))
    begun = time.perf_counter()
    rows = Stage.merge_all([stage], "matches", folder.parent / "matches.parquet")
    return {"seconds": time.perf_counter() - begun, "rows": rows}


def adopt(folder: Path, parts: list[Path]) -> dict[str, Any]:
    from heldout.store import adopt_shards

    begun = time.perf_counter()
    taken = adopt_shards(parts, folder)
    return {"seconds": time.perf_counter() - begun, "shards": taken}


def disk(folder: Path) -> dict[str, Any]:
    files = list(folder.rglob("*"))
    size = sum(path.lstat().st_size for path in files if path.is_file())
    return {"inodes": len(files) + 1, "bytes": size}


# Tables of many matches, and what is concluded from them.


def made_run(folder: Path, count: int) -> dict[str, Any]:
    """A run whose shards hold ``count`` matches, and the table of them."""
    from heldout.store import Run, Stage

    run = Run.create(folder, command=["bench/driver.py"])
    os.fsync = lambda _: None  # type: ignore[assignment]
    stage = run.stage("overlap/made", {})
    per_shard = 10_000
    for index in range(count // per_shard):
        stage.plan(index, key(index))
        stage.save(index, result(index, per_shard))
    begun = time.perf_counter()
    rows = Stage.merge_all([stage], "matches", run.table_path("matches"))
    return {"written_s": time.perf_counter() - begun, "rows": rows}


def concluded(folder: Path, _: int) -> dict[str, Any]:
    from heldout.audit import conclude
    from heldout.benchmark import Benchmark, Example, benchmark_identity, check, items_table
    from heldout.image import ImageRef, InlineBytes
    from heldout.store import Run, empty_table
    from memory import bitmap

    run = Run.open(folder)
    benchmark = Benchmark(
        "made",
        tuple(
            Example(
                f"q{number}",
                (ImageRef(f"{number}.bmp", InlineBytes(bitmap(4), f"{number}.bmp")),),
                f"What is shown in picture {number}?",
                answer="a",
            )
            for number in range(5000)
        ),
    )
    run.claim_benchmark(benchmark_identity(benchmark))
    run.write_table("items", items_table(benchmark))
    for name in ("dropped", "thumbnails"):
        run.write_table(name, empty_table(name))
    from heldout.overlap.images.exact import COUNTS

    counts = dict.fromkeys(COUNTS, 0) | {"items": 10**8, "images": 10**8}
    facts = {
        "corpus": "made",
        "source": "made",
        "reader": "made",
        "fingerprint": "",
        "shards": 1000,
    }
    facts |= {"reused": 0, "counts": counts, "failed": {}, "hashes": True, "encoder": None}
    run.update("stages", {"overlap:made": {**facts, "nearest": 0}})
    run.write_json("check.json", check(benchmark).model_dump(mode="json"))
    begun = time.perf_counter()
    conclusion = conclude(run, quiet=True)
    return {"seconds": time.perf_counter() - begun, "claims": len(conclusion.claims)}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "resume": resume,
    "tables": tables,
    "matches": made_run,
    "concluded": concluded,
}


def apart(step: str, *arguments: object) -> dict[str, Any]:
    """One step in a process of its own, with the memory it took."""
    command = [sys.executable, __file__, "step", step, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    record: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(json.dumps(record), flush=True)
    return record


def run_step(step: str, arguments: list[str]) -> None:
    if step == "fill":
        folder, count, part, of = arguments
        record = fill(Path(folder), int(count), int(part), int(of))
    elif step == "adopt":
        record = adopt(Path(arguments[0]), [Path(text) for text in arguments[1:]])
    else:
        record = STEPS[step](Path(arguments[0]), int(arguments[1]))
    lines = Path("/proc/self/status").read_text().splitlines() if sys.platform == "linux" else []
    peak = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
    peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    core = time.process_time()
    print(json.dumps({"step": step, **record, "core_seconds": core, "peak_mib": peak}))


def shards(count: int, folder: Path) -> list[dict[str, Any]]:
    whole = folder / "whole"
    records = [
        apart("fill", whole, count, 0, 1),
        {"step": "disk", **disk(whole)},
        apart("resume", whole, count),
        apart("tables", whole, count),
    ]
    parts = [folder / f"part{part}" for part in range(PARTS)]
    really = os.fsync
    for part, place in enumerate(parts):
        fill(place, count, part, PARTS)
    os.fsync = really
    merged = folder / "merged"
    records += [apart("adopt", merged, *parts), apart("resume", merged, count)]
    first = (folder / "matches.parquet").read_bytes()
    apart("tables", merged, count)
    same = (folder / "matches.parquet").read_bytes() == first
    return [{"shards": count, "same_table": same, **record} for record in records]


def matches(count: int, folder: Path) -> list[dict[str, Any]]:
    records = [apart("matches", folder / "run", count), apart("concluded", folder / "run", count)]
    return [{"matches": count, **record} for record in records]


def main() -> None:
    if sys.argv[1:2] == ["step"]:
        run_step(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("shards", "matches"))
    parser.add_argument("counts", nargs="+", type=lambda text: int(float(text)))
    options = parser.parse_args()
    records = json.loads(OUT.read_text()) if OUT.exists() else []
    for count in options.counts:
        folder = Path(tempfile.mkdtemp(prefix="heldout-driver-"))
        try:
            records += (shards if options.what == "shards" else matches)(count, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.write_text(json.dumps(records, indent=1) + "\n")
    for record in records[-12:]:
        print(json.dumps(record))


if __name__ == "__main__":
    main()
