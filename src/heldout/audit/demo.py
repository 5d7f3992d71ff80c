"""The demo: a rendered benchmark, a leaky corpus whose leaks we planted, and the audit of both."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from heldout import __version__
from heldout.audit.journey import Conclusion, audit_overlap
from heldout.benchmark import read_benchmark
from heldout.benchmark.check import CheckReport, check
from heldout.corpus import open_corpus
from heldout.detect.image_overlap import COPIES
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.overlap import NearSearch
from heldout.overlap.judged import read_matches
from heldout.overlap.text import TextSearch
from heldout.scenes import write_benchmark, write_corpus
from heldout.store import Run, write_json

BENCHMARK, CORPUS, RUN, MARKER = "scenes", "web-crawl", "run", "demo.json"
TRUTH = f"{CORPUS}.truth.jsonl"
NEAREST = 2  # neighbours verified per picture: enough for a copy, and a demo should not take long
_GROUPS = ("leak", "blind spot", "decoy", "broken")


@dataclass(frozen=True)
class Planted:
    """One kind of thing put into the corpus; ``found`` counts what the audit called a copy, or of what
    has words alone, whose words it counted."""

    kind: str
    group: str  # leak, blind spot, decoy, broken
    planted: int
    found: int


@dataclass
class DemoResult:
    check: CheckReport
    conclusion: Conclusion
    planted: list[Planted]


def run_demo(folder: Path, engine: Engine, *, seed: int = 0, quiet: bool = False) -> DemoResult:
    """Render, check, scan, conclude; then compare with the truth, which the audit never sees."""
    truth = _render(folder, seed)
    benchmark = read_benchmark(folder / BENCHMARK, name=BENCHMARK)
    corpus = open_corpus(folder / CORPUS, name=CORPUS)
    run = Run.create(folder / RUN, seed=seed)
    conclusion = audit_overlap(
        benchmark,
        [corpus],
        run,
        engine,
        near=NearSearch("pixels", NEAREST),
        text=TextSearch(),
        quiet=quiet,
    )
    return DemoResult(check(benchmark), conclusion, _against_truth(run, truth))


def _render(folder: Path, seed: int) -> Path:
    """The demo's data, rendered once; a render that was killed half way is done again."""
    made = {"seed": seed, "heldout": __version__}
    marker = folder / MARKER
    if marker.exists():
        if (found := json.loads(marker.read_text())) != made:
            raise InputError(
                f"{folder} holds the demo of seed {found.get('seed')} by heldout "
                f"{found.get('heldout')}; choose another --out or remove it"
            )
    else:
        if folder.exists() and {path.name for path in folder.iterdir()} - {
            BENCHMARK,
            CORPUS,
            TRUTH,
        }:
            raise InputError(f"{folder} holds other things than a demo; choose another --out")
        for name in (BENCHMARK, CORPUS):
            shutil.rmtree(folder / name, ignore_errors=True)
        written = write_benchmark(folder / BENCHMARK, seed=seed)
        write_corpus(folder / CORPUS, written, seed=seed)
        write_json(marker, made)
    return folder / TRUTH


def _against_truth(run: Run, truth: Path) -> list[Planted]:
    words = pl.from_arrow(run.read_table("text_matches"))
    assert isinstance(words, pl.DataFrame)
    copies = set(read_matches(run).filter(pl.col("relation").is_in(COPIES))["corpus_id"])
    said = set(words.filter(pl.col("degree") != "none")["corpus_id"])
    rows = [json.loads(line) for line in truth.read_text().splitlines()]
    planted = Counter((row["group"], row["kind"]) for row in rows)
    caught = Counter(
        (row["group"], row["kind"])
        for row in rows
        if row["corpus_id"] in (said if row["words"] and not row["found_by"] else copies)
    )
    return [
        Planted(kind, group, count, caught[group, kind])
        for (group, kind), count in sorted(
            planted.items(), key=lambda entry: _GROUPS.index(entry[0][0])
        )
    ]
