"""check → overlap → findings → claims → report, into one run folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.audit.judged import with_judge
from heldout.benchmark import Benchmark
from heldout.benchmark.check import check
from heldout.corpus import Corpus
from heldout.detect import (
    Finding,
    adjust,
    count_kinds,
    image_nearness,
    image_overlap,
    joined_leakage,
    leaks,
    text_kinds,
    text_overlap,
)
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.overlap import NearSearch, scan
from heldout.overlap.calibration.calibration import Calibration, calibrations
from heldout.overlap.calibration.measure import CalibrationPlan, calibrate
from heldout.overlap.calibration.record import calibration_record
from heldout.overlap.judged import read_matches
from heldout.overlap.judged_texts import read_text_matches
from heldout.overlap.text import Judge, TextSearch
from heldout.overlap.text.judge import judge_texts
from heldout.overlap.texts import forget_texts, scan_texts
from heldout.report import write_report
from heldout.store import SCHEMAS, Run
from heldout.verdict import Claim, nearness_claims, overlap_claims, text_claim
from heldout.verdict.people import with_people
from heldout.verdict.people_words import with_people_on_words


@dataclass
class Conclusion:
    run: Run
    findings: list[Finding]
    claims: list[Claim]
    report: Path

    def as_json(self) -> dict[str, Any]:
        return {
            "run": str(self.run.path),
            "report": str(self.report),
            "claims": [claim.model_dump(mode="json") for claim in self.claims],
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
        }


def audit_overlap(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    near: NearSearch | None = None,
    calibration: CalibrationPlan | None = None,
    hashes: bool = True,
    text: TextSearch | None = None,
    judge: Judge | None = None,
    judge_every: bool = False,
    quiet: bool = False,
) -> Conclusion:
    """Everything `heldout overlap` does. A killed call continues where it was when called again.

    ``judge`` reads the paraphrase candidates of the text search that count, with ``judge_every`` all that
    are listed.
    """
    plan = calibration or CalibrationPlan()
    with run.writing():
        _forget_what_rested_on_others(run, corpora)
        scan(benchmark, corpora, run, engine, near=near, hashes=hashes, quiet=quiet)
        calibrate(benchmark, corpora, run, engine, near=near, plan=plan, quiet=quiet)
        ended = None
        if text is None:
            forget_texts(run)
        else:
            scan_texts(benchmark, corpora, run, engine, text, quiet=quiet)
            if judge is not None:
                ended = judge_texts(run, judge, every=judge_every).ended
        run.write_json("check.json", check(benchmark).model_dump(mode="json"))
        conclusion = conclude(run, quiet=quiet)
    if ended is not None:  # tables and report hold what the judge said by then; the rest is unsure
        raise ended
    return conclusion


def replaced_by(run: Run, corpora: Sequence[Corpus]) -> list[str]:
    """Corpora that ``run`` speaks of now and will not after a scan of these: name and source."""
    kept = {(corpus.name, corpus.source) for corpus in corpora}
    known = [(one["corpus"], one["source"]) for one in run.manifest()["stages"].values()]
    return [f"{name} ({source})" for name, source in known if (name, source) not in kept]


def _forget_what_rested_on_others(run: Run, corpora: Sequence[Corpus]) -> None:
    """A gate or an impact of corpora the run no longer speaks of would be read as of these."""
    if replaced_by(run, corpora):
        shutil.rmtree(run.path / "gate", ignore_errors=True)
        for study in run.path.glob("impact*.json"):
            study.unlink()


def conclude(run: Run, *, quiet: bool = False) -> Conclusion:
    """Findings, claims and report, recomputed from the run's tables alone."""
    manifest = run.manifest()
    scored = bool(manifest.get("models"))
    if not manifest["stages"] and not scored:
        raise InputError(f"{run.path} has no finished scan yet: run heldout overlap again")
    items = _frame(run, "items")
    scanned_once = run.table_path("matches").exists()
    matches = read_matches(run) if scanned_once or not scored else _empty("matches")
    benchmark = manifest["inputs"]["benchmark"]["name"]
    findings: list[Finding] = []
    claims: list[Claim] = []
    worded = manifest.get("text", {})
    for scanned in manifest["stages"].values():
        found = image_overlap(
            items,
            matches,
            benchmark=benchmark,
            corpus=scanned["corpus"],
            corpus_images=scanned["counts"].get("images", 0),
            corpus_answers=scanned["counts"].get("with_answer", 0),
            nearest=scanned["nearest"],
            hashes=scanned.get("hashes", False),
        )
        findings += found
        told = overlap_claims(found, scanned, worded=scanned["corpus"] in worded)
        claims += with_people(told, matches)
    findings_of_words, claims_of_words = _words(run, items, matches, benchmark)
    findings += findings_of_words
    claims += claims_of_words
    calibrated = _calibrations(run, items)
    nearness = [image_nearness(items, matches, one, benchmark=benchmark) for one in calibrated]
    others = manifest.get("audit", {}).get("nearness", ())  # tested together with these
    adjusted = iter(adjust([finding for found in nearness for finding in found], others))
    for one, found in zip(calibrated, nearness, strict=True):
        mine = [next(adjusted) for _ in found]
        findings += mine
        claims += nearness_claims(mine, one, benchmark)
    run.write_json("calibration.json", calibration_record(calibrated))
    for name, made in (("findings", findings), ("claims", claims)):
        entries = [one.model_dump(mode="json") for one in made]
        record = {"schema_version": 1, name: [*entries, *_about_models(run, name)]}
        run.write_json(f"{name}.json", record)
    report = write_report(run, findings, claims, calibrated, quiet=quiet)
    return Conclusion(run, findings, claims, report)


