"""Findings, claims and report of a run, recomputed from its tables alone, and the verb report."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from heldout.audit.cases import renew_corrections
from heldout.detect import (
    Finding,
    adjust,
    image_nearness,
    image_overlap,
    joined_leakage,
    text_overlap,
)
from heldout.errors import InputError, counted
from heldout.evidence import PROVEN, count_kinds, leaks, reading_of, text_kinds
from heldout.overlap import (
    Calibration,
    CondensedMatches,
    calibration_record,
    calibrations,
    condensed_matches,
    read_text_matches,
)
from heldout.report import (
    ReportSettings,
    count_sources,
    is_evaluation,
    is_synthesis,
    is_training,
    write_audit_report,
    write_evaluation_report,
    write_report,
    write_synthesis_report,
    write_training_report,
)
from heldout.store import SCHEMAS, Run, empty_table
from heldout.verdict import (
    Claim,
    Control,
    claims_frame,
    claims_html,
    findings_frame,
    nearness_claims,
    overlap_claims,
    source_claim,
    text_claim,
    with_people,
    with_people_on_words,
    words_compared,
)

PART = "part"  # of the manifest: which part of which search a run holds


@dataclass
class Conclusion:
    run: Run
    findings: list[Finding]
    claims: list[Claim]
    report: Path

    @property
    def summary(self) -> str:
        """One line: the benchmark, how many claims have which status, and the run."""
        names = ", ".join(dict.fromkeys(claim.cell.benchmark for claim in self.claims))
        counts = Counter(claim.status for claim in self.claims)
        claims = ", ".join(f"{status} {count:,}" for status, count in counts.items())
        return f"{names or 'a benchmark'}: {claims or 'no claims'}, run {self.run.path}"

    def __repr__(self) -> str:
        return f"<Conclusion of {self.summary}>"

    def as_json(self) -> dict[str, Any]:
        return {
            "run": str(self.run.path),
            "report": str(self.report),
            "claims": [claim.model_dump(mode="json") for claim in self.claims],
            "findings": [finding.model_dump(mode="json") for finding in self.findings],
        }


def conclude(
    run: Run, *, settings: ReportSettings | None = None, quiet: bool = False
) -> Conclusion:
    """Recompute findings, claims and report from the tables of a run alone.

    Args:
        run: A run that was searched, or that has scores or answers.
        settings: What the page shows.
        quiet: Show no progress.
    """
    manifest = run.manifest()
    scored = bool(manifest.get("models"))
    if part := manifest.get(PART):
        raise InputError(
            f"{run.path} holds part {part['part']} of a search, which concludes nothing by itself: heldout merge "
            f"makes one run of all parts"
        )
    if not manifest["stages"] and not scored:
        raise InputError(f"{run.path} has no finished scan yet: run heldout overlap again")
    items = run.frame("items")
    scanned_once = run.table_path("matches").exists()
    condensed = condensed_matches(run) if scanned_once or not scored else CondensedMatches.of([])
    matches = condensed.table
    leaked = leaks(run)
    run.write_table("leaks", leaked.to_arrow().cast(SCHEMAS["leaks"]))
    count_sources(run)
    benchmark = manifest["inputs"]["benchmark"]["name"]
    findings: list[Finding] = []
    claims: list[Claim] = []
    worded = manifest.get("text", {})
    reading = reading_of(manifest)
    for stage in manifest["stages"].values():
        scanned = {**stage, **reading}
        image_findings = image_overlap(
            items,
            condensed,
            leaked,
            benchmark=benchmark,
            corpus=scanned["corpus"],
            corpus_images=scanned["counts"].get("images", 0),
            corpus_answers=scanned["counts"].get("with_answer", 0),
            nearest=scanned["nearest"],
            hashes=scanned.get("hashes", False),
        )
        findings += image_findings
        image_claims = overlap_claims(image_findings, scanned, worded=scanned["corpus"] in worded)
        claims += with_people(image_claims, matches)
    findings_of_words, claims_of_words = _words(run, items, matches, leaked)
    findings += findings_of_words
    claims += claims_of_words
    calibrated, nearness = nearness_findings(run, items, matches)
    others = manifest.get("audit", {}).get("nearness", ())  # tested together with these
    adjusted = iter(adjust([finding for findings in nearness for finding in findings], others))
    for calibration, image_findings in zip(calibrated, nearness, strict=True):
        mine = [next(adjusted) for _ in image_findings]
        findings += mine
        claims += nearness_claims(mine, calibration, benchmark)
    run.write_json("calibration.json", calibration_record(calibrated))
    for name, records in (("findings", findings), ("claims", claims)):
        entries = [entry.model_dump(mode="json") for entry in records]
        record = {"schema_version": 1, name: [*entries, *_about_models(run, name)]}
        run.write_json(f"{name}.json", record)
    report = write_report(run, findings, claims, calibrated, settings=settings, quiet=quiet)
    return Conclusion(run, findings, claims, report)


def _about_models(run: Run, name: str) -> list[dict[str, Any]]:
    """What `heldout detect` wrote about models is kept."""
    return [entry for entry in _entries(run, name) if entry["cell"]["model"] is not None]


def _words(
    run: Run, items: pl.DataFrame, matches: pl.DataFrame, leaked: pl.DataFrame
) -> tuple[list[Finding], list[Claim]]:
    """Findings and claims of the text search, if there was one."""
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
    sources = {stage["corpus"]: stage["source"] for stage in manifest["stages"].values()}
    for corpus, text_scan in texts.items():
        scanned = {"source": sources.get(corpus, ""), **text_scan, **reading_of(manifest)}
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
        findings += [*words_compared(per_method, scanned), joined]
        pictured = corpus not in wordy
        claim = text_claim(
            per_method, joined, count_kinds(kinds, corpus), scanned, pictured=pictured
        )
        claims.append(with_people_on_words(with_judge(claim, scanned), text_matches, items))
        for finding in per_method:
            if finding.id.endswith("/provenance"):
                proven = leaked.filter(
                    (pl.col("corpus") == corpus) & pl.col("rung").is_in(list(PROVEN))
                )["benchmark_id"]
                shared = source_claim(
                    finding, text_matches, len(items), scanned, leaked=set(proven)
                )
                claims += [shared] if shared is not None else []
    return findings, claims


def nearness_findings(
    run: Run, items: pl.DataFrame, matches: pl.DataFrame
) -> tuple[list[Calibration], list[list[Finding]]]:
    """Every calibration of a run, and what it finds, uncorrected."""
    manifest = run.manifest()
    facts, benchmark = manifest.get("calibration", {}), manifest["inputs"]["benchmark"]["name"]
    fitted = calibrations(items, run.frame("nearest"), facts) if facts else []
    return fitted, [
        image_nearness(items, matches, calibration, benchmark=benchmark) for calibration in fitted
    ]


def _entries(run: Run, name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    if (run.path / f"{name}.json").exists():
        entries = run.read_json(f"{name}.json")[name]
    return entries


CROSS_CHECK = "cross-check of paraphrases"


def with_judge(claim: Claim, scanned: Mapping[str, Any]) -> Claim:
    """``claim`` with the judge as one of its controls, where ``scanned`` (the manifest's record of the
    corpus) names one. Its opinion is reported and changes no status: pairs that it called different are already
    out of the tables, and those that it called the same are not stronger evidence for it."""
    record = scanned.get("judge")
    if record is None or not record["pairs"]:
        return claim
    sentence = judge_sentence(record)
    control = Control(
        name=CROSS_CHECK, outcome="missing" if record["unsure"] else "passed", reason=sentence
    )
    return claim.model_copy(
        update={"controls": [*claim.controls, control], "why": f"{claim.why}; {sentence}"}
    )


def judge_sentence(record: Mapping[str, Any]) -> str:
    """For example "m read 9 pairs that may be paraphrases: 5 the same, 3 different (3 count no longer), 1
    unsure"."""
    pairs = counted(
        record["pairs"], "pair that may be a paraphrase", "pairs that may be paraphrases"
    )
    message = (
        f"{record['identity']['model']} read {pairs}: {record['same']:,} the same, "
        f"{record['different']:,} different ({record['lowered']:,} count no longer), "
        f"{record['unsure']:,} unsure"
    )
    if record["unread"]:
        reasons = ", ".join(f"{count:,} {why}" for why, count in record["unread"].items())
        message += f" ({reasons})"
    return message


