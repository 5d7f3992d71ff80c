"""heldout detect: run detectors over what a run has recorded. Offline: no model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command, panel, with_options
from heldout.cli.options import Json, Quiet, Verbose
from heldout.cli.show import console, plain, print_claims, print_json, print_outline
from heldout.detect import DetectSettings, Finding, TripleHits, detectors
from heldout.engine import progress
from heldout.errors import InputError, counted
from heldout.report import claims_with_paths, outline_of
from heldout.stats import Contrast
from heldout.store import Run
from heldout.verdict import (
    LAB_KINDS,
    RAW,
    REFERENCES,
    Examination,
    MeasuredRate,
    MeasuredRates,
    detect_run,
    read_rates,
    shipped_rates,
)

# How `heldout detect` shows answers: both accuracies of every pair of forms, side by side.


def show_behaviour(findings: Sequence[Finding]) -> None:
    paired = [
        finding
        for finding in findings
        if finding.table == "answers" and "accuracy" in finding.details
    ]
    if not paired:
        return
    out = console()
    out.print(Text("\nthe same items in two forms", "dim"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "detector",
        "model",
        "first",
        "second",
        "Δ",
        "McNemar",
        "mid-p",
        "unread",
        "pairs",
    ):
        left = name in ("detector", "model", "first", "second")
        table.add_column(name, justify="left" if left else "right")
    for finding in paired:
        first, second = finding.details["accuracy"].items()
        unread = sum(sum(kinds.values()) for kinds in finding.details["unread"].values())
        table.add_row(
            finding.detector,
            Text(plain(finding.cell.model or "")),
            _rate(first),
            _rate(second),
            f"{100 * (second[1]['value'] - first[1]['value']):+.2f}",
            _p(finding.details["mcnemar"], "exact"),
            _p(finding.details["mcnemar"], "mid_p"),
            f"{unread:,} of {finding.details['replies']:,}",
            f"{finding.details['pairs_needed']['0.05']:,}",
        )
    out.print(table)
    note = "pairs: to see a difference of .05 in 4 of 5 studies"
    if any(
        not (finding.details["mcnemar"] or {}).get("items_independent", True) for finding in paired
    ):
        note += (
            "; p in brackets: as if items that share an image were independent, which they are not"
        )
    out.print(Text(note, "dim"))
    for finding in paired:
        _show_categories(finding)


def _show_categories(finding: Finding) -> None:
    parts: Mapping[str, Mapping[str, Any]] = finding.details["categories"]
    if not parts:
        return
    out = console()
    out.print(Text(f"\n{plain(finding.cell.model or '')}: own drop by category", "dim"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("category", "drop", "95 %", "adjusted p", "n", "clusters"):
        table.add_column(name, justify="left" if name == "category" else "right")
    for label, part in parts.items():
        known = "value" in part
        table.add_row(
            Text(plain(label)),
            f"{part['value']:+.3f}" if known else "too few",
            f"[{part['low']:+.3f}, {part['high']:+.3f}]" if known else "",
            f"{part['p_adjusted']:.2g}" if known else "",
            f"{part['n']:,}",
            f"{part['clusters']:,}",
        )
    out.print(table)


def _rate(arm: tuple[str, Mapping[str, float]]) -> str:
    return f"{arm[0]} {100 * arm[1]['value']:.2f}"


def _p(test: Mapping[str, Any] | None, which: str) -> str:
    if test is None:
        return "–"
    return f"{test[which]:.2g}" if test["items_independent"] else f"({test[which]:.2g})"


# heldout detect --list: every detector, and how often it fires on models whose contamination is known.


WAYS = (RAW, REFERENCES)


def list_detectors(rates: MeasuredRates, *, as_json: bool) -> None:
    known = detectors().values()
    if as_json:
        print_json(
            [
                {
                    "name": detector.name,
                    "family": detector.family,
                    "summary": detector.summary,
                    "measured": [
                        rate.model_dump(mode="json")
                        for way in WAYS
                        if (rate := rates.of(detector.name, way))
                    ],
                }
                for detector in known
            ]
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("detector", "family", "asks"):
        table.add_column(name)
    for name in ("clean,\nitself", "seen,\nitself", "clean,\nreferences", "seen,\nreferences"):
        table.add_column(name, justify="right")
    for detector in known:
        rates_shown = [text for way in WAYS for text in _counts(rates.of(detector.name, way))]
        table.add_row(detector.name, detector.family, detector.summary, *rates_shown)
    console().print(table)
    console().print(Text(f"\n{_where(rates)}", "dim"))


def show_measured(measured: Mapping[str, Any]) -> None:
    """Method notes: which detectors of this run were not measured, and which are off."""
    off = [
        _off_where(MeasuredRate.model_validate(rate))
        for rate in measured.get("rates", ())
        if rate["off"]
    ]
    if off:
        message = f"fire on clean lab models more often than their level: {', '.join(off)}"
        console().print(Text(f"\n{message}", "dim"))
    if unknown := measured.get("not_measured"):
        message = f"false positives and power not measured: {', '.join(unknown)}"
        console().print(Text(message if off else f"\n{message}", "dim"))


def _off_where(rate: MeasuredRate) -> str:
    places = [
        f"{LAB_KINDS.get(name, name)} {fired.fired} of {fired.n}"
        for name, fired in rate.off_in.items()
    ]
    return f"{rate.detector} ({'; '.join([rate.way, *places])})"


def _counts(rate: MeasuredRate | None) -> tuple[Text, Text]:
    if rate is None:
        return Text("–", "dim"), Text("–", "dim")
    clean, bad = rate.clean, rate.contaminated
    style = "red" if rate.off else ""
    return Text(f"{clean.fired}/{clean.n}" + " off" * rate.off, style), Text(f"{bad.fired}/{bad.n}")


def _where(rates: MeasuredRates) -> str:
    size = rates.provenance.weights
    weights = "" if size is None else f" of {size / 1e6:.1f} million weights"
    return (
        f"Tests of clean and of contaminated (seen) lab models{weights} in which each fires, by itself and "
        f"compared with clean references; – is not measured. Off: surely more clean ones than its level of "
        f".05 allows, of all or of one benchmark; a claim that rests on it is at most qualified. Small "
        f"models prove none."
    )


EXAMPLE = "Example: heldout detect runs/slake --baseline blip2 --detector order-trend"


SHOWN = (
    Shown("baselines", "MODEL", "--baseline"),
    Shown("families", "MODEL=FAMILY", "--family"),
    Shown("reference", "MODEL"),
    Shown("unseen", "FIELD=VALUE", convert=str),
    Shown("strata", "FIELD", "--stratum"),
    *panel(
        "Answers",
        Shown("bases", "[MODEL=]BASE", "--base"),
        Shown("degrees", "MODEL=N", "--degree"),
        "category FIELD",
    ),
    *panel("Tests", "permutations", "share", "top", "rank_by", "tail", "seed"),
)


@command(DetectSettings, SHOWN)
def detect_command(
    settings: DetectSettings,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run folder with scores or answers.")
    ] = None,
    detector: Annotated[
        list[str], typer.Option("--detector", metavar="NAME", help="Only these; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    rates: Annotated[
        Path | None,
        typer.Option(
            "--rates", metavar="FILE", help="Measured rates of your own heldout lab power."
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which detectors there are.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Has a model seen this benchmark? Every detector, with controls, from saved scores and answers."""
    if listing:
        list_detectors(shipped_rates() if rates is None else read_rates(rates), as_json=as_json)
        return
    if run is None:
        raise InputError(
            "give the run folder whose scores or answers to look at, or --list for the detectors"
        )
    with progress("testing", 1, "runs", disabled=quiet or as_json) as step:
        detection = detect_run(run, detectors=detector, rates=rates, settings=settings)
        step()
    if as_json:
        print_json({"run": str(run), **detection.examination.as_json()})
        return
    _show(detection.examination, run, verbose=verbose)


