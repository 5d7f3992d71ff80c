"""heldout impact: how much a score owes to what leaked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.options import EngineName, Json, Quiet, Verbose, Workers
from heldout.cli.show import console, plain, print_json
from heldout.detect import (
    COPY,
    DRAWS,
    LABELLED,
    Impact,
    ImpactSettings,
    Line,
    ScoreDifference,
    Study,
    impact_of_leaks,
)
from heldout.stats import Interval

EXAMPLE = (
    "Example: heldout impact predictions.csv --run runs/slake, or heldout impact --encoder "
    "transformers:openai/clip-vit-base-patch32 pictures/test.jsonl --run runs/pictures"
)


SHOWN = (
    Shown("metric", "METRIC"),
    Shown("baseline", "PREDICTIONS"),
    Shown("map", "FIELD=COLUMN"),
    Shown("degrees", "hard=H,soft=S"),
    Shown("queries"),
    *panel(
        "Dual encoders",
        "encoder E",
        Shown("tasks", "a,b", convert=lambda text: tuple(filter(None, text.split(",")))),
        "label COLUMN",
        "caption COLUMN",
        "templates NAME",
        "class_names FILE",
        "class_embeddings DIR",
        "train [NAME=]CORPUS",
        "embeddings DIR",
    ),
    Shown("seed"),
)


@command(ImpactSettings, SHOWN)
def impact_command(
    settings: ImpactSettings,
    predictions: Annotated[
        list[str],
        typer.Argument(
            metavar="PREDICTIONS...",
            help="CSV, TSV, xlsx, JSON, JSONL or Parquet: id and prediction, correct, score, rank or "
            "loglik; several models in a column 'model' or in several files. With --encoder: BENCH.",
        ),
    ],
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A run folder of overlap.")
    ] = None,
    leaks: Annotated[
        str | None,
        typer.Option(
            "--leaks",
            metavar="FILE",
            help="What leaked by labels made elsewhere: id and leaked, as a table or JSONL. "
            "FILE#unlisted=clean: it lists leaked items only.",
        ),
    ] = None,
    bench: Annotated[
        str | None,
        typer.Option("--bench", metavar="BENCH", help="Of --leaks without --run: the benchmark."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where to write all figures (else RUN/impact-PREDICTIONS.json).",
        ),
    ] = None,
    engine: EngineName = "local",
    workers: Workers = 1,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Score leaked, non-leaked and size-matched random items apart, with intervals by cluster.

    With --encoder the scores are made here: zero-shot classification, a linear probe (--train) and
    image-text retrieval of a dual encoder on BENCH.
    """
    study = impact_of_leaks(
        predictions,
        run=run,
        leaks=leaks,
        benchmark=bench,
        out=out,
        engine=engine,
        workers=workers,
        quiet=quiet or as_json,
        settings=settings,
    )
    if as_json:
        print_json(study.as_json())
        return
    if study.labels is not None:
        console().print(Text(plain(study.labels.sentence), "yellow"), soft_wrap=True)
        if run is None and bench is None and not study.labels.clusters:
            message = (
                "no benchmark (--bench) and no column 'cluster': every item counts as a cluster"
            )
            console().print(Text(message, "yellow"), soft_wrap=True)
    for evaluation in study.evaluations:
        for task, why in evaluation.skipped.items():
            console().print(
                Text(plain(f"{evaluation.name}: no {task}: {why}"), "yellow"), soft_wrap=True
            )
    _show_summary(study)
    for impact in study.impacts:
        if verbose:
            _show(impact, study)
        _show_remarks(impact, study)
    if not verbose:
        message = "other kinds of leaks, intervals, random subsets of the same size: --verbose"
        console().print(Text(message, "dim"), soft_wrap=True)
    message = (
        f"all figures: {plain(str(study.path))}"
        if study.path is not None
        else "--out FILE keeps all figures"
    )
    console().print(message, soft_wrap=True, markup=False)
    if study.items_path is not None:
        console().print(f"every item: {plain(str(study.items_path))}", soft_wrap=True, markup=False)


