"""OUTPUT/report.html of an audit: every benchmark against every corpus and model, from verdict.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import polars as pl
from markupsafe import Markup

from heldout.errors import InputError
from heldout.overlap import KINDS
from heldout.report._answer import headline
from heldout.report._first_screen import first_screen, shown_figure
from heldout.report._gallery import strongest_pairs
from heldout.report._models import model_figures
from heldout.report._next_steps import (
    advice_for,
    commands_folder,
    further,
    next_steps,
    with_paths,
)
from heldout.report._reproduce import commands_shown, script, templates
from heldout.report._scores_owed import LACKING, have_seen, score_rows
from heldout.report._statuses import MEANINGS, detectable
from heldout.report._summary_page import write_summary
from heldout.report.figures import heat_map, standalone
from heldout.report.settings import ReportSettings
from heldout.store import Run, opened, read_document, write_atomic, write_json


def write_audit_report(output: Path, settings: ReportSettings | None = None) -> Path:
    """``output`` holds verdict.json and one run folder per benchmark."""
    settings = settings if settings is not None else ReportSettings()
    source = output / "verdict.json"
    if not source.exists():
        raise InputError(f"{source} does not exist: has this audit finished?")
    verdict = read_document(source)
    names = list(verdict["corrected"])
    folders = run_folders(output, verdict)
    runs = {name: Run.open(output / folder) for name, folder in folders.items()}

    def filled(sentence: str) -> str:
        """Of several runs none is meant."""
        return with_paths(sentence, *runs.values()) if len(runs) == 1 else sentence

    steps = next_steps(list(runs.values()), verdict["recommendations"])
    open_ = further(verdict["recommendations"], steps)
    advice = [record for name in (*names, None) for record in _advice(open_, name, runs, filled)]
    least = {claim: effect for run in runs.values() for claim, effect in detectable(run).items()}
    screen = first_screen(verdict["cells"], advice, verdict["corrected"], least)
    worst = _worst(verdict["cells"])
    pairs, pictures = (
        strongest_pairs(runs[worst], settings.megabytes) if worst in runs else ([], [])
    )
    figures = [figure for run in runs.values() for figure in model_figures(run)]
    first = {
        "answer": headline(verdict["cells"], list(runs.values()), len(names)),
        "screen": screen,
        "steps": steps,
        "commands_folder": commands_folder(list(runs.values())),
        "shown_pairs": pairs,
        "shown_pictures": pictures,
        "shown_figure": shown_figure(figures, screen["top"]),
        "least": least,
        "with_paths": filled,
        "lacking": LACKING,
        "meanings": MEANINGS,
        "links": {name: f"{quote(folder)}/report.html" for name, folder in folders.items()},
        "title": f"Is “{names[0]}” still held out?"
        if len(names) == 1
        else f"Are these {len(names)} benchmarks still held out?",
    }
    page = (
        templates()
        .get_template("audit.html.j2")
        .render(
            first,
            benchmarks=[
                {
                    "name": name,
                    "answer": headline(_of(verdict, name), [runs[name]] if name in runs else []),
                }
                for name in names
            ],
            scores=[
                {**row, "benchmark": name}
                for name, corrected in verdict["corrected"].items()
                for row in score_rows(corrected, have_seen(verdict["cells"], name))
            ],
            leak_labels=[
                record["labels"] for record in verdict["corrected"].values() if "labels" in record
            ],
            family=verdict["family"],
            datasets=_datasets(output),
            audit=_audit_file(output, folders),
            commands=_commands(runs.values()),
            scripts=[*([script("copy.js")] if steps else []), script("tables.js")],
        )
    )
    path = output / "report.html"
    write_atomic(path, page)
    if settings.summary:
        version = next((run.manifest()["packages"].get("heldout") for run in runs.values()), "")
        footer = f"{'Benchmark' if len(names) == 1 else 'Benchmarks'}: {', '.join(names)}; made by heldout {version}."
        write_summary(output, {**first, "footer": footer})
    return path


def _advice(
    recommendations: Sequence[Mapping[str, Any]],
    name: str | None,
    runs: Mapping[str, Run],
    filled: Callable[[str], str],
) -> list[dict[str, Any]]:
    """Recommendations about one benchmark, with the paths of its run; None: about the audit."""
    mine = [record for record in recommendations if record["benchmark"] == name]
    if name is not None and name in runs:
        return advice_for(runs[name], mine)
    return [{**record, "sentence": filled(record["sentence"])} for record in mine]


def _worst(cells: Sequence[Mapping[str, Any]]) -> str:
    """The benchmark whose pictures are shown: that with the largest share of leaked items."""
    rates = {cell["benchmark"]: 0.0 for cell in cells}
    for cell in cells:
        if cell["leak_rate"]:
            rates[cell["benchmark"]] = max(
                rates[cell["benchmark"]], float(cell["leak_rate"]["value"])
            )
    return max(rates, key=lambda name: rates[name], default="")


def _of(verdict: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [cell for cell in verdict["cells"] if cell["benchmark"] == name]


def run_folders(output: Path, verdict: Mapping[str, Any]) -> dict[str, str]:
    """Run folders below, by the benchmark they are about; that of a benchmark which the audit file no longer names
    may still exist."""
    folders = {}
    for path in sorted(output.glob("*/manifest.json")):
        named = read_document(path).get("inputs", {}).get("benchmark")
        if named and named["name"] in verdict["corrected"]:
            folders[named["name"]] = path.parent.name
    return folders


def _datasets(output: Path) -> list[dict[str, Any]]:
    """Fresh items that this audit made, with links to their pages."""
    plan = output / "plan.json"
    steps = read_document(plan)["steps"] if plan.exists() else []
    planned = [step["benchmark"] for step in steps if step["stage"] == "synth"]
    datasets: dict[str, dict[str, Any]] = {}
    for path in sorted(output.glob("*/manifest.json")):
        name = read_document(path).get("synth", {}).get("settings", {}).get("name")
        page, funnel = path.with_name("report.html"), path.parent / "synth" / "funnel.json"
        if name in planned and page.exists() and funnel.exists():
            step = read_document(funnel)["steps"][-1]
            link = f"{quote(path.parent.name)}/report.html"
            datasets[name] = {
                "name": name,
                "link": link,
                "left": step["left"],
                "stage": step["name"],
            }
    return [datasets[name] for name in planned if name in datasets]


def _commands(runs: Iterable[Run]) -> list[str]:
    """The commands that made the audit: those of its runs, less what was done in one of them later."""
    typed = [command for run in runs for command in run.manifest()["commands"]]
    whole = [command for command in typed if {"audit", "demo"} & set(command[1:2])]
    whole += [command for command in typed if "heldout.audit(" in command[-1]]
    return commands_shown(whole) or ["heldout audit audit.yaml"]


def _audit_file(output: Path, folders: dict[str, str]) -> str:
    for folder in folders.values():
        copy = output / folder / "audit.yaml"
        if copy.exists():
            with opened(copy, "r", encoding="utf-8", errors="replace") as file:
                return str(file.read())
    return ""


# The matrix as a page with heat maps, as SVG files and as JSON.


SCHEMA_VERSION = 1
_TITLES = {
    "same image": "Same image: equal bytes, equal pixels, or aligned pixels that agree",
    "transformed copy": "Transformed copy: the detail agrees after a transform",
    "copy": "Any copy",
    "hard": "Hard: similarity alone, at the encoder's hard degree",
    "soft": "Soft: similarity alone, from the soft degree up to the hard one",
    "hard or soft": "Hard or soft: similarity alone",
}
_FIGURES: tuple[tuple[str, Literal["hard", "soft"]], ...] = (
    ("same image", "hard"),
    ("transformed copy", "hard"),
    ("hard", "soft"),
    ("soft", "soft"),
)


def matrix_record(matrix: pl.DataFrame) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "kinds": list(KINDS), "cells": matrix.to_dicts()}


def write_matrix(matrix: pl.DataFrame, folder: Path, *, command: str = "") -> list[Path]:
    """``matrix.html``, ``matrix.json`` and one SVG per kind; the page first."""
    figures = {kind: _figure(matrix, kind, tone) for kind, tone in _FIGURES}
    paths = []
    for kind, figure in figures.items():
        paths.append(folder / "figures" / f"matrix-{kind.replace(' ', '-')}.svg")
        write_atomic(paths[-1], standalone(figure))
    page = (
        templates()
        .get_template("matrix.html.j2")
        .render(
            figures=list(figures.values()),
            scopes=_scopes(matrix),
            encoders=sorted(set(matrix["encoder"].to_list()) - {""}),
            command=command,
        )
    )
    write_atomic(folder / "matrix.html", page)
    write_json(folder / "matrix.json", matrix_record(matrix))
    return [folder / "matrix.html", folder / "matrix.json", *paths]


def _figure(matrix: pl.DataFrame, kind: str, tone: Literal["hard", "soft"]) -> Markup:
    """Rates per image; corpora down, benchmarks across, as in the published figures."""
    images = matrix.filter((pl.col("unit") == "images") & (pl.col("kind") == kind))
    several = images["encoder"].n_unique() > 1
    rates: dict[tuple[str, str], float | None] = {}
    for row in images.iter_rows(named=True):
        rates[row["corpus"], _label(row, several)] = row["rate"]
    corpora = list(dict.fromkeys(corpus for corpus, _ in rates))
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in rates))
    cells = [[rates.get((corpus, benchmark)) for benchmark in benchmarks] for corpus in corpora]
    return heat_map(corpora, benchmarks, cells, tone=tone, title=_TITLES[kind])


def _label(row: dict[str, Any], several: bool) -> str:
    """A benchmark that several encoders searched has one column for each."""
    encoder = row["encoder"].split(" |")[0] or "equal pictures only"
    return f"{row['benchmark']} ({encoder})" if several else str(row["benchmark"])


def _scopes(matrix: pl.DataFrame) -> list[tuple[str, list[dict[str, Any]]]]:
    """Intra, then inter: one line per benchmark, corpus and unit, its kinds side by side."""
    scopes = []
    for scope in ("intra", "inter"):
        lines: dict[tuple[str, ...], dict[str, Any]] = {}
        for row in matrix.filter(pl.col("scope") == scope).iter_rows(named=True):
            key = (row["benchmark"], row["corpus"], row["encoder"], row["unit"])
            line = lines.setdefault(key, {**row, "kinds": {}})
            line["kinds"][row["kind"]] = row
        if lines:
            scopes.append((scope, list(lines.values())))
    return scopes