SECTION, KEY = "audit", "nearness"  # where the manifest holds them, and `conclude` finds them


def refuse_other_search(run: Run, file: Path) -> None:
    """An audit that names no corpora: results of a search in its folder would stand in its report."""
    if searched := sorted({stage["corpus"] for stage in run.manifest()["stages"].values()}):
        raise InputError(
            f"{run.path} holds a search of {', '.join(searched)}, and {file} names no corpora: its report would still "
            f"speak of them. Give another output, or delete that folder"
        )


def share_nearness(runs: Mapping[str, Run]) -> None:
    """Call when all corpora were searched, before the runs are concluded."""
    p_values = {name: _p_values(run) for name, run in runs.items()}
    for name, run in runs.items():
        others = sorted(p for other, ps in p_values.items() if other != name for p in ps)
        if run.manifest().get(SECTION, {}).get(KEY, []) != others:
            run.update(SECTION, {KEY: others})


def _p_values(run: Run) -> list[float]:
    if not run.manifest().get("calibration"):
        return []
    _, grouped = nearness_findings(run, run.frame("items"), condensed_matches(run).table)
    return [finding.p for findings in grouped for finding in findings if finding.p is not None]


# The verb report: findings, claims and the page of a run, rebuilt from its tables.


#: runs of other commands than audits, and what writes their pages
_PAGES = (
    (is_synthesis, write_synthesis_report),
    (is_training, write_training_report),
    (is_evaluation, write_evaluation_report),
)


