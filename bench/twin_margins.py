"""The detectors of twins on the same items of a recorded run: those with options, which all of them can read.

    python bench/twin_margins.py RUN --baseline MODEL [--baseline MODEL …]

RUN holds answers with log-probabilities of options (`heldout ask --choice-logprobs`, or an audit that names
twin-margin). Prints for every other model the difference to the baselines with its p; for twin-margin also the sum in
nats, and the old answer among the twin's wrong options.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import polars as pl

from heldout.detect import DetectSettings, Finding, ScoreTables, run_detectors
from heldout.store import Run

NAMES = ("twin-drop", "twin-memory", "twin-margin")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--baseline", action="append", required=True)
    parser.add_argument("--permutations", type=int, default=99_999)
    options = parser.parse_args()
    tables = ScoreTables.load(Run.open(options.run))
    assert tables.answers is not None
    options_shown = pl.col("options").list.len() > 0
    # Scores of open items would make one of the tests a test of more items.
    chosen = replace(tables, answers=tables.answers.filter(options_shown), twin_scores=None)
    settings = DetectSettings(baselines=tuple(options.baseline), permutations=options.permutations)
    print("| model | test | items | difference to the baselines | p |")
    print("|---|---|--:|--:|--:|")
    for name in NAMES:
        outcomes, _ = run_detectors(chosen, [name], settings)
        for finding in outcomes:
            if not isinstance(finding, Finding) or finding.cell.model in options.baseline:
                continue
            effect, where = finding.effect, finding.cell.model
            shown = f"{effect.value:+.3f} [{effect.low:+.3f}, {effect.high:+.3f}]"
            print(f"| {where} | {name} | {finding.n} | {shown} | {finding.p:.2g} |")
            if name == "twin-margin":
                nats, wrong = (finding.details[key] for key in ("nats", "wrong_options"))
                shown = f"{nats['value']:+.2f} [{nats['low']:+.2f}, {nats['high']:+.2f}]"
                print(f"| {where} | in nats | {finding.n} | {shown} | z {nats['z']:.2f} |")
                shown = f"{wrong['value']:+.3f} [{wrong['low']:+.3f}, {wrong['high']:+.3f}]"
                print(
                    f"| {where} | among wrong options | {wrong['n']} | {shown} | {wrong['p']:.2g} |"
                )


if __name__ == "__main__":
    main()
