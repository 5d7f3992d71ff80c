"""Which stage of `heldout synth` catches which planted fault, on rendered scenes: recall, false rejections.

    python bench/synth_funnel.py [--items 800] [--images 24] [--seed 42] [--out DIR]

Items are right by construction; a known share gets one fault each, and some figures are copies of a
benchmark's pictures or near misses of them. No stage reads what was planted. Prints Markdown tables for
docs/synth.md: where each item is caught first, and how many the rule for overlong answers of the shortcut
stage finds when it is asked of all items, also of those that the verifier rejects. No model takes part, so
that the probes of the shortcut stage are not measured; nor are duplicates at balance, as none is planted.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from heldout.scenes import write_benchmark
from heldout.synth import Synthesis, synth
from heldout.synth.planting import PlantedRecall, planted_recall


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
            source="scenes",
            plant=given.plant,
            limit=given.items,
            seed=given.seed,
            against=(str(out / "bench/test.jsonl"),),
            out=out / "run",
            workers=1,
            quiet=True,
        )
        print(table(made))


def table(made: Synthesis) -> str:
    found = planted_recall(made.run)
    tail = "items | {} first at | {} | 95 % interval | overlong, of all |\n|---|---:|---|---:|---|---:|"
    lines = [f"| planted | {tail.format('caught', 'caught')}"]
    lines += [_row(one) for one in found if not one.sound]
    lines += ["", f"| to be kept | {tail.format('rejected', 'rejected')}"]
    return "\n".join([*lines, *(_row(one) for one in found if one.sound)])


def _row(one: PlantedRecall) -> str:
    where = ", ".join(f"{stage} ({why}) {count}" for (stage, why), count in one.gates.items())
    share = f"{one.caught / one.items:.1%} | {one.low:.1%} to {one.high:.1%}".replace("%", " %")
    return f"| {one.planted} | {one.items} | {where or '–'} | {share} | {one.overlong or '–'} |"


if __name__ == "__main__":
    main()
