"""report.html: one self-contained file, rebuilt from the run folder alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from heldout.detect import Finding
from heldout.overlap import Calibration, CondensedMatches, condensed_matches, read_text_matches
from heldout.report._answer import headline
from heldout.report._first_screen import first_screen, shown_figure
from heldout.report._gallery import SMALL, Gallery, make_gallery
from heldout.report._item_table import SHOWN_MODELS, make_item_table
from heldout.report._models import (
    Figure,
    measured_rates,
    model_figures,
    model_sections,
    tried_models,
)
from heldout.report._nearness import agreement, degree_figures, nearness_sections, relation_counts
from heldout.report._next_steps import (
    advice_for,
    claims_with_paths,
    commands_folder,
    further,
    next_steps,
    with_paths,
)
from heldout.report._reproduce import commands_shown, manifest_shown, script, templates
from heldout.report._scores_owed import (
    corrected_of,
    have_seen,
    impact_remarks,
    impact_rows,
    lacking,
    rankings_without,
    score_rows,
)
from heldout.report._statuses import MEANINGS, detectable
from heldout.report._summaries import claims_junit, report_markdown
from heldout.report._summary_page import write_summary
from heldout.report._words import word_sections
from heldout.report.figures import for_paper
from heldout.report.mixture import read_sources, worst_first
from heldout.report.robustness import robustness_sections
from heldout.report.settings import ReportSettings
from heldout.store import Run, remove, write_atomic
from heldout.verdict import Claim, benchmark_verdict, recommend

_STRENGTH = ["survives", "qualified", "re-attributed", "collapses", "not testable", "clean"]


def write_report(
    run: Run,
    findings: Sequence[Finding],
    claims: Sequence[Claim],
    calibrated: Sequence[Calibration] = (),
    *,
    settings: ReportSettings | None = None,
    quiet: bool = False,
) -> Path:
    """``claims`` are those of corpora; claims about models are in claims.json already."""
    settings = settings if settings is not None else ReportSettings()
    manifest = run.manifest()
    items = run.frame("items")
    # None for a run with scores alone
    recorded = condensed_matches(run) if run.table_path("matches").exists() else None
    matches = (recorded if recorded is not None else CondensedMatches.of([])).table
    name = manifest["inputs"]["benchmark"]["name"]
    near = [
        stage
        for stage in manifest["stages"].values()
        if stage["nearest"] or stage.get("hashes", False)
    ]
    sections = nearness_sections(calibrated, _names(items), name)
    of_models = model_figures(run)
    degrees = degree_figures(run, items, matches)
    robust = robustness_sections(run, list(manifest["stages"].values()))
    radars = [record["figure"] for record in robust if record["figure"] is not None]
    _write_figures(run, [*_nearness_figures(sections), *of_models, *degrees, *radars])
    gallery = make_gallery(run, settings.megabytes, quiet=quiet) if recorded is not None else None
    item_table = make_item_table(run, settings.items, gallery.numbers if gallery else {})
    corrected = corrected_of(run)
    verdict = benchmark_verdict(run, name, corrected, tried_models(run))
    cells = [cell.as_json() for cell in verdict.cells]
    every = [claim for cell in verdict.cells for claim in cell.claims]
    advice, least = recommend([verdict]), detectable(run)
    steps = next_steps([run], advice)
    screen = first_screen(cells, advice_for(run, further(advice, steps)), {name: corrected}, least)
    by_id = {finding.id: finding for finding in findings}
    seen = have_seen(cells, name)
    record = {
        "benchmark": manifest["inputs"]["benchmark"],
        "answer": headline(cells, [run]),
        "screen": screen,
        "steps": steps,
        "commands_folder": commands_folder([run]),
        "shown_pairs": gallery.top if gallery else [],
        "shown_pictures": [],  # the gallery has them
        "shown_figure": shown_figure(of_models, screen["top"]),
        "least": least,
        "with_paths": lambda sentence: with_paths(sentence, run),
        "lacking": with_paths(lacking(run), run),
        "meanings": MEANINGS,
        "overview": _overview(run),
        "models": model_sections(run),
        "measured": measured_rates(run),
        "model_figures": of_models,
        "claims": sorted(claims, key=lambda claim: (claim.idle, _STRENGTH.index(claim.status))),
        "findings_of": lambda claim: [
            by_id[finding] for finding in claim.findings if finding in by_id
        ],
        "relations": {
            entry["corpus"]: relation_counts(items, matches, entry["corpus"]) for entry in near
        },
        "degrees": degrees,
        "mixture": worst_first(read_sources(run)),
        "nearness": sections,
        "robustness": robust,
        "agreement": agreement(calibrated),
        "words": word_sections(
            manifest.get("text", {}),
            findings,
            items,
            matches,
            _text_matches(run),
            settings.texts,
        ),
        "scores": score_rows(corrected, seen),
        "rankings": rankings_without(corrected["rankings"], seen),
        "labels": corrected.get("labels"),
        "impacts": impact_rows(run),
        "impact_remarks": impact_remarks(run),
        "gallery": gallery or Gallery(),
        "item_table": item_table,
        "shown_models": SHOWN_MODELS,
        "small_size": SMALL,
        "checked": run.read_json("check.json") if (run.path / "check.json").exists() else None,
        "dropped": _dropped(run),
        "scans": list(manifest["stages"].values()),
        "manifest": manifest,
        "manifest_text": manifest_shown(manifest),
        "commands": commands_shown(manifest["commands"]),
    }
    record["scripts"] = _scripts(record)
    record["contents"] = _contents(record)
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("report.html.j2").render(record))
    text = report_markdown(
        record["benchmark"],
        record["answer"][0],
        {**screen, "sure": [with_paths(sentence, run) for sentence in screen["sure"]]},
        steps,
        cells,
        claims_with_paths(every, run),
        record["commands"],
        record["lacking"],
        [
            *(
                (model["name"], sentence)
                for model in record["models"]
                for sentence in model["remarks"]
            ),
            *(
                (impact_remark["file"], impact_remark["sentence"])
                for impact_remark in record["impact_remarks"]
            ),
        ],
    )
    write_atomic(run.path / "report.md", text)
    write_atomic(run.path / "junit.xml", claims_junit(name, every))
    if settings.summary:
        write_summary(run.path, _summarized(record))
    return path


def _summarized(record: dict[str, Any]) -> dict[str, Any]:
    """What the summary shows: the first screen, with pictures of its own and links to the report."""
    benchmark, manifest = record["benchmark"], record["manifest"]
    used = {pair[side].name for pair in record["shown_pairs"] for side in ("left", "right")}
    return {
        **record,
        "title": f"Is “{benchmark['name']}” still held out?",
        "links": {benchmark["name"]: "report.html"},
        "shown_pictures": [entry for entry in record["gallery"].sprite if entry.name in used],
        "footer": f"{benchmark['items']:,} items, revision {benchmark['fingerprint'][:12]}; made by heldout "
        f"{manifest['packages'].get('heldout', '')}, {manifest['created'][:10]}.",
    }


def _scripts(record: dict[str, Any]) -> list[dict[str, Any]]:
    several, listed = record["gallery"].total > 1, record["item_table"].listed
    names = (
        ("blocks.js", several or listed),
        ("gallery.js", several),
        ("items.js", listed),
        ("copy.js", record["steps"]),
        ("tables.js", True),
    )
    return [script(name) for name, wanted in names if wanted]


def _contents(record: dict[str, Any]) -> list[tuple[str, str]]:
    places = (
        ("matches", "gallery", record["gallery"].total > 1),
        ("claims", "claims", True),
        ("training mixture", "mixture", record["mixture"]),
        ("scores", "scores", record["scores"]),
        ("items", "items", record["item_table"].listed),
        ("models", "models", record["models"]),
        ("figures of models", "figures", record["model_figures"]),
        ("method and limits", "method", True),
        ("reproduce", "reproduce", True),
    )
    return [(name, place) for name, place, there in places if there]


def _overview(run: Run) -> str:
    """The page of the whole audit, where this run is part of one."""
    return "../report.html" if (run.path.parent / "stages.json").exists() else ""


def _nearness_figures(sections: Sequence[dict[str, Any]]) -> list[Figure]:
    return [
        Figure(f"nearness-{number}-{kind}", figure, "")
        for number, section in enumerate(sections, start=1)
        for kind, figure in zip(("histogram", "sweep"), section["figures"], strict=False)
    ]


def _write_figures(run: Run, figures: Sequence[Figure]) -> None:
    """The page's figures as files of their own, for slides and papers; none of an earlier report stays."""
    folder = run.path / "figures"
    kept = {f"{figure.name}.svg" for figure in figures}
    for old in folder.glob("*.svg"):
        if old.name not in kept:
            remove(old)
    for figure in figures:
        write_atomic(folder / f"{figure.name}.svg", for_paper(figure.drawn))


def _names(items: pl.DataFrame) -> dict[str, str]:
    shown = items.select("image_digests", "image_names").explode("image_digests", "image_names")
    return {digest: name for digest, name in shown.iter_rows() if digest}


def _text_matches(run: Run) -> pl.DataFrame | None:
    return read_text_matches(run) if run.table_path("text_matches").exists() else None


WORDLESS = ("text", "no text")  # stage and reason of corpus items that have pictures alone


def _dropped(run: Run) -> list[dict[str, Any]]:
    """Reasons with their counts and one example each; the table itself stays in the run."""
    rows = run.read_table("dropped").to_pylist() if run.table_path("dropped").exists() else []
    counts = Counter((row["stage"], row["reason"]) for row in rows)
    if WORDLESS in counts:  # one row per piece of a corpus, which says how many of its items
        scanned = run.manifest().get("text", {}).values()
        items = sum(int(scan["counts"].get("text_wordless", 0)) for scan in scanned)
        counts[WORDLESS] = items or counts[WORDLESS]
    example = {(row["stage"], row["reason"]): row for row in reversed(rows)}
    return [
        {"stage": stage, "reason": reason, "count": count, "example": example[stage, reason]}
        for (stage, reason), count in counts.most_common()
    ]
