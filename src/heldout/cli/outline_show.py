"""What a command comes to, before its details: a table of subjects, what to do, what was left out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from heldout.cli.show import COLOURS, console, plain
from heldout.errors import percent
from heldout.store import Run

if TYPE_CHECKING:  # only for types: not every verb needs the report
    import polars as pl

    from heldout.report import Outline

#: what cures a reason for leaving something out; a reason without an entry speaks for itself
CURES = {
    "missing image": "--images DIR names the folder that holds the images",
    "image outside the dataset folder": "--images DIR names the folder that holds the images",
    "no image": "--map image=COLUMN names the column of the image",
    "missing field": "--map FIELD=COLUMN names the column",
    "no usable column": "--map FIELD=COLUMN names the columns",
    "unknown item": "--map-recorded id=COLUMN names the column with the benchmark's ids",
    "connection lost": "give the same command again; what was finished is kept",
    "object changed": "give the same command again; what was finished is kept",
    "access refused": "renew the credentials and give the same command again",
    "server without ranges": "--cache DIR keeps copies of what is read",
    "empty image": "fetch the file again",
    "truncated image": "fetch the file again",
    "not an image": "fetch the file again; a web page may have been saved in its place",
    "unreadable image": "convert the file to PNG or JPEG",
    "image file too large": "make a smaller copy of it",
    "decompression bomb": "make a smaller copy of it, if it is what it claims to be",
    "prompt too long": "use a model with a longer context",
    "truncated prompt": "use a model with a longer context",
    "out of memory": "run it again with fewer --workers",
    "shard failed": "run the same command again: it goes on where it was",
    "no options": "none needed: only items with options have such variants",
    "no twin": "none needed, unless heldout twin can make the missing ones",
}


def with_cure(message: str) -> str:
    """An error that ends with a reason for which a cure is known, and that cure."""
    cures = [cure for reason, cure in CURES.items() if f": {reason} (" in message]
    return f"{message}. Cure: {cures[0]}" if cures else message


def print_outline(outline: Outline, *, next_steps: bool = True) -> None:
    """Subjects with their status in plain words, number and next verb; then commands to copy."""
    out = console()
    several = len({row.benchmark for row in outline.rows}) > 1
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (*(("benchmark",) if several else ()), "subject", "status", "number", "next"):
        table.add_column(name, overflow="fold")
    for row in outline.rows:
        table.add_row(
            *((Text(plain(row.benchmark)),) if several else ()),
            Text(plain(row.subject), "bold"),
            Text(row.words, COLOURS.get(row.status, "dim")),
            Text(plain(row.number)),
            Text(row.verb, "cyan"),
        )
    if outline.rows:
        out.print(table)
    if next_steps and outline.steps:
        out.print(Text("\nwhat to do", "bold"))
        for number, step in enumerate(outline.steps, 1):
            out.print(Text(plain(f"{number}. {step['sentence']}")), soft_wrap=True)
            for command in step["commands"]:
                out.print(Text(plain(f"   {command}"), "cyan"), soft_wrap=True)


def print_sources(sources: pl.DataFrame) -> None:
    """The sources of a training mixture, the one that shows most of the benchmark first."""
    if not len(sources):
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    heads = ("source", "rows", "weight", "share", "leaked items", "leaked rows", "seen in training")
    for name in heads:
        table.add_column(name, overflow="fold", justify="left" if name == "source" else "right")
    for row in sources.sort("exposures", descending=True, maintain_order=True).to_dicts():
        table.add_row(
            Text(plain(row["name"])),
            f"{row['rows']:,}",
            f"{row['weight']:g}",
            percent(row["share"]),
            f"{row['leaked_items']:,}",
            f"{row['leaked_rows']:,}",
            f"{row['exposures']:,.4g}×",
        )
    console().print(Text("\nby source", "bold"))
    console().print(table)


def print_dropped(
    run: Run, stages: Collection[str] = (), *, model: str | None = None, quiet: bool = False
) -> None:
    """How much was left out (of all stages where none is named), the commonest reason with an example, and its
    cure."""
    if quiet or not run.table_path("dropped").exists():
        return
    start = "" if model is None else f"{model}/"
    rows = [
        row
        for row in run.read_table("dropped").to_pylist()
        if (not stages or row["stage"] in stages) and row["id"].startswith(start)
    ]
    if not rows:
        return
    counts = Counter(row["reason"] for row in rows)
    reason, count = counts.most_common(1)[0]
    example = next(row for row in rows if row["reason"] == reason)
    message = f"left out: {len(rows):,}; most often “{reason}” ({count:,})"
    if cure := CURES.get(reason):
        message += f"; cure: {cure}"
    out = console()
    out.print(Text(plain(message), "yellow"), soft_wrap=True)
    detail = f"for example {example['id']}: {example['detail']}".rstrip(": ")
    out.print(Text(plain(f"  {detail}")[:300], "dim"), soft_wrap=True)
