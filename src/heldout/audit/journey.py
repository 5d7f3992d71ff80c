"""check → overlap → findings → claims → report, into one run folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.audit.judged import with_judge
from heldout.benchmark import Benchmark, check
from heldout.corpus import Corpus
from heldout.detect import (
    Finding,
    adjust,
    image_nearness,
    image_overlap,
    joined_leakage,
    text_overlap,
)
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evidence import count_kinds, leaks, text_kinds
from heldout.overlap import (
    Calibration,
    CalibrationPlan,
    Judge,
    NearSearch,
    TextSearch,
    calibrate,
    calibration_record,
    calibrations,
    forget_texts,
    judge_texts,
    read_matches,
    read_text_matches,
    scan,
    scan_texts,
)
from heldout.report import write_report
from heldout.store import SCHEMAS, Run, empty_table
from heldout.verdict import (
    Claim,
    nearness_claims,
    overlap_claims,
    text_claim,
    with_people,
    with_people_on_words,
)


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
    with run.writing():
        search_corpora(
            benchmark,
            corpora,
            run,
            engine,
            near=near,
            calibration=calibration,
            hashes=hashes,
            text=text,
            quiet=quiet,
        )
        ended = None
        if text is not None and judge is not None:
            ended = judge_texts(run, judge, every=judge_every).ended
        conclusion = conclude(run, quiet=quiet)
    if ended is not None:  # tables and report hold what the judge said by then; the rest is unsure
        raise ended
    return conclusion


def search_corpora(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    near: NearSearch | None = None,
    calibration: CalibrationPlan | None = None,
    hashes: bool = True,
    text: TextSearch | None = None,
    quiet: bool = False,
) -> None:
    """The tables that ``conclude`` reads, and check.json. Call inside run.writing()."""
    _forget_what_rested_on_others(run, corpora)
    scan(benchmark, corpora, run, engine, near=near, hashes=hashes, quiet=quiet)
    plan = calibration or CalibrationPlan()
    calibrate(benchmark, corpora, run, engine, near=near, plan=plan, quiet=quiet)
    if text is None:
        forget_texts(run)
    else:
        scan_texts(benchmark, corpora, run, engine, text, quiet=quiet)
    run.write_json("check.json", check(benchmark).model_dump(mode="json"))


def replaced_by(run: Run, corpora: Sequence[Corpus]) -> list[str]:
    """Corpora that ``run`` speaks of now and will not after a scan of these: name and source."""
    kept = {(corpus.name, corpus.source) for corpus in corpora}
    known = [(stage["corpus"], stage["source"]) for stage in run.manifest()["stages"].values()]
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
    items = run.frame("items")
    scanned_once = run.table_path("matches").exists()
    matches = (
        read_matches(run) if scanned_once or not scored else pl.DataFrame(empty_table("matches"))
    )
    leaked = leaks(run)
    run.write_table("leaks", leaked.to_arrow().cast(SCHEMAS["leaks"]))
    benchmark = manifest["inputs"]["benchmark"]["name"]
    findings: list[Finding] = []
    claims: list[Claim] = []
    worded = manifest.get("text", {})
    for scanned in manifest["stages"].values():
        found = image_overlap(
            items,
            matches,
            leaked,
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
    findings_of_words, claims_of_words = _words(run, items, matches, leaked)
    findings += findings_of_words
    claims += claims_of_words
    calibrated, nearness = nearness_findings(run, items, matches)
    others = manifest.get("audit", {}).get("nearness", ())  # tested together with these
    adjusted = iter(adjust([finding for findings in nearness for finding in findings], others))
    for calibration, found in zip(calibrated, nearness, strict=True):
        mine = [next(adjusted) for _ in found]
        findings += mine
        claims += nearness_claims(mine, calibration, benchmark)
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
    run: Run, items: pl.DataFrame, matches: pl.DataFrame, leaked: pl.DataFrame
) -> tuple[list[Finding], list[Claim]]:
    """What a text search says, if there was one."""
    manifest = run.manifest()
    benchmark = manifest["inputs"]["benchmark"]["name"]
    texts = manifest.get("text", {})
    wordy = {
        stage["corpus"]
        for stage in manifest["stages"].values()
        if stage["counts"].get("without_image", 0) == stage["counts"].get("items", 0) > 0
    }
    text_matches = read_text_matches(run) if texts else pl.DataFrame(empty_table("text_matches"))
    queries = run.frame("text_queries") if texts else pl.DataFrame(empty_table("text_queries"))
    kinds = text_kinds(text_matches, matches)
    findings: list[Finding] = []
    claims: list[Claim] = []
    for corpus, scanned in texts.items():
        per_method = text_overlap(
            items,
            text_matches,
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
        claims.append(with_people_on_words(with_judge(claim, scanned), text_matches, items))
    return findings, claims


def nearness_findings(
    run: Run, items: pl.DataFrame, matches: pl.DataFrame
) -> tuple[list[Calibration], list[list[Finding]]]:
    """Every calibration of a run, and what it finds, uncorrected."""
    manifest = run.manifest()
    facts, benchmark = manifest.get("calibration", {}), manifest["inputs"]["benchmark"]["name"]
    made = calibrations(items, run.frame("nearest"), facts) if facts else []
    return made, [
        image_nearness(items, matches, calibration, benchmark=benchmark) for calibration in made
    ]
