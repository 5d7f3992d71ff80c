"""Which stage of `heldout synth` catches which planted fault, on rendered scenes: recall, false rejections.

    python bench/synth_funnel.py [--items 800] [--images 24] [--seed 42] [--out DIR]

Items are right by construction; a known share gets one fault each, and some figures are copies of a
benchmark's pictures or near misses of them. No stage reads what was planted. Prints Markdown tables for
docs/synth.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from heldout.scenes import write_benchmark
from heldout.stats import binomial_interval
from heldout.synth import Synthesis, synth
from heldout.synth.planting import COPIES, FAULTS, NEAR_MISSES, read_planted

NOTHING = "nothing planted"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--items", type=int, default=800)
    parser.add_argument("--images", type=int, default=24, help="pictures of the benchmark")
    parser.add_argument("--plant", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", type=Path, help="where to keep the run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder)
        write_benchmark(out / "bench", images=given.images, seed=given.seed + 1)
        made = synth(
            source="scenes", plant=given.plant, limit=given.items, seed=given.seed,
            against=(str(out / "bench/test.jsonl"),), out=out / "run", workers=1, quiet=True,
        )  # fmt: skip
        print(table(made))


def fates(made: Synthesis) -> dict[str, str]:
    """By item the gate at which it fell; empty for a published one."""
    found = {}
    for row in made.verdicts.to_dicts():
        found[row["id"]] = (
            "" if row["accepted"] else f"verify ({row['reason'].removeprefix('essential: ')})"
        )
    for row in made.frame("decontaminate").to_dicts():
        if row["removed"]:
            found[row["id"]] = f"decontaminate ({row['relation']})"
    for row in made.frame("shortcut").to_dicts():
        if row["flagged"] and not found[row["id"]]:
            found[row["id"]] = f"shortcut ({row['reason']})"
    return found


def table(made: Synthesis) -> str:
    planted, fate = read_planted(made.run.path), fates(made)
    by_fault: dict[str, Counter[str]] = defaultdict(Counter)
    for name, gate in fate.items():
        by_fault[planted.get(name, NOTHING)][gate] += 1
    lines = ["| planted | items | caught at | caught | 95 % interval |", "|---|---:|---|---:|---|"]
    for fault in (*FAULTS, *COPIES):
        lines.append(_row(fault, by_fault[fault]))
    lines += [
        "",
        "| to be kept | items | rejected at | rejected | 95 % interval |",
        "|---|---:|---|---:|---|",
    ]
    for kind in (NOTHING, *NEAR_MISSES):
        lines.append(_row(kind, by_fault[kind]))
    return "\n".join(lines)


def _row(name: str, gates: Counter[str]) -> str:
    total = gates.total()
    caught = total - gates[""]
    if not total:
        return f"| {name} | 0 | – | – | – |"
    interval = binomial_interval(caught, total)
    where = ", ".join(f"{gate} {count}" for gate, count in gates.most_common() if gate)
    share = f"{caught / total:.1%} | {interval.low:.1%} to {interval.high:.1%}".replace("%", " %")
    return f"| {name} | {total} | {where or '–'} | {share} |"


if __name__ == "__main__":
    main()
