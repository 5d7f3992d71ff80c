"""heldout twin: the same questions on new pictures, on which another answer is right."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.benchmark import read_benchmark
from heldout.cli.from_settings import Shown, command, panel
from heldout.cli.options import (
    SERVER,
    Bench,
    Images,
    Json,
    Map,
    ModelRun,
    Preset,
    Quiet,
    Reader,
    parse_map,
    shared_server,
)
from heldout.cli.show import console, plain, print_json
from heldout.errors import InputError, counted, percent
from heldout.twin import EDGES, RENDER, Twinning, TwinSettings, make_twins

EXAMPLE = (
    "Example: heldout twin data/mmstar.tsv --out runs/twin --renderer flux "
    "--describer http://localhost:8000/v1 --verifier http://localhost:8000/v1"
)


def _renderer_settings(entries: Sequence[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"--render-set {entry}: expected KEY=VALUE, for example steps=30")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value
    return settings


SHOWN = (
    Shown("renderer"),
    Shown("keep"),
    Shown("unfiltered"),
    Shown("first", "STAGE", flag="--from"),
    Shown("last", "STAGE", flag="--until"),
    *panel(
        SERVER,
        "describer.url URL",
        "describer.model NAME",
        "describer.api_key_env VAR",
        "verifier.url URL",
        "verifier.model NAME",
        "verifier.api_key_env VAR",
        "max_new_tokens",
    ),
    *shared_server("describer", "verifier", "render_endpoint"),
    *panel(
        "Drawing",
        "render_endpoint.url URL",
        "render_model NAME",
        Shown("render_endpoint.api_key_env", "VAR", flag="--render-api-key-env"),
        Shown("render", "KEY=VALUE", flag="--render-set", convert=_renderer_settings, several=True),
        Shown("edges", "LOW,HIGH", convert=str),
        "longest_caption",
    ),
    Shown("limit"),
    Shown("seed"),
)


def _prepare(values: dict[str, Any], options: Mapping[str, Any]) -> None:
    stage = options["stage"]
    if stage is not None and values.keys() & {"first", "last"}:
        raise InputError("--stage is one stage alone: leave out --from and --until")
    if stage is not None:
        values |= {"first": stage, "last": stage}


@command(TwinSettings, SHOWN, prepare=_prepare)
def twin_command(
    settings: TwinSettings,
    bench: Bench,
    out: ModelRun,
    stage: Annotated[
        str | None, typer.Option("--stage", metavar="STAGE", help="This stage and no other.")
    ] = None,
    mapping: Map = [],  # noqa: B006 - typer copies defaults
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a twin of every item: resample, describe, edges, render, filter, publish.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again:
    no caption, picture or verdict that arrived is lost or asked for twice.
    """
    columns = parse_map(mapping)
    result = make_twins(
        read_benchmark(bench, preset=preset, mapping=columns, images=images, reader=reader),
        settings,
        run=out,
        quiet=quiet or as_json,
        command=["heldout", *sys.argv[1:]],
    )
    if as_json:
        return print_json(result.as_json())
    return _show(result.twinning, bench, out, settings.last)


def _show(twinning: Twinning, bench: str, out: Path, last: str) -> None:
    screen = console()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for header in ("stage", "items", "new", "known", "left out"):
        table.add_column(header, justify="right" if header in ("items", "new", "known") else "left")
    for name, stage in twinning.stages.items():
        why = ", ".join(f"{plain(reason)} {count:,}" for reason, count in stage["left_out"].items())
        items = stage.get("kept", stage["items"])
        new = stage.get("asked", stage.get("drawn"))
        table.add_row(
            name,
            f"{items:,}",
            "" if new is None else f"{new:,}",
            f"{stage['reused']:,}" if "reused" in stage else "",
            Text(why),
        )
    screen.print(table)
    tokens = [
        (sum(stage.get(side, 0) for stage in twinning.stages.values()), word)
        for side, word in (("prompt_tokens", "read"), ("reply_tokens", "written"))
    ]
    if any(count for count, _ in tokens):
        screen.print(", ".join(f"{count:,} tokens {word}" for count, word in tokens))
    if (faint := twinning.stages.get(EDGES, {}).get("faint", 0.0)) > 0.1:
        screen.print(
            Text(
                f"the edge maps of {percent(faint, 0)} of the items are almost empty inside, and keep no layout: "
                f"look at {out}/twin/edges, and lower --edges",
                "yellow",
            ),
            soft_wrap=True,
        )
    if twinning.agreement is not None:
        _show_agreement(twinning.agreement)
    if twinning.policy == "unfiltered":
        screen.print(
            Text(
                "these twins were not judged: they are marked unfiltered, and bad pictures may "
                "cause a drop on them",
                "yellow",
            )
        )
    if twinning.published is not None:
        _show_published(twinning.published, bench, out)
    elif last == RENDER:
        screen.print(
            f"\nlook at {out}/twin/pictures, then: heldout review {out} --kind twins",
            soft_wrap=True,
        )


def _show_agreement(record: dict[str, Any]) -> None:
    screen = console()
    low, high = record["raw_interval"]["low"], record["raw_interval"]["high"]
    line = (
        f"verifier and people: both keep {record['both_keep']:,}, only the verifier keeps "
        f"{record['only_verifier_keeps']:,}, only people keep {record['only_people_keep']:,}, both reject "
        f"{record['both_reject']:,}; agreement {percent(record['raw'])} [{percent(low)}, {percent(high)}]"
    )
    if record["kappa"] is None:
        line += ", kappa undefined: one of the two says the same of all"
    else:
        line += f", kappa {record['kappa']:.2f}"
        if record["kappa_interval"] is not None:
            line += " [{low:.2f}, {high:.2f}]".format(**record["kappa_interval"])
    screen.print(Text(f"{line}, over {record['clusters']:,} clusters"), soft_wrap=True)


def _show_published(record: dict[str, Any], bench: str, out: Path) -> None:
    screen = console()
    places = [record[name] for name in ("benchmark", "vlmevalkit") if record[name]]
    listed = " and ".join(f"{out}/{place}" for place in places)
    screen.print(
        Text(f"\n{counted(record['items'], 'twin', 'twins')}: {plain(listed)}"), soft_wrap=True
    )
    for note in record["notes"]:
        screen.print(Text(plain(note), "yellow"), soft_wrap=True)
    ask = f"heldout ask {bench} --out {out} --variants original,twin={out}/{record['ask_with']} --model …"
    screen.print(Text(f"next: {plain(ask)}"), soft_wrap=True)
