"""The demo: a benchmark, a leaky corpus and five models, audited like any user's.

The audit reads an audit file and what it names. What was planted is looked up afterwards, to say whether
the verdict is right.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from heldout.audit.reader import read_audit
from heldout.audit.runner import AuditResult, run_audit
from heldout.benchmark import CheckReport, check, read_benchmark
from heldout.detect import ALPHA
from heldout.evidence import COPIES
from heldout.lab import (
    CONTAMINATED,
    DEMO_BENCHMARK,
    DEMO_FILE,
    DEMO_NAME,
    DEMO_TABLE,
    DEMO_TRUTH,
    DEMO_WHO,
    OUTSIDERS,
    DemoModels,
    DemoSize,
    audit_text,
    models_for,
    write_demo,
)
from heldout.overlap import read_matches, read_text_matches
from heldout.settings import Settings
from heldout.stats import adjust
from heldout.store import Run, read_document, write_atomic

EXACT, CHANGED, WORDS, DECOY, BROKEN = (
    "exact copy",
    "changed copy",
    "words alone",
    "decoy",
    "broken",
)
_GROUPS = (EXACT, CHANGED, WORDS, DECOY, BROKEN)
_TRUTHS = {
    CONTAMINATED: "was trained on the benchmark",
    "clean": "the same training, without the benchmark",
    **dict.fromkeys(OUTSIDERS, "another lineage, never saw the benchmark"),
}


@dataclass(frozen=True)
class PlantedCount:
    """One kind of planted item; ``found`` counts those that the audit called copies, or, where words alone
    leaked, those whose words count. ``common``: words that it found and that identify no item, because the
    benchmark asks the same of several pictures."""

    kind: str
    group: str  # one of _GROUPS
    planted: int
    found: int
    common: int = 0


@dataclass(frozen=True)
class Suspect:
    """One model, what the audit says of it, and what is true. ``least``: by detector, the effect that it would
    have detected."""

    name: str
    role: str
    truth: str
    status: str
    survives: tuple[str, ...]
    evidence: Mapping[str, str]  # by detector
    least: Mapping[str, float]


@dataclass(frozen=True)
class DemoResult:
    """``missing``: why no models were audited; empty where they were."""

    check: CheckReport
    audited: AuditResult
    planted: list[PlantedCount]
    models: list[Suspect]
    audit_file: Path
    missing: str = ""

    def __repr__(self) -> str:
        return f"<Demo: {self.audited!r}>"

    @property
    def report(self) -> Path:
        return self.audited.verdict.with_name("report.html")

    def as_json(self) -> dict[str, Any]:
        return {
            **self.audited.as_json(),
            "report": str(self.report),
            "audit": str(self.audit_file),
            "planted": [asdict(row) for row in self.planted],
            "models": [asdict(row) for row in self.models],
            "missing": self.missing,
        }


class DemoSettings(Settings):
    """Settings of ``heldout demo``."""

    out: Path = Path("heldout-demo")
    """New folder for data, run and report, or that of a demo that was killed."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Another seed renders another benchmark, which the included models were not trained on."""
    models: Path | None = None
    """Folder with the models contaminated, clean and outsider-a to outsider-c, ONNX or checkpoints, of this
    seed's benchmark; default: those of the package."""


def run_demo(
    out: str | Path | None = None,
    *,
    settings: DemoSettings | None = None,
    size: DemoSize | None = None,
    engine: str = "local",
    workers: int | None = None,
    corpus: bool = True,
    tell: Callable[[str], None] = lambda _: None,
    quiet: bool = False,
    **values: Any,
) -> DemoResult:
    """Render a benchmark, a leaky corpus and an audit file, run it, and compare with the truth.

    ``heldout.demo(...)`` is this function, too. The audit never sees the truth.

    Args:
        out: The setting of this name.
        settings: All settings; or give them by name as further arguments.
        size: How many pictures; default: those of ``heldout demo``.
        engine: Where the search runs.
        workers: Processes; default: one per core.
        corpus: Whether a corpus is audited, too, or the models alone.
        tell: Receives a line for every stage that begins.
        quiet: Show no progress.
        **values: Fields of ``heldout.audit.DemoSettings``.
    """
    demo = DemoSettings.choose(settings, values if out is None else {"out": out, **values})
    folder, seed = demo.out, demo.seed
    demo_models = models_for(seed, demo.models)
    missing = demo_models if isinstance(demo_models, str) else _not_installed(demo_models.needed())
    chosen = demo_models if isinstance(demo_models, DemoModels) and not missing else None
    tell("rendering a benchmark, its twins and a leaky corpus")
    write_demo(folder, seed, size or DemoSize(), chosen)
    file = folder / DEMO_FILE
    named = (
        {name: chosen.prefix(role) for name, role in chosen.names(seed).items()} if chosen else {}
    )
    text = audit_text(seed, models=named, corpus=corpus, engine=engine, workers=workers)
    write_atomic(file, text)
    audited = run_audit(read_audit(file), tell=tell, quiet=quiet)
    run = Run.open(audited.runs[DEMO_NAME])
    report = check(read_benchmark(folder / DEMO_BENCHMARK / DEMO_TABLE, name=DEMO_NAME))
    suspected = _suspected(audited, run, folder / DEMO_WHO) if chosen is not None else []
    planted = _against_truth(run, folder / DEMO_TRUTH) if corpus else []
    return DemoResult(report, audited, planted, suspected, file, missing)