def _show(examination: Examination, run: Path, *, verbose: bool) -> None:
    out = console()
    print_outline(outline_of(Run.open(run)))
    for model, checks in examination.checks.items():
        for check in checks:
            if check.passed is not True:
                message = (
                    f"{plain(model)}: self-check '{check.name}' {check.outcome}: {check.reason}"
                )
                out.print(Text(message, "red" if check.failed else "yellow"))
    if note := examination.earlier.sentence:
        out.print(Text(f"\nearlier looks: {note}", "yellow"), soft_wrap=True)
    if not verbose:
        tests = counted(len(examination.findings), "test", "tests")
        left = counted(len(examination.untested), "was", "were")
        message = (
            f"{tests} ran, {left} not possible; every test and claim: --verbose, or the report"
        )
        out.print(Text(f"\n{message} (heldout report {run})", "dim"), soft_wrap=True)
        return
    _show_details(examination, run)


def _show_details(examination: Examination, run: Path) -> None:
    out = console()
    out.print()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "detector",
        "model",
        "effect",
        "interval",
        "level",
        "p",
        "p (Holm)",
        "direction",
        "n",
        "clusters",
    ):
        table.add_column(name, justify="left" if name in ("detector", "model") else "right")
    for f in examination.findings:
        e = f.effect
        table.add_row(
            f.detector,
            Text(plain(f.cell.model or "")),
            f"{e.value:.3g}",
            f"[{e.low:.3g}, {e.high:.3g}]",
            f"{100 * e.level:.3g} %",
            "–" if f.p is None else f"{f.p:.2g}",
            "–" if f.p_adjusted is None else f"{f.p_adjusted:.2g}",
            f.direction,
            f"{f.n:,}",
            f"{f.clusters:,}",
        )
    out.print(table)
    show_behaviour(examination.findings)
    _show_inflation(examination)
    _show_hits(examination)
    if examination.untested:
        out.print("\n[dim]not testable[/]")
        reasons: dict[str, list[str]] = {}
        for not_testable in examination.untested:
            reasons.setdefault(not_testable.reason, []).append(not_testable.id)
        for reason, ids in reasons.items():
            named = ", ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
            out.print(Text(f"{plain(named)}: {plain(with_options(reason, SHOWN))}", "dim"))
    if examination.easiest:
        message = (
            "items, strata and orders: easiest_items, by_stratum and orders in detections.json"
        )
        out.print(Text(f"\n{message}; as a page: heldout report {run}", "dim"), soft_wrap=True)
    show_measured(examination.measured)
    out.print()
    claims = [
        claim.model_copy(update={"why": with_options(claim.why, SHOWN)})
        for claim in examination.claims
    ]
    print_claims(claims_with_paths(claims, Run.open(run)))


