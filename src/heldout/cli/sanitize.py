"""heldout sanitize: a clean split in the format of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.benchmark import open_tables
from heldout.cli.options import Images, Json, Map, Preset, Quiet, Reader, parse_map
from heldout.cli.show import console, identify, plain, print_json
from heldout.cure import DOUBTFUL, POLICIES, Policy, resplit, sanitize
from heldout.errors import InputError, counted
from heldout.store import Run

EXAMPLE = (
    "Example: heldout sanitize data/slake#split=test,lang=en --run runs/slake --out clean/slake"
)


def sanitize_command(
    bench: Annotated[
        str, typer.Argument(metavar="BENCH", help="The benchmark as it was scanned for RUN.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the result.")],
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A run folder of heldout overlap.")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="proven: remove what a claim says survives, which is copies of an image, and "
            "question with answer word for word. same-image: only items whose image leaked. soft: "
            "what is proven, near-identical and undecided images. full: only items that leaked "
            "with image, question and answer. down-weight: remove nothing, write weights.",
        ),
    ] = "proven",
    strict: Annotated[
        bool, typer.Option("--strict", help="Undecided matches count as copies.")
    ] = False,
    whole_clusters: Annotated[
        bool,
        typer.Option(
            "--whole-clusters", help="Remove all items that share an image or patient with one."
        ),
    ] = False,
    text: Annotated[
        bool,
        typer.Option(
            "--text",
            help="Also remove items whose words leaked without their answer; with soft, reworded "
            "and short ones, too.",
        ),
    ] = False,
    weight: Annotated[
        float | None,
        typer.Option(
            "--weight",
            min=0.0,
            max=1.0,
            show_default=str(DOUBTFUL),
            help="Of doubtful items under down-weight.",
        ),
    ] = None,
    others: Annotated[
        list[str],
        typer.Option(
            "--resplit",
            metavar="BENCH",
            help="The other split or splits: make new ones of the union that share no image. "
            "Repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    stratify: Annotated[
        str | None,
        typer.Option("--stratify", metavar="COLUMN", help="Keep its shares in every new split."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another --resplit.")] = 0,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a clean split in the format of the input, with a list of all that is not in it."""
    if policy not in POLICIES:
        raise InputError(f"--policy {policy}: expected one of {', '.join(POLICIES)}")
    if weight is not None and policy != "down-weight":
        raise InputError(
            f"--weight {weight:g} means nothing under --policy {policy}, which removes items whole: "
            f"add --policy down-weight, or leave it out"
        )
    if run is None and not others:
        raise InputError(
            "sanitize needs --run RUN (what leaked: heldout overlap BENCH --against CORPUS --out RUN) "
            "or --resplit BENCH"
        )
    scanned = Run.open(run) if run is not None else None
    fields = parse_map(mapping)
    opened = [
        open_tables(source, preset=preset, mapping=fields, images=images, reader=reader)
        for source in (bench, *others)
    ]
    if others:
        manifest = resplit(opened, out, run=scanned, stratify=stratify, seed=seed, quiet=quiet)
    else:
        assert scanned is not None
        identify(opened[0].benchmark, quiet=quiet)
        chosen = Policy(
            policy, strict, whole_clusters, text, DOUBTFUL if weight is None else weight
        )
        manifest = sanitize(opened[0], scanned, out, chosen)
    if as_json:
        print_json({"out": str(out), **manifest})
    elif others:
        _show_splits(manifest, out)
    else:
        _show(manifest, out)


def _show(manifest: dict[str, Any], out: Path) -> None:
    before, clean = manifest["benchmark"], manifest["clean"]
    told = console()
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("items", justify="right")
    table.add_column("images", justify="right")
    table.add_row(plain(before["name"]), f"{before['items']:,}", f"{before['images']:,}")
    for reason, count in manifest["removed"]["by_reason"].items():
        table.add_row(f"  removed: {reason}", f"{-count:,}", "")
    table.add_row(Text("clean", "green"), f"{clean['items']:,}", f"{clean['images']:,}")
    for reason, count in manifest["doubtful"]["by_reason"].items():
        told_as = reason.removeprefix("kept: ")  # they are all kept, as this line says
        table.add_row(f"  of them listed as doubtful: {told_as}", f"{count:,}", "")
    told.print(table)
    _footer(manifest, out)
    if clean["renamed_items"]:
        told.print(
            f"{counted(clean['renamed_items'], 'item has no id and is', 'items have no id and are')} "
            f"called by the row, which changed: kept.csv says by which before"
        )
    told.print(f"\nclean split: {out / clean['open']}", soft_wrap=True)
    told.print(f"removed:     {out / 'removed.csv'}", soft_wrap=True)


def _show_splits(manifest: dict[str, Any], out: Path) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    for name in ("split", "items before", "items", "images", "moved in"):
        table.add_column(name, justify="left" if name == "split" else "right")
    for split in manifest["splits"]:
        numbers = (split[key] for key in ("items_before", "items", "images", "moved_in"))
        table.add_row(plain(split["name"]), *(f"{number:,}" for number in numbers))
    told = console()
    told.print(table)
    told.print(f"images that two splits share: {manifest['shared_images']:,}")
    _footer(manifest, out)
    for split in manifest["splits"]:
        told.print(f"{plain(split['name'])}: {out / split['open']}", soft_wrap=True)


def _footer(manifest: dict[str, Any], out: Path) -> None:
    told = console()
    for caution in manifest["cautions"]:
        told.print(Text(f"caution: {plain(caution)}", "yellow"))
    for difference in manifest["differences"]:
        told.print(Text(f"reads back otherwise: {plain(difference)}", "bold red"))