_Kept = TypeVar("_Kept", Claim, Finding)


@dataclass(frozen=True)
class Report:
    """What ``heldout.report`` returns.

    Args:
        page: The page, a file to open in a browser.
        run: The run it is of; None for the page over all benchmarks of an audit.
        conclusion: What was concluded anew from the run's tables; None for pages that conclude nothing.
    """

    page: Path
    run: Run | None = None
    conclusion: Conclusion | None = None

    @property
    def claims(self) -> pl.DataFrame:
        """One row per claim: its status, and why."""
        return claims_frame(self._claims())

    @property
    def findings(self) -> pl.DataFrame:
        """One row per finding: detector, model or corpus, effect with its interval, p, direction."""
        return findings_frame(self._kept("findings", Finding))

    def _claims(self) -> list[Claim]:
        return self._kept("claims", Claim)

    def _kept(self, name: str, shape: type[_Kept]) -> list[_Kept]:
        """All that the run holds: of this page and of detectors."""
        if self.run is None or not (self.run.path / f"{name}.json").exists():
            return []
        return self.run.entries(name, shape)

    def as_json(self) -> dict[str, Any]:
        conclusion = self.conclusion
        return {"report": str(self.page)} if conclusion is None else conclusion.as_json()

    def __repr__(self) -> str:
        return f"<Report: {len(self._claims()):,} claims, page {self.page}>"

    def _repr_html_(self) -> str:
        page = html.escape(str(self.page))
        claims = claims_html(self._claims()) if self.conclusion is not None else ""
        return f'{claims}<p>report: <a href="{page}">{page}</a></p>'


def report_run(
    run: str | Path | Run,
    *,
    settings: ReportSettings | None = None,
    quiet: bool = False,
    **values: Any,
) -> Report:
    """Rebuild findings, claims and report.html from the tables of a run; no input is read again.

    ``heldout.report(...)`` is this function, too.

    Args:
        run: A run, its folder, or the output folder of an audit.
        settings: All settings; or give them by name as further arguments.
        quiet: Show no progress.
        **values: Fields of ``heldout.report.ReportSettings``.

    Returns:
        The page, and claims and findings as data frames.
    """
    settings = ReportSettings.choose(settings, values)
    folder = run.path if isinstance(run, Run) else Path(run)
    if (folder / "verdict.json").exists() and not (folder / "manifest.json").exists():
        return Report(write_audit_report(folder, settings))
    opened = run if isinstance(run, Run) else Run.open(folder)
    opened.verify()
    with opened.writing():
        for is_kind, write in _PAGES:
            if is_kind(opened):
                return Report(write(opened), opened)
        renew_corrections(opened)
        conclusion = conclude(opened, settings=settings, quiet=quiet)
    return Report(conclusion.report, opened, conclusion)