def _show_inflation(examination: Examination) -> None:
    """Are answers likelier where the image was proven to be in a corpus?"""
    out = console()
    for corpus, rows in examination.inflation.items():
        if not rows:
            continue
        out.print(
            Text(f"\nlog p per token: images found in {plain(corpus)} minus the others", "dim")
        )
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("model", "stratum", "gap", "minus the baseline's", "items", "clusters"):
            table.add_column(name, justify="left" if name in ("model", "stratum") else "right")
        for row in rows:
            gap, above = row.gap, row.above_baseline
            table.add_row(
                Text(plain(row.model)),
                Text(plain(row.stratum)),
                _gap(gap),
                "–" if above is None else _gap(above),
                f"{gap.n[0]:,} / {gap.n[1]:,}",
                f"{gap.clusters[0]:,} / {gap.clusters[1]:,}",
            )
        out.print(table)


def _show_hits(examination: Examination) -> None:
    """Items with a flagged picture, a score in the tail and an answer that counts, α by α."""
    rows: dict[tuple[str, ...], list[TripleHits]] = {}
    for hit in examination.hits:
        rows.setdefault((hit.model, hit.corpus, hit.flag, hit.answer), []).append(hit)
    if not rows:
        return
    out = console()
    out.print(
        Text("\npicture flagged, score in the α tail, answer counts: hits (by chance)", "dim")
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "model",
        "corpus",
        "picture",
        "answer",
        "hits (by chance) at α",
        "least adjusted p",
    ):
        table.add_column(name, overflow="fold")
    for key, row in rows.items():
        message = " · ".join(f"{hit.alpha:.2g}: {hit.hits} ({hit.expected:.1f})" for hit in row)
        tested = [hit.p_adjusted for hit in row if hit.p_adjusted is not None]
        least = f"{min(tested):.2g}" if tested else "–"
        table.add_row(*(Text(plain(part)) for part in key), message, least)
    out.print(table)


def _gap(gap: Contrast) -> str:
    return f"{gap.value:+.3f} [{gap.interval.low:+.3f}, {gap.interval.high:+.3f}]"
