"""heldout sanitize: a clean split in the format of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.benchmark import open_tables
from heldout.cli.from_settings import Shown, command, panel, with_options
from heldout.cli.options import Images, Json, Map, Preset, Quiet, Reader, parse_map
from heldout.cli.show import console, plain, print_json
from heldout.cure import SanitizeSettings, sanitize
from heldout.errors import counted
from heldout.store import Run

EXAMPLE = (
    "Example: heldout sanitize data/slake#split=test,lang=en --run runs/slake --out clean/slake"
)


SPLITS = "New splits"
SHOWN = (
    *(Shown(name) for name in ("policy", "strict", "whole_clusters", "text", "weight")),
    *panel(SPLITS, "stratify COLUMN", "seed"),
)


@command(SanitizeSettings, SHOWN)
def sanitize_command(
    settings: SanitizeSettings,
    bench: Annotated[
        str, typer.Argument(metavar="BENCH", help="The benchmark as it was scanned for RUN.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the result.")],
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A run folder of heldout overlap.")
    ] = None,
    resplit: Annotated[
        list[str],
        typer.Option(
            "--resplit",
            metavar="BENCH",
            help="The other split or splits: make new ones of the union that share no image. "
            "Repeatable.",
            rich_help_panel=SPLITS,
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a clean split in the format of the input, with a list of all that is not in it."""
    searched = Run.open(run) if run is not None else None
    fields = parse_map(mapping)
    opened, *others = (
        open_tables(source, preset=preset, mapping=fields, images=images, reader=reader)
        for source in (bench, *resplit)
    )
    result = sanitize(opened, run=searched, out=out, resplit=others, settings=settings, quiet=quiet)
    if as_json:
        print_json(result.as_json())
    elif resplit:
        _show_splits(result.manifest, out)
    else:
        _show(result.manifest, out)


def _show(manifest: dict[str, Any], out: Path) -> None:
    before, clean = manifest["benchmark"], manifest["clean"]
    screen = console()
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("items", justify="right")
    table.add_column("images", justify="right")
    table.add_row(plain(before["name"]), f"{before['items']:,}", f"{before['images']:,}")
    for reason, count in manifest["removed"]["by_reason"].items():
        table.add_row(f"  removed: {reason}", f"{-count:,}", "")
    table.add_row(Text("clean", "green"), f"{clean['items']:,}", f"{clean['images']:,}")
    for reason, count in manifest["doubtful"]["by_reason"].items():
        label = reason.removeprefix("kept: ")  # they are all kept, as this line says
        table.add_row(f"  of them listed as doubtful: {label}", f"{count:,}", "")
    screen.print(table)
    _footer(manifest)
    if clean["renamed_items"]:
        called = counted(
            clean["renamed_items"],
            "item has no id of its own and is",
            "items have no id of their own and are",
        )
        screen.print(f"{called} called by the row, which changed: kept.csv says by which before")
    screen.print(f"\nclean split: {out / clean['open']}", soft_wrap=True)
    screen.print(f"removed:     {out / 'removed.csv'}", soft_wrap=True)


def _show_splits(manifest: dict[str, Any], out: Path) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    for name in ("split", "items before", "items", "images", "moved in"):
        table.add_column(name, justify="left" if name == "split" else "right")
    for split in manifest["splits"]:
        numbers = (split[key] for key in ("items_before", "items", "images", "moved_in"))
        table.add_row(plain(split["name"]), *(f"{number:,}" for number in numbers))
    screen = console()
    screen.print(table)
    screen.print(f"images that two splits share: {manifest['shared_images']:,}")
    _footer(manifest)
    for split in manifest["splits"]:
        screen.print(f"{plain(split['name'])}: {out / split['open']}", soft_wrap=True)


#: settings that cautions name, of this verb and of overlap
_NAMED = (Shown("run"), Shown("exact"), Shown("encoder"))


def _footer(manifest: dict[str, Any]) -> None:
    screen = console()
    for caution in manifest["cautions"]:
        screen.print(Text(f"caution: {with_options(plain(caution), _NAMED)}", "yellow"))
    for difference in manifest["differences"]:
        screen.print(Text(f"reads back otherwise: {plain(difference)}", "bold red"))
