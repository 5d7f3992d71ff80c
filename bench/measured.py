"""The pages of ``docs/measured``, written from stored data.

    python bench/measured.py [NAME …]     # writes the pages; default: all of them
    python bench/measured.py --check      # writes nothing; fails if a page is not what would be written

Nothing is measured here. Each page names the commands that measured its numbers and the file that keeps them.
``quality.md`` is written by ``bench/quality.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from heldout.lab.power.leaderboard import read_results, write_leaderboard
from heldout.report import certainty, robustness
from heldout.verdict.measured import FiringCount, shipped_rates

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDER = DOCS / "measured"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
    yield ""


def stored(name: str) -> Iterator[str]:
    """The tables of ``docs/measured/NAME.json``: title, command, what it was measured on, columns and rows."""
    for entry in json.loads((FOLDER / f"{name}.json").read_text()):
        yield f"## {entry['title']}"
        yield ""
        yield f"`{entry['command']}`: {entry['measured']}."
        yield ""
        yield from table(entry["columns"], entry["rows"])


def leaderboard() -> Iterator[str]:
    """What ``heldout lab leaderboard`` writes, less its figure and bibliography."""
    rows = pl.read_parquet(DOCS / "data" / "detector-power.parquet")
    results = [read_results(path) for path in sorted((DOCS / "results").glob("*.json"))]
    with tempfile.TemporaryDirectory() as folder:
        page, _ = write_leaderboard(rows, results, Path(folder), "heldout lab leaderboard …")
        text = page.read_text().partition("\n## How to cite")[0]
    lines = (line for line in text.splitlines()[1:] if not line.startswith("!["))
    yield from "\n".join(lines).replace("\n\n\n", "\n\n").strip("\n").splitlines()


def rates() -> Iterator[str]:
    """The rates that verdicts read, by detector, way and benchmark."""
    shipped = shipped_rates()
    yield (
        "How often each detector fires at the 5 % level on models whose contamination is known ([the lab](lab.md)). "
        "Verdicts read these rates: a claim that rests on a detector which fires on clean models too often (**off**) "
        "is at most *possible*. *Raw* is the detector by itself, *with references* its difference to clean models of "
        "other seeds. Brackets are 95 % intervals that count models of one base as hardly more than one."
    )
    yield ""
    yield f"Measured by `{shipped.provenance.command}`."
    yield ""
    rows = [
        (
            f"{rate.detector} **off**" if rate.off else rate.detector,
            rate.way,
            name,
            _fired(found.contaminated),
            _fired(found.clean),
        )
        for rate in shipped.rates
        for name, found in rate.benchmarks.items()
    ]
    yield from table(("detector", "way", "benchmark", "contaminated models", "clean models"), rows)


def _fired(count: FiringCount) -> str:
    return f"{count.fired}/{count.n} [{count.low:.2f}, {count.high:.2f}]" if count.n else "–"


def lab_medical() -> Iterator[str]:
    from lab_medical_page import FACTS, ROWS, page

    yield from page(pl.read_parquet(DOCS / ROWS), json.loads((DOCS / FACTS).read_text()))


def clip_leaks() -> Iterator[str]:
    from clip_leaks_tables import DATA, page

    yield from page(json.loads((DOCS / DATA).read_text())).splitlines()


def transforms() -> Iterator[str]:
    """The studies and the precision that reports quote, and the degrees of encoders."""
    precision = certainty.published()
    yield (
        "Copies of benchmark pictures are hidden in a collection, each under one transform, and looked for. *On the "
        "shortlist* is what encoder or hashes find; *found* is what registration then calls a copy; *left to people* "
        "is undecided or changed in part. Brackets are exact 95 % intervals over pictures. Reports quote these rates "
        "from the file in the package; with `--run RUN` a measurement on your own pictures takes their place. "
        "`crop-N` takes N pixels off every side."
    )
    yield ""
    for study in robustness.published().studies:
        yield f"## {study.encoder.partition(' | ')[0]}"
        yield ""
        yield f"`{study.command}`: {study.queries:,} pictures of {study.collection} among {study.pictures:,}."
        yield ""
        rows = [
            (one.name, _share(one.shortlisted), _share(one.found), _share(one.undecided))
            for one in study.transforms
        ]
        width = 4 if study.judge else 2
        columns = ("transform", "on the shortlist", "found", "left to people")[:width]
        yield from table(columns, [row[:width] for row in rows])
    yield "## Copies that registration alone finds, rendered pictures"
    yield ""
    yield (
        f"`{precision.command}`: of {precision.said} pairs that registration alone called copies {precision.right} "
        f"were, and of {precision.altered} pictures in which one attribute was changed it called {precision.passed} "
        "copies. Reports quote this for pictures that heldout rendered, and for no others."
    )
    yield ""
    yield from stored("degrees")


def _share(share: robustness.Share | None) -> str:
    return f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]" if share is not None else "–"


def speed() -> Iterator[str]:
    yield (
        "Every ratio is against a named peer that took turns with ours in the same run, each one's best counts. "
        "Rows of embeddings are *real* (an ImageNet network over real pictures, many windows of each), *fitted* (drawn "
        "with the mean and covariance of the real ones) or *made up* (mean cosine .5); no corpus of CLIP embeddings of "
        "this size was at hand."
    )
    yield ""
    yield from stored("speed")


def canary() -> Iterator[str]:
    yield "The guarantee of [canaries](canary.md), counted and calculated."
    yield ""
    yield from stored("canary")


def published_tables() -> Iterator[str]:
    from heldout.cli.app import app

    command = ("evaluate", "--published", "medvlsynther")
    os.environ["COLUMNS"] = "120"  # else as wide as the terminal
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        app(command)
    yield (
        "Which differences of published tables could be noise? The paper reports means of six accuracies without "
        "intervals. How alike two models answer is in no table: *usually paired* takes half of the way from the least "
        "possible disagreement to that of independent models, because two models whose replies are public are at "
        "most 51 % of the way on ScienceQA (`python bench/scorers.py`). Intervals are of the items; another training "
        "run is in none of them."
    )
    yield ""
    yield "```console"
    yield f"$ heldout {' '.join(command)}"
    yield from (line.rstrip() for line in printed.getvalue().rstrip().splitlines())
    yield "```"
    yield ""
    yield from stored("scorers")


#: by name of the page: its title, the stored data, and what writes the rest
PAGES: dict[str, tuple[str, str, Callable[[], Iterator[str]]]] = {
    "leaderboard": (
        "Detector leaderboard",
        "docs/results and docs/data/detector-power.parquet",
        leaderboard,
    ),
    "rates": ("Rates that verdicts read", "src/heldout/verdict/measured_rates.json", rates),
    "lab-medical": (
        "The lab's medical tier: pretrained parts, real pictures",
        "docs/data/lab-medical.parquet and docs/data/lab-medical.json",
        lab_medical,
    ),
    "clip-leaks": ("A small CLIP with known leaks", "docs/data/clip-leaks.json", clip_leaks),
    "transforms": (
        "Copies under every transform",
        "src/heldout/report/measured and docs/measured/degrees.json",
        transforms,
    ),
    "speed": ("Speed and memory", "docs/measured/speed.json", speed),
    "canary": ("How often canaries flag models", "docs/measured/canary.json", canary),
    "published-tables": (
        "Published tables with their intervals, and published scorers",
        "src/heldout/evaluate/tables and docs/measured/scorers.json",
        published_tables,
    ),
}
#: links to pages of docs/, or to measured neighbours
LINK = re.compile(r"\]\(([\w-]+)\.md")


def written(name: str) -> str:
    title, data, lines = PAGES[name]
    head = (
        f"# {title}\n\nWritten by `python bench/measured.py {name}` from {data}. Do not edit.\n\n"
    )
    return LINK.sub(_linked, head + "\n".join(lines()).rstrip() + "\n")


def _linked(match: re.Match[str]) -> str:
    name = {"detector-power": "rates"}.get(match[1], match[1])
    return f"]({'../' if (DOCS / f'{name}.md').exists() else ''}{name}.md"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PAGES))
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.names) - set(PAGES):
        parser.error(f"no page {', '.join(sorted(unknown))}; there are {', '.join(PAGES)}")
    differing = []
    for name in chosen.names or PAGES:
        page, text = FOLDER / f"{name}.md", written(name)
        if not chosen.check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            differing.append(name)
    if differing:
        print(
            f"differ from their data: {', '.join(differing)}; python bench/measured.py writes them"
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