def _not_installed(needed: Mapping[str, str]) -> str:
    lacking = [name for name in needed if importlib.util.find_spec(name) is None]
    if not lacking:
        return ""
    extras = ",".join(dict.fromkeys(needed[name] for name in lacking))
    return (
        f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed, so that no model "
        f"can run: pip install 'heldout[{extras}]', and give the same command again"
    )


def _against_truth(run: Run, truth: Path) -> list[PlantedCount]:
    matches, texts = read_matches(run), read_text_matches(run)
    copies = set(matches.filter(matches["relation"].is_in(COPIES))["corpus_id"])
    words = set(texts.filter(texts["degree"] != "none")["corpus_id"])
    generic = texts["evidence"].str.json_path_match("$.generic") == "true"
    common = set(texts.filter(generic)["corpus_id"]) - words
    planted, caught, seen = (Counter[tuple[str, str]]() for _ in range(3))
    for line in truth.read_text().splitlines():
        row = json.loads(line)
        kind = _group(row), row["kind"]
        planted[kind] += 1
        caught[kind] += row["corpus_id"] in (words if kind[0] == WORDS else copies)
        seen[kind] += kind[0] == WORDS and row["corpus_id"] in common
    kinds = sorted(planted, key=lambda kind: _GROUPS.index(kind[0]))
    return [
        PlantedCount(name, group, planted[kind], caught[kind], seen[kind])
        for kind in kinds
        for group, name in [kind]
    ]


def _group(row: Mapping[str, Any]) -> str:
    if row["group"] in (DECOY, BROKEN):
        return str(row["group"])
    if row["found_by"] is None:
        return WORDS
    return CHANGED if row["found_by"] == "near" else EXACT


def _suspected(audited: AuditResult, run: Run, who: Path) -> list[Suspect]:
    roles: dict[str, str] = read_document(who)
    findings = run.read_json("detections.json")["findings"]
    cells = {cell.on: cell for cell in audited.overall.cells if cell.cell.model is not None}
    suspects = []
    for name, role in roles.items():
        mine = [
            finding
            for finding in findings
            if finding["cell"]["model"] == name and finding["p"] is not None
        ]
        texts = {
            entry["detector"]: f"{entry['effect']['value']:+.2f} "
            f"[{entry['effect']['low']:+.2f}, {entry['effect']['high']:+.2f}]"
            for entry in mine
        }
        if name in cells:
            status: str = cells[name].status
            survives = tuple(
                claim.id.partition("/")[0]
                for claim in cells[name].claims
                if claim.status == "survives"
            )
        else:  # a baseline makes no claims: it is there to show whether a clean model stays quiet
            status, survives = ("fires too" if _fires(mine) else "quiet"), ()
        least = {entry["detector"]: float(entry["minimum_detectable_effect"]) for entry in mine}
        suspects.append(Suspect(name, role, _TRUTHS[role], status, survives, texts, least))
    return suspects


def _fires(findings: list[dict[str, Any]]) -> bool:
    """Whether a baseline fires by itself, over all its tests: it cannot have seen the benchmark and must
    not."""
    corrected = adjust([finding["p"] for finding in findings], "holm") if findings else []
    return any(
        p <= ALPHA and finding["effect"]["value"] > 0
        for p, finding in zip(corrected, findings, strict=True)
    )