def _about_models(run: Run, name: str) -> list[dict[str, Any]]:
    """What `heldout detect` wrote there stays: this journey says nothing of models."""
    if not (run.path / f"{name}.json").exists():
        return []
    return [one for one in run.read_json(f"{name}.json")[name] if one["cell"]["model"] is not None]


def _words(
    run: Run, items: pl.DataFrame, matches: pl.DataFrame, benchmark: str
) -> tuple[list[Finding], list[Claim]]:
    """What leaked of each item (the table leaks), and what a text search says, if there was one."""
    manifest = run.manifest()
    texts = manifest.get("text", {})
    wordy = {
        one["corpus"]
        for one in manifest["stages"].values()
        if one["counts"].get("without_image", 0) == one["counts"].get("items", 0) > 0
    }
    found = read_text_matches(run) if texts else _empty("text_matches")
    leaked = leaks(matches, found)
    run.write_table("leaks", leaked.to_arrow().cast(SCHEMAS["leaks"]))
    queries = _frame(run, "text_queries") if texts else _empty("text_queries")
    kinds = text_kinds(found, matches)
    findings: list[Finding] = []
    claims: list[Claim] = []
    for corpus, scanned in texts.items():
        per_method = text_overlap(
            items,
            found,
            queries,
            benchmark=benchmark,
            corpus=corpus,
            documents=scanned["counts"].get("text_documents", 0),
            methods=scanned["methods"],
            answered=scanned["counts"].get("text_answers", 0) > 0,
        )
        joined = joined_leakage(items, leaked, benchmark=benchmark, corpus=corpus)
        findings += [*per_method, joined]
        pictured = corpus not in wordy
        claim = text_claim(
            per_method, joined, count_kinds(kinds, corpus), scanned, pictured=pictured
        )
        claims.append(with_people_on_words(with_judge(claim, scanned), found, items))
    return findings, claims


def _empty(name: str) -> pl.DataFrame:
    frame = pl.from_arrow(SCHEMAS[name].empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


def _calibrations(run: Run, items: pl.DataFrame) -> list[Calibration]:
    facts = run.manifest().get("calibration", {})
    return calibrations(items, _frame(run, "nearest"), facts) if facts else []


def _frame(run: Run, name: str) -> pl.DataFrame:
    frame = pl.from_arrow(run.read_table(name))
    assert isinstance(frame, pl.DataFrame)
    return frame
