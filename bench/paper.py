"""On paper: what a search of LAION-5B and DataComp-12.8B would cost, from rates measured here.

    python bench/paper.py BENCH CORPUS            # after bench/scale.py rows … and texts …

The pictures' stages are measured by heldout.plan on CORPUS, a sample of pictures; the join of published
embeddings and the search of captions have the rates of the largest rehearsal in bench/out/scale.json. Numbers
of items and bytes are those that the corpora's publishers state.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import heldout

ROOT = Path(__file__).resolve().parents[1]
REHEARSED = ROOT / "bench" / "out" / "scale.json"
#: items; 10^12 bytes of their pictures (at 384 and 512 pixels); width of the published embeddings
CORPORA = {
    "LAION-400M": (4.0e8, 10.0, 512),
    "LAION-5B": (5.85e9, 240.0, 768),
    "DataComp-12.8B": (12.8e9, 450.0, 768),
}
MACHINES = {"machines": 64, "cores": 16, "price_per_hour": 0.70, "read_mb_per_s": 250}


def largest(kind: str) -> tuple[float, float]:
    """(Core seconds for an item, items) of the largest rehearsal."""
    records = [record for record in json.loads(REHEARSED.read_text()) if record["kind"] == kind]
    record = max(records, key=lambda record: record["count"])
    return record["core_seconds"] / record["count"], record["count"]


def cost(core_seconds: float, size: float) -> tuple[float, float, str]:
    cores = MACHINES["machines"] * MACHINES["cores"]
    work = core_seconds / cores
    reading = size / (MACHINES["read_mb_per_s"] * 1e6 * MACHINES["machines"])
    hours = max(work, reading) / 3600
    dollars = hours * MACHINES["machines"] * MACHINES["price_per_hour"]
    return hours, dollars, "reading" if reading > work else "cores"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("benchmark")
    parser.add_argument("corpus")
    options = parser.parse_args()
    print("| corpus | stage | work | read | core hours | hours on the clock | dollars | limited by |")
    print("|---|---|---|---|---|---|---|---|")
    row, rows = largest("rows")
    text, texts = largest("texts")
    measured = heldout.plan(
        options.benchmark, options.corpus, {"items": 1e9}, encoder="pixels", text=False
    )
    (sample,) = measured.samples.values()
    for name, (items, terabytes, width) in CORPORA.items():
        lines = {
            "join published embeddings": (items * row * width / 512, items * width * 2),
            "search captions": (items * text, items * 180),
        }
        for stage in ("compare", "embed"):
            lines[f"{stage} pictures"] = (items * sample.per_unit(stage), terabytes * 1e12)
        lines["join their rows"] = (items * sample.per_unit("join"), 0.0)
        for stage, (work, size) in lines.items():
            hours, dollars, limit = cost(work, size)
            print(
                f"| {name} | {stage} | {items:,.0f} | {size / 1e12:,.1f} TB | {work / 3600:,.0f} "
                f"| {hours:,.1f} | {dollars:,.0f} | {limit} |"
            )
    print(f"\nrates: {1 / row:,.0f} rows ({rows:,} rehearsed) and {1 / text:,.0f} captions")
    print(f"({texts:,} rehearsed) per core second; per picture, core ms: ", end="")
    stages = ("compare", "embed", "join")
    print(", ".join(f"{stage} {1000 * sample.per_unit(stage):.2f}" for stage in stages))
    print(f"({sample.measured:,} pictures of {sample.image_bytes / sample.measured / 1e3:.0f} kB)")


if __name__ == "__main__":
    main()
