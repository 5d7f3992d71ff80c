"""What every rule of the search and of the verdicts is worth: each group is switched off, and what changes is counted.

    python bench/ablate.py words|pictures|verdicts [--jobs N] [--only NAME …] [--store]

The groups are named once, in ablate_words.py, ablate_pictures.py and ablate_verdicts.py, as patches: src/ knows
nothing of them. Outcomes are of half 0 of every real set, the half that settles. A group *helps* on a set where
switching it off makes a figure worse by more than chance (exact sign test on the items that change, .05), and
*harms* where it makes it better. With --store the rows are kept in docs/measured/ablation.json, and the page is
written from them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from quality import OUT, ROOT, commit, machine, shared_folder

STORED = ROOT / "docs/measured/ablation.json"
PAGE = ROOT / "docs/measured/ablation.md"
PARTS = ("words", "pictures", "verdicts")
Row = dict[str, Any]

INTRODUCTION = """# What each rule is worth

Written by `python bench/ablate.py words|pictures|verdicts --store`; nothing here is by hand.

Every rule group is switched off, and the figures of half 0 of every real set are counted again. *Helps*: without the
group the figure is worse by more than chance (exact sign test on the items that change); *harms*: it is better without;
*changes*: the figure has no better side. *CPU without*: as a share of that with it. A group that helps on no real set
goes, unless something else needs it: what it is worth is known for the sets named here alone. One mark in twenty is
chance.
"""


def summary(rows: Iterable[Row]) -> dict[str, dict[str, list[Row]]]:
    """By switch: the rows that help, that harm, and that change something within noise; CPU apart."""
    groups: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        group = groups[str(row["switch"])]
        if row["figure"] == "CPU":
            group["CPU"].append(row)
        elif row["mark"]:
            group[str(row["mark"])].append(row)
        elif row["gained"] or row["lost"]:
            group["within noise"].append(row)
        else:
            group["unchanged"].append(row)
    return groups


def condensed(rows: Sequence[Row]) -> list[Row]:
    """What the page needs: rows that change, CPU summed over the sets, and one row of a group that changes nothing."""
    kept: dict[str, list[Row]] = {}
    for row in rows:
        mine = kept.setdefault(str(row["switch"]), [])
        if row["figure"] == "CPU":
            known = next((each for each in mine if each["figure"] == "CPU"), None)
            if known is None:
                mine.append({**row, "set": "all"})
            else:
                known["on"], known["off"] = known["on"] + row["on"], known["off"] + row["off"]
        elif row["gained"] or row["lost"] or not mine:
            mine.append(row)
    return [row for mine in kept.values() for row in mine]


def cell(rows: Sequence[Row]) -> str:
    """Sets with their figures, with the group and without it."""
    shown = [f"{r['set']}: {r['figure']} {r['on']:.3f} → {r['off']:.3f}" for r in rows]
    return "; ".join(shown) or "–"


def cost(rows: Sequence[Row]) -> str:
    """CPU without the group, as a share of that with it, over all sets."""
    on, off = (sum(float(row[side]) for row in rows) for side in ("on", "off"))
    return f"{off / on:.2f}" if on and on != off else "–"


def sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


COLUMNS = ("helps", "harms", "changes")


def table(rows: Sequence[Row]) -> list[str]:
    """The groups that change something outside noise, those that change a few items, and those that change nothing."""
    what = {str(row["switch"]): str(row["what"]).rstrip(".") for row in rows}
    groups = summary(rows)
    lines = [
        "| group | what it does | helps (with → without) | harms | changes | within noise | CPU without |",
        "|---|---|---|---|---|--:|--:|",
    ]
    quiet, idle = [], []
    for name in sorted(groups, key=lambda name: (-len(groups[name]["helps"]), name)):
        group = groups[name]
        items = sum(row["gained"] + row["lost"] for row in group["within noise"])
        share = cost(group["CPU"])
        if any(group[mark] for mark in COLUMNS):
            marked = (cell(group[mark]) for mark in COLUMNS)
            lines.append(f"| {' | '.join((name, what[name], *marked, str(items), share))} |")
        elif items:
            said = f"Outcomes that change: {items}; CPU: {share}"
            quiet.append(f"* {name}: {sentence(what[name])} {said}")
        else:
            idle.append(f"* {name}: {sentence(what[name])} CPU: {share}")
    if quiet:
        lines += ["", f"**Within noise, {len(quiet)} groups:**", "", *quiet]
    if idle:
        lines += ["", f"**Nothing changes without these {len(idle)}:**", "", *idle]
    return lines


def page_of(stored: dict[str, Any]) -> str:
    lines = [INTRODUCTION]
    for part in PARTS:
        if part in stored:
            about = stored[part]
            seconds = f"{about['seconds']:,} s of {about['jobs']} processes"
            lines += [f"## {part.capitalize()}", ""]
            lines += [f"Commit {about['commit']}, {about['machine']}: {seconds}."]
            lines += [f"Sets: {'; '.join(about['sets'])}.", "", *table(about["rows"]), ""]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=[], help="names of groups")
    parser.add_argument("--list", action="store_true", help="the groups, and what they do")
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args(words)
    module = importlib.import_module(f"ablate_{given.part}")
    if given.list:
        for name, (what, _) in module.SWITCHES.items():
            print(f"{name}: {what}")
        return 0
    unknown = [name for name in given.only if name not in module.SWITCHES]
    if unknown:
        parser.error(f"no group {unknown[0]!r}; the groups are {', '.join(module.SWITCHES)}")
    if given.store and given.only:
        parser.error("the stored table is of all groups: leave out --only")
    shared = shared_folder()
    if not (shared / "quality").is_dir():
        parser.error(f"{shared / 'quality'} is not there: set HELDOUT_SHARED")
    begun = time.monotonic()
    rows = module.measure(shared, OUT, given.jobs, given.only)
    seconds = round(time.monotonic() - begun)
    print("\n".join(table(rows)))
    print(f"\n{seconds} s wall")
    if given.store:
        stored = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
        stored[given.part] = {
            "commit": commit(),
            "machine": machine(),
            "jobs": given.jobs,
            "seconds": seconds,
            "sets": sorted({str(row["set"]) for row in rows}),
            "rows": condensed(rows),
        }
        STORED.parent.mkdir(parents=True, exist_ok=True)
        text = ",\n".join(f"{json.dumps(k)}: {_rows(v)}" for k, v in sorted(stored.items()))
        STORED.write_text("{\n" + text + "\n}\n", "utf-8")
        PAGE.write_text(page_of(stored), "utf-8")
    return 0


def _rows(part: dict[str, Any]) -> str:
    """One line a row, so that two versions can be compared."""
    about = json.dumps({key: value for key, value in part.items() if key != "rows"})
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in part["rows"])
    return f'{about[:-1]}, "rows": [\n{rows}\n]}}'


if __name__ == "__main__":
    sys.exit(main())