def _show_summary(study: Study) -> None:
    """A row per model and measure: the score with and without the gravest leaks, and whether they differ."""
    out = console()
    measures = {line.measure for impact in study.impacts for line in impact.lines}
    several = len(measures) > 1
    title = study.benchmark if several else f"{study.benchmark}: {''.join(measures)}"
    out.print(Text(plain(title), "bold"), soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    kinds = ("model", *(("measure",) if several else ()), "leaks")
    for name in (*kinds, "all items", "not leaked", "leaked", "difference", "p"):
        table.add_column(name, justify="left" if name in kinds else "right", overflow="fold")
    for impact in study.impacts:
        lines = {(line.measure, line.subset, line.leakage): line for line in impact.lines}
        for measure in dict.fromkeys(line.measure for line in impact.lines):
            of = (impact.model, *((measure,) if several else ()))
            whole = _of_items(lines[measure, "original", ""])
            row: tuple[str, ...] = ("none", whole)
            if owed := next((owed for owed in impact.owed if owed.measure == measure), None):
                without = _of_items(lines[measure, "non-leaked", owed.leakage])
                leaked = _of_items(lines[measure, "leaked", owed.leakage])
                row = (_kind(owed.leakage), whole, without, leaked, *_tested(owed))
            table.add_row(*(Text(plain(part)) for part in (*of, *row)))
    out.print(table)
    if any(impact.owed for impact in study.impacts):
        message = "difference: score on all items minus score on items that did not leak; an association, not a cause"
        if any(line.leakage == "undecided" for impact in study.impacts for line in impact.lines):
            message += "; undecided items left out of both"
        out.print(Text(message, "dim"), soft_wrap=True)


def _of_items(line: Line) -> str:
    return (
        "none" if line.value is None else f"{_number(line.value, line.measure)} of {line.items:,}"
    )


def _tested(owed: ScoreDifference) -> tuple[str, str]:
    value = _number(owed.value, owed.measure, signed=True)
    p = owed.p if owed.p_adjusted is None else owed.p_adjusted
    if p is None:
        return value, "no spread" if owed.error is not None else "too few"
    return f"{value} {_interval(owed.interval, owed.measure, signed=True)}", _p(p)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _kind(leakage: str) -> str:
    return _KINDS.get(leakage) or f"items labelled '{leakage.partition(': ')[2]}'"


def _show_remarks(impact: Impact, study: Study) -> None:
    out = console()
    for sentence in study.remarks(impact.model):
        out.print(Text(plain(sentence), "yellow"), soft_wrap=True)
    left = Counter(drop.reason for drop in study.dropped[impact.model])
    if left:
        message = ", ".join(f"{reason} {count:,}" for reason, count in sorted(left.items()))
        out.print(Text(plain(f"{impact.model}: left out: {message}"), "yellow"))


def _show(impact: Impact, study: Study) -> None:
    out = console()
    out.print()
    measures = list(dict.fromkeys(line.measure for line in impact.lines))
    out.print(f"[bold]{_escaped(impact.model)}[/] on {_escaped(study.benchmark)}", soft_wrap=True)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("subset")
    table.add_column("leakage")
    table.add_column("items", justify="right")
    table.add_column("clusters", justify="right")
    for measure in measures:
        table.add_column(measure, justify="right", no_wrap=True)
        if measure == measures[0]:
            table.add_column("gain", justify="right", no_wrap=True)
    rows = [line for line in impact.lines if line.measure == measures[0]]
    for place, first in enumerate(rows):
        cells: list[str] = []
        for measure in measures:
            line = [line for line in impact.lines if line.measure == measure][place]
            cells.append(_value(line))
            if measure == measures[0]:
                cells.append(_gain(line))
        name = f"  {first.subset}" if first.subset.endswith(" label") else first.subset
        style = "bold" if first.subset == "leaked" else ""
        table.add_row(
            Text(name, style),
            first.leakage or "-",
            f"{first.items:,}",
            f"{first.clusters:,}",
            *map(Text, cells),
        )
    out.print(table)
    _show_draws(impact, measures)
    family = sum(owed.p is not None for impact in study.impacts for owed in impact.owed)
    for owed in impact.owed:
        style = "" if owed.interval is None else "bold"
        out.print(Text(_sentence(owed, impact.items, family), style), soft_wrap=True)


def _show_draws(impact: Impact, measures: list[str]) -> None:
    """The published form: equally many random items of every subset, ten times."""
    if not impact.draws:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(f"mean of {DRAWS} draws")
    table.add_column("leakage")
    for header in ("items", *measures):
        table.add_column(header, justify="right", no_wrap=True)
    rows = [line for line in impact.draws if line.measure == measures[0]]
    for place, first in enumerate(rows):
        cells = []
        for measure in measures:
            line = [line for line in impact.draws if line.measure == measure][place]
            assert line.value is not None
            spread = "" if line.sd is None else f" ± {_number(line.sd, measure)}"
            cells.append(f"{_number(line.value, measure)}{spread}")
        name = f"  {first.subset}" if first.subset.endswith(" label") else first.subset
        table.add_row(name, first.leakage or "-", f"{first.items:,}", *cells)
    console().print(table)


_KINDS = {
    "copy": "copies",
    "undecided": "undecided matches",
    "hard": "pictures of hard degree",
    "soft": "pictures of soft degree",
    "text": "leaked text",
    LABELLED: "items labelled as leaked",
}


def _sentence(owed: ScoreDifference, items: int, family: int) -> str:
    kind = _kind(owed.leakage)
    text = _number(owed.value, owed.measure, signed=True)
    if owed.interval is not None:
        text += f" {_interval(owed.interval, owed.measure, signed=True)}"
    apart = "score on all items minus score on items that did not leak"
    if owed.leakage.startswith(f"{LABELLED}:"):
        apart += "; items with other kinds of leaks left out of both"
    elif owed.leakage not in (COPY, LABELLED):
        apart += "; items with graver leaks left out of both"
    elif owed.leakage == COPY and owed.compared < items:
        apart += "; undecided items left out of both"
    head = f"{owed.measure} differs by {text} with {kind} ({apart})"
    p = owed.p if owed.p_adjusted is None else owed.p_adjusted
    if p is None and owed.error is not None:
        return f"{head}; all clusters agree, which leaves no spread to make an interval of"
    if p is None:
        return f"{head}; too few clusters leaked ({owed.leaked_clusters}) for an interval"
    shown = "p < 0.001" if p < 0.001 else f"p = {_p(p)}"
    among = f" (Holm over {family})" if family > 1 else ""
    return f"{head}, {shown}{among}; association, not cause"


def _value(line: Line) -> str:
    if line.value is None:
        return "none"
    text = _number(line.value, line.measure)
    if line.sd is not None:
        return f"{text} ± {_number(line.sd, line.measure)}"
    return f"{text} {_interval(line.interval, line.measure)}"


def _gain(line: Line) -> str:
    if line.gain is None:
        return "-"
    text = _number(line.gain, line.measure, signed=True)
    if line.sd is not None:
        return text
    return f"{text} {_interval(line.gain_interval, line.measure, signed=True)}"


def _interval(interval: Interval | None, measure: str, *, signed: bool = False) -> str:
    if interval is None:
        return "[too few]"
    low, high = (_number(end, measure, signed=signed) for end in (interval.low, interval.high))
    return f"[{low}, {high}]"


def _number(value: float, measure: str, *, signed: bool = False) -> str:
    """Rates in per cent, as published; log-likelihoods and scores as they are."""
    rate = measure == "accuracy" or measure.startswith(("R@", "top-"))
    shown = 100 * value if rate else value
    digits = 1 if rate else 3
    return f"{shown:+.{digits}f}" if signed else f"{shown:.{digits}f}"


def _escaped(text: str) -> str:
    return plain(text).replace("[", "\\[")
