"""heldout twin: the same questions on new pictures, on which another answer is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.audit import Twinning, TwinPlan, make_twins
from heldout.benchmark import open_tables, parse_source, read_benchmark
from heldout.cli.options import (
    Images,
    Json,
    Map,
    Preset,
    Reader,
    Timeout,
    check_out,
    key_from,
    parse_map,
    per_second,
)
from heldout.cli.show import console, identify, plain, print_json
from heldout.errors import InputError, counted
from heldout.model import ChatEndpoint, Connection, Pace
from heldout.store import Run
from heldout.twin import (
    DESCRIBE,
    EDGES,
    FILTER,
    KINDS,
    LONGEST_CAPTION,
    POLICIES,
    PUBLISH,
    RENDER,
    RESAMPLE,
    STAGES,
    Renderer,
    open_renderer,
)

EXAMPLE = (
    "Example: heldout twin data/mmstar.tsv --out runs/twin --renderer flux "
    "--describer http://localhost:8000/v1 --verifier http://localhost:8000/v1"
)
_STAGES = ", ".join(STAGES)


def twin_command(
    bench: Annotated[
        str, typer.Argument(metavar="BENCH", help="A path, path#split=test,lang=en, or a preset.")
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="Run folder, new or of this benchmark.")
    ],
    renderer: Annotated[
        str | None,
        typer.Option(
            "--renderer",
            help="; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items()) + ".",
        ),
    ] = None,
    describer: Annotated[
        str | None,
        typer.Option("--describer", metavar="URL", help="Model that writes the captions."),
    ] = None,
    describer_model: Annotated[
        str | None, typer.Option("--describer-model", metavar="NAME", help="If it serves several.")
    ] = None,
    verifier: Annotated[
        str | None, typer.Option("--verifier", metavar="URL", help="Model that judges the twins.")
    ] = None,
    verifier_model: Annotated[
        str | None, typer.Option("--verifier-model", metavar="NAME", help="If it serves several.")
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            help=f"Who decides: {', '.join(POLICIES)}. Default: the verifier; without one, people.",
        ),
    ] = None,
    unfiltered: Annotated[
        bool, typer.Option("--unfiltered", help="Publish twins that nobody judged, marked as such.")
    ] = False,
    until: Annotated[
        str | None, typer.Option("--until", metavar="STAGE", help=f"Stop after it: {_STAGES}.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="STAGE", help="Begin there, with what the run holds."),
    ] = None,
    stage: Annotated[
        str | None, typer.Option("--stage", metavar="STAGE", help="This stage and no other.")
    ] = None,
    render_url: Annotated[
        str | None,
        typer.Option("--render-endpoint", metavar="URL", help="Of --renderer edit."),
    ] = None,
    render_model: Annotated[
        str | None, typer.Option("--render-model", metavar="NAME", help="Of flux or edit.")
    ] = None,
    render_set: Annotated[
        list[str],
        typer.Option(
            "--render-set", metavar="KEY=VALUE", help="A setting of the renderer: steps=30."
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    edges: Annotated[
        str, typer.Option("--edges", metavar="LOW,HIGH", help="Thresholds of the edge map.")
    ] = "100,200",
    longest_caption: Annotated[
        int, typer.Option("--longest-caption", min=1, help="Words; longer ones are left out.")
    ] = LONGEST_CAPTION,
    reply_tokens: Annotated[
        int, typer.Option("--max-new-tokens", min=1, help="Of a caption or a verdict.")
    ] = 1024,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first items.")
    ] = None,
    describer_key: Annotated[
        str | None,
        typer.Option("--describer-api-key-env", metavar="VAR", help="Variable that holds the key."),
    ] = None,
    verifier_key: Annotated[
        str | None,
        typer.Option("--verifier-api-key-env", metavar="VAR", help="Variable that holds the key."),
    ] = None,
    render_key: Annotated[
        str | None,
        typer.Option("--render-api-key-env", metavar="VAR", help="Variable that holds the key."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/s", help="Most requests: 5/s, 100/m.")
    ] = None,
    timeout: Timeout = 120.0,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=256, help="Requests at a time.")
    ] = 4,
    token_field: Annotated[
        str,
        typer.Option(
            "--token-field", help="What the endpoints call the limit: max_completion_tokens …"
        ),
    ] = "max_tokens",
    mapping: Map = [],  # noqa: B006
    images: Images = None,
    preset: Preset = None,
    reader: Reader = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random draw.")] = 0,
    as_json: Json = False,
) -> None:
    """Make a twin of every item: resample, describe, edges, render, filter, publish.

    A killed run, or one whose endpoint died, goes on where it was when the same command is given again:
    no caption, picture or verdict that arrived is lost or asked for twice.
    """
    first, last = _span(stage, start, until)
    low, high = _thresholds(edges)
    plan = TwinPlan(
        first,
        last,
        seed,
        limit,
        low,
        high,
        longest_caption,
        concurrency if renderer == "edit" else 1,
        keep,
        unfiltered,
    )
    stages = plan.stages
    _check_captions(renderer, describer, stages)
    reading: dict[str, Any] = {
        "preset": preset,
        "mapping": parse_map(mapping),
        "images": images,
        "reader": reader,
    }
    benchmark = read_benchmark(bench, **reading)
    draws: Renderer | None = None
    if renderer is not None and RENDER in stages:
        settings = _settings(render_set)
        if renderer == "scene":
            settings.setdefault("folder", _folder(bench))
        if render_model is not None:
            settings["model"] = render_model
        if renderer == "edit":
            if render_url is None or render_model is None:
                raise InputError(
                    "--renderer edit needs its server and what that serves: --render-endpoint URL "
                    "--render-model NAME"
                )
            settings |= {
                "url": render_url,
                "api_key": key_from(render_key, "--render-api-key-env"),
                "timeout": timeout,
                "pace": Pace(per_second(rate)),
            }
        draws = open_renderer(renderer, **settings)

    def chat(role: str, url: str | None, model: str | None, key: str | None) -> ChatEndpoint | None:
        if url is None:
            return None
        option = f"--{role}-api-key-env"
        connection = Connection(
            url,
            api_key=key_from(key, option),
            timeout=timeout,
            pace=Pace(per_second(rate)),
            role=f"{role}-",
            key_option=option,
        )
        return ChatEndpoint.open(
            connection,
            model,
            max_tokens=reply_tokens,
            concurrency=concurrency,
            token_field=token_field,
        )

    # Before the run, so that a server that cannot be asked leaves none behind.
    check_out(out, seed)
    describes = verifies = None
    if DESCRIBE in stages:
        describes = chat("describer", describer, describer_model, describer_key)
    if FILTER in stages:
        verifies = chat("verifier", verifier, verifier_model, verifier_key)
    run = Run.create(out, seed=seed)
    identify(benchmark, quiet=as_json)
    with run.writing():
        made = make_twins(
            benchmark,
            run,
            plan,
            reopen=lambda: open_tables(bench, **reading),
            describer=describes,
            renderer=draws,
            verifier=verifies,
            quiet=as_json,
        )
    if as_json:
        return print_json({"run": str(out), **made.as_json()})
    return _show(made, bench, out, last)


def _span(stage: str | None, start: str | None, until: str | None) -> tuple[str, str]:
    if stage is not None and (start is not None or until is not None):
        raise InputError("--stage is one stage alone: leave out --from and --until")
    if stage is not None:
        return stage, stage
    return start or RESAMPLE, until or PUBLISH


def _thresholds(text: str) -> tuple[int, int]:
    try:
        low, high = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--edges {text}: expected two whole numbers, like 100,200") from None
    return low, high


def _settings(entries: list[str]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"--render-set {entry}: expected KEY=VALUE, for example steps=30")
        try:
            record[key] = json.loads(value)
        except ValueError:
            record[key] = value
    return record


def _check_captions(renderer: str | None, describer: str | None, stages: tuple[str, ...]) -> None:
    """Before anything is done: a renderer that draws from captions, and nobody who writes them."""
    if renderer is not None and renderer not in KINDS:
        raise InputError(f"--renderer {renderer}: there are {', '.join(KINDS)}")
    if renderer and KINDS[renderer].needs_caption and DESCRIBE in stages and describer is None:
        raise InputError(
            f"--renderer {renderer} draws from captions: say which model writes them with "
            f"--describer URL"
        )


def _folder(bench: str) -> Path:
    path = parse_source(bench).path
    return path if path.is_dir() else path.parent


def _show(made: Twinning, bench: str, out: Path, last: str) -> None:
    screen = console()
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for header in ("stage", "items", "new", "known", "left out"):
        table.add_column(header, justify="right" if header in ("items", "new", "known") else "left")
    for name, stage in made.stages.items():
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
        (sum(stage.get(side, 0) for stage in made.stages.values()), word)
        for side, word in (("prompt_tokens", "read"), ("reply_tokens", "written"))
    ]
    if any(count for count, _ in tokens):
        screen.print(", ".join(f"{count:,} tokens {word}" for count, word in tokens))
    if (faint := made.stages.get(EDGES, {}).get("faint", 0.0)) > 0.1:
        screen.print(
            Text(
                f"the edge maps of {faint:.0%} of the items are all but empty inside, and keep no layout: "
                f"look at {out}/twin/edges, and lower --edges",
                "yellow",
            ),
            soft_wrap=True,
        )
    if made.agreement is not None:
        _show_agreement(made.agreement)
    if made.policy == "unfiltered":
        screen.print(
            Text(
                "nobody judged these twins: they are marked unfiltered, and a drop on them may be the "
                "pictures' fault",
                "yellow",
            )
        )
    if made.published is not None:
        _show_published(made.published, bench, out)
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
        f"{record['both_reject']:,}; agreement {record['raw']:.1%} [{low:.1%}, {high:.1%}]"
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
