"""The second half of clip_leaks.py: `heldout overlap` and `heldout impact --encoder` on the trained models.

    python bench/clip_leaks.py tables --models DIR --out DIR --docs docs/data

Search and training features of the probe are by the clean model, which saw no test picture. What was planted
is compared with what the search found; every table is printed in Markdown and kept in clip-leaks.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from heldout.cure.leaks import leaks_of
from heldout.detect.impact.subsets import leakage
from heldout.lab.captioned import World, write_test, write_train
from heldout.lab.degrees import measure_degrees
from heldout.overlap.regrade import Bounds
from heldout.store import Run

TASKS = ("zero-shot", "probe", "image-to-text", "text-to-image")


def tables(world: World, models: Path, out: Path, docs: Path | None) -> None:
    test, train = out / "data" / "test", out / "data" / "train"
    if not (test / "test.jsonl").exists():
        write_test(test, world)
    if not train.with_name("train.truth.jsonl").exists():
        write_train(train, world)
    leaky, clean = (f"transformers:{models / name}" for name in ("leaky", "clean"))
    bounds = _degrees(clean, test, train, out)
    run = out / "run"
    _heldout(
        "overlap", str(test / "test.jsonl"), "--against", f"train={train}", "--encoder", clean,
        "--nearest", "2", "--degrees", str(bounds), "--workers", "1", "--out", str(run),
    )  # fmt: skip
    told: dict[str, Any] = {"world": vars(world), "degrees": bounds._asdict()}
    told["training"] = json.loads((models / "training.json").read_text())
    told["found"] = _found(Run.open(run), train.with_name("train.truth.jsonl"))
    asked = [
        str(test / "test.jsonl"), "--run", str(run), "--templates", str(test / "templates.txt"),
        "--train", f"train={train}",
    ]  # fmt: skip
    calls = {
        "leaky": ["--encoder", leaky],
        "clean": ["--encoder", clean],
        "leaky less clean": ["--encoder", leaky, "--baseline", clean],
    }
    for name, call in calls.items():
        said = _heldout("impact", *call, *asked, "--json", quiet=True)
        told[name] = {
            key: value for key, value in json.loads(said).items() if key in ("impacts", "encoders")
        }
    (out / "clip-leaks.json").write_text(json.dumps(told, indent=1) + "\n")
    if docs is not None:
        (docs / "clip-leaks.json").write_text(json.dumps(_short(told), indent=1) + "\n")
    print(page(told))


def _degrees(encoder: str, test: Path, train: Path, out: Path) -> Bounds:
    """Of the clean model, on pictures none of which leaked."""
    kept = out / "degrees.json"
    if not kept.exists():
        found = measure_degrees(encoder, [str(test / "images"), str(train)], queries=200, pictures=600)
        kept.write_text(found.model_dump_json(indent=1) + "\n")
    content = json.loads(kept.read_text())
    return Bounds(content["hard"], content["soft"])


def _found(run: Run, truth: Path) -> list[dict[str, Any]]:
    """What was planted by what the search calls it."""
    planted = {row["benchmark_id"]: row["name"] for row in map(json.loads, truth.open())}
    leaks = leaks_of(run)
    counts: Counter[tuple[str, str, str]] = Counter()
    for item in run.read_table("items").column("benchmark_id").to_pylist():
        kind = leakage(leaks[item]) if item in leaks else ""
        label = leaks[item].label if kind else ""
        counts[planted.get(item, "not leaked"), kind or "nothing", label] += 1
    return [
        {"planted": planted, "found": kind, "label": label, "pictures": count}
        for (planted, kind, label), count in sorted(counts.items())
    ]


def _heldout(*arguments: str, quiet: bool = False) -> str:
    command = [sys.executable, "-m", "heldout", *arguments]
    print("$ heldout " + " ".join(arguments), file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    if not quiet:
        print(done.stdout, file=sys.stderr)
    return done.stdout
