"""What the verdict calls models whose memory is known, over many simulated benchmarks.

    python bench/verdicts.py [--replicates 200] [--only TEXT] [--public 2]
    python bench/verdicts.py --setups [--replicates 200] [--only TEXT]
    python bench/verdicts.py --twins [--replicates 200] [--only TEXT]
    python bench/verdicts.py --twins --detector twin-margin --scored

Every recipe of `verdict_recipes.py` and `verdict_setups.py` is recorded and looked at as `heldout detect`
does. Prints a Markdown table: how often the counted test has p ≤ .05, how often the claim *survives* (wrong for
clean models) and how often it is *clean* (wrong for contaminated ones), with the upper end of an exact one-sided
95 % interval. The first ``--public`` replicates of each recipe are also written as run folders and given to
``heldout.detect``, which has to say the same. ``--twins`` looks at the same twins by twin-drop,
twin-memory and twin-margin, and prints them side by side; ``--scored``: by scores of both answers on both pictures.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from heldout.lab.power.planted_answers import scored_twins
from heldout.stats import binomial_interval
from heldout.verdict import Claim, Examination, detect_run, judge, look
from verdict_recipes import (
    CLEAN,
    CONTAMINATED,
    THREE,
    TWINS,
    Recipe,
    Recording,
    looked_at_by,
    write_run,
)
from verdict_setups import CLEAN_SETUPS, CONTAMINATED_SETUPS

TWIN_DETECTORS = ("twin-drop", "twin-memory", "twin-margin")


def examined(recording: Recording) -> list[Examination]:
    """All looks at one recording, in memory; several need a run, which knows of the earlier ones."""
    if len(recording.looks) > 1:
        return detected(recording)
    return [
        judge(look(recording.tables, names, settings), recording.others)
        for names, settings in recording.looks
    ]


def detected(recording: Recording) -> list[Examination]:
    """The same from a run folder."""
    with tempfile.TemporaryDirectory() as folder:
        run = write_run(recording, Path(folder) / "run")
        return [
            detect_run(run, detectors=names, settings=settings).examination
            for names, settings in recording.looks
        ]


def counted_claims(recording: Recording, made: Iterable[Examination]) -> list[Claim]:
    every = [claim for examination in made for claim in examination.claims]
    return [claim for claim in every if claim.id == recording.claim or not recording.claim]


def verdict_of(recording: Recording, made: Iterable[Examination]) -> str:
    """Of several looks the worst for the model: that is the one people report."""
    statuses = [claim.status for claim in counted_claims(recording, made)]
    return "survives" if "survives" in statuses else statuses[0]


def fired(recording: Recording, made: Iterable[Examination]) -> bool:
    """Whether a finding of a counted claim has p ≤ .05 by itself."""
    examinations = list(made)
    wanted = {name for claim in counted_claims(recording, examinations) for name in claim.findings}
    return any(
        finding.id in wanted and finding.p is not None and finding.p <= 0.05
        for examination in examinations
        for finding in examination.findings
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--replicates", type=int, default=200)
    parser.add_argument("--only", default="", help="recipes whose name holds this text")
    parser.add_argument("--public", type=int, default=2)
    parser.add_argument("--setups", action="store_true", help="those of verdict_setups.py alone")
    parser.add_argument("--twins", action="store_true", help="detectors of twins, side by side")
    parser.add_argument("--detector", action="append", choices=TWIN_DETECTORS, help="of --twins")
    parser.add_argument("--scored", action="store_true", help="of --twins: open items, by scores")
    options = parser.parse_args()
    print(f"{options.replicates} replicates of each recipe\n")
    if options.twins:
        names = options.detector or TWIN_DETECTORS
        _side_by_side(options.replicates, options.only, names, scored=options.scored)
        return
    tables = (
        ("clean models", CLEAN),
        ("contaminated models", CONTAMINATED),
        ("models beside three families", THREE),
        ("clean models, further set-ups", CLEAN_SETUPS),
        ("contaminated models, further set-ups", CONTAMINATED_SETUPS),
    )
    for title, recipes in tables[-2:] if options.setups else tables:
        chosen = [recipe for recipe in recipes if options.only in recipe.name]
        if not chosen:
            continue
        print(f"| {title} | p ≤ .05 | survives | at most | clean | at most | else |")
        print("|---|--:|--:|--:|--:|--:|---|", flush=True)
        for recipe in chosen:
            print(_row(recipe, options.replicates, options.public), flush=True)
        print()


def _row(recipe: Recipe, replicates: int, public: int) -> str:
    counts: Counter[str] = Counter()
    tests = 0
    for seed in range(replicates):
        recording = recipe.make(seed)
        made = examined(recording)
        verdict = verdict_of(recording, made)
        # An audit corrects for claims of other benchmarks, of which one run folder knows nothing.
        if seed < public and not recording.others and len(recording.looks) == 1:
            assert verdict_of(recording, detected(recording)) == verdict, recipe.name
        counts[verdict] += 1
        tests += fired(recording, made)
    cells = [f"{tests / replicates:.3f}"]
    for status in ("survives", "clean"):
        high = binomial_interval(counts[status], replicates, 0.9).high
        cells += [f"{counts[status] / replicates:.3f}", f"{high:.3f}"]
    rest = ", ".join(
        f"{status} {count / replicates:.2f}"
        for status, count in counts.most_common()
        if status not in ("survives", "clean")
    )
    return f"| {recipe.name} | {' | '.join(cells)} | {rest or '–'} |"


def _side_by_side(replicates: int, only: str, names: Sequence[str], *, scored: bool) -> None:
    """Of each twin detector: p ≤ .05 on memory's side, *survives* with its upper bound, and *clean*."""
    heads = " | ".join(f"{name}: seen | survives | clean" for name in names)
    print(f"| twins | models | {heads} |")
    print(f"|---|---|{'--:|' * 3 * len(names)}", flush=True)
    for recipe in TWINS:
        if only not in recipe.name:
            continue
        cells = []
        for detector in names:
            counts: Counter[str] = Counter()
            for seed in range(replicates):
                recording = looked_at_by(detector, recipe.make(seed))
                if scored:
                    recording = replace(recording, tables=scored_twins(recording.tables))
                (made,) = examined(recording)
                counts[verdict_of(recording, [made])] += 1
                mine = [f for f in made.findings if f.id == recording.claim]
                counts["seen"] += any(finding.direction == "seen" for finding in mine)
            high = binomial_interval(counts["survives"], replicates, 0.9).high
            cells += [
                f"{counts['seen'] / replicates:.2f}",
                f"{counts['survives'] / replicates:.2f} (≤ {high:.2f})",
                f"{counts['clean'] / replicates:.2f}",
            ]
        kind = "contaminated" if recipe.contaminated else "clean"
        print(f"| {recipe.name} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
