"""A plan against the run it planned: core seconds of a search of 1 % of the planned corpus.

    python bench/plan_check.py --shards 30 --pictures 100

Writes a corpus of JPEG pictures with captions, plans a search of a hundred times as many items on this
machine, searches what is there in a process of its own, and compares a hundredth of the planned core hours with
the processor time that the search took (its start, which every run has once, is measured by a search of one
shard and left out on both sides). Prints one line of JSON; other programs on the machine hardly change
processor time, unlike hours.
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
from pathlib import Path
from typing import Any

import heldout
from nodes import write_data

TIMES = 100


def spent(folder: Path, corpus: Path, run: str) -> tuple[float, float]:
    """(Core seconds, seconds) of one search."""
    command = [sys.executable, "-m", "heldout", "overlap", str(folder / "bench")]
    command += ["--against", f"corpus={corpus}", "--out", str(folder / run), "--quiet"]
    command += ["--encoder", "pixels", "--text-encoder", "none"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cores, time.perf_counter() - begun


def check(folder: Path, shards: int, pictures: int, seconds: float) -> dict[str, Any]:
    write_data(folder, shards, pictures, side=256)
    (folder / "first").mkdir()
    os.link(folder / "corpus/00000.tar", folder / "first/00000.tar")
    plan = heldout.plan(
        folder / "bench",
        f"corpus={folder / 'corpus'}",
        {"items": TIMES * shards * pictures},
        seconds=seconds,
        encoder="pixels",
        text_encoder="none",
    )
    # Pairs are as many in a small corpus as in a large one: they do not grow with it.
    grown = [stage for stage in plan.stages if stage.unit == "items"]
    planned = sum(stage.core_hours for stage in grown) * 3600 / TIMES
    pairs = sum(stage.core_hours for stage in plan.stages if stage.unit == "pairs") * 3600
    start, _ = spent(folder, folder / "first", "start")
    total, took = spent(folder, folder / "corpus", "run")
    # Both searches start, verify as many pairs and report; the first holds one shard of the others.
    measured = (total - start) * shards / (shards - 1)
    return {
        "pictures": shards * pictures,
        "planned_core_seconds": planned,
        "measured_core_seconds": measured,
        "ratio": planned / measured,
        "start_and_pairs_core_seconds": start - measured / shards,
        "planned_pairs_core_seconds": pairs,
        "seconds": took,
        "stages": {stage.stage: stage.core_hours * 3600 / TIMES for stage in grown},
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=30)
    parser.add_argument("--pictures", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="heldout-plan-"))
    try:
        print(json.dumps(check(folder, options.shards, options.pictures, options.seconds)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
