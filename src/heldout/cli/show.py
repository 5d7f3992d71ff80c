"""How results look in a terminal. Results go to standard output, errors to standard error."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from heldout.engine import progress
from heldout.errors import counted, percent

if TYPE_CHECKING:  # only for types: every verb prints, and few need these packages
    from heldout.benchmark import Benchmark, CheckReport
    from heldout.report import Outline
    from heldout.store import Run
    from heldout.verdict import Claim

COLOURS = {
    "survives": "bold red",
    "qualified": "yellow",
    "clean": "green",
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
}


def plain(text: str) -> str:
    """Untrusted text without control characters: an id must not move the cursor."""
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # Rich would exit with 1, which here means that a gate fired


def console() -> Console:
    # Numbers in sentences must not be re-coloured. Away from a terminal there is no width to fit.
    terminal = _Console(highlight=False)
    return terminal if terminal.is_terminal else _Console(highlight=False, width=120)


def complain(message: str) -> None:
    line = f"[bold red]heldout:[/] {escape(plain(message))}"
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)


def identify(benchmark: Benchmark, *, quiet: bool) -> None:
    """Read the benchmark's images with a progress bar; later uses do not read them again."""
    title = f"reading the images of {benchmark.name}"
    with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
        benchmark.identify(step)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_prompts(prompts: list[dict[str, str]]) -> None:
    """Prompts word for word, each under its item and above its key."""
    out = console()
    for prompt in prompts:
        out.print(f"\n[bold]{escape(plain(prompt['id']))}[/]", soft_wrap=True)
        if "prompt" not in prompt:
            out.print(f"not asked: {escape(plain(prompt['not asked']))}", soft_wrap=True)
            continue
        out.print(escape(plain(prompt["prompt"])), soft_wrap=True)
        out.print(f"[cyan]key:[/] {escape(plain(prompt['answer']))}", soft_wrap=True)


def _split(facts: dict[str, Any]) -> str:
    if facts["split"]:
        return f"split {escape(plain(str(facts['split'])))}"
    counts = ", ".join(f"{escape(plain(key))} {n:,}" for key, n in facts["splits"].items())
    return f"all splits ({counts})" if counts else "no split named"


def print_check(report: CheckReport) -> None:
    out = console()
    facts = report.facts
    per = facts["items_per_image"]
    title = f"[bold]{escape(plain(report.benchmark))}[/]  {escape(plain(report.source))}"
    out.print(title, soft_wrap=True)
    out.print(
        f"{counted(facts['items'], 'item', 'items')} on {counted(facts['images'], 'image', 'images')} "
        f"({per['mean']} per image, at most {per['max']})"
        + (f" in {facts['clusters']:,} clusters" if facts["cluster_key"] != "image" else "")
        + f", {_split(facts)}, read as {report.reader}, revision {report.fingerprint[:12]}"
    )
    record = {
        "answer types": facts["answer_types"],
        "languages": facts["languages"] or facts["scripts"],
    }
    for name, counts in record.items():
        if counts:
            listed = ", ".join(f"{escape(str(key))} {count:,}" for key, count in counts.items())
            out.print(f"{name}: {listed}")
    if not report.problems:
        out.print("[green]no problems found[/]")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    out.print()
    for problem in report.problems:
        text = Text(with_shared_options(plain(problem.message)))
        text.append(f"\n→ {with_shared_options(plain(problem.advice))}", style="dim")
        if problem.examples and problem.rule != "structured-order":
            shown = plain("; ".join(problem.examples[:3]))
            more = problem.count - min(3, len(problem.examples))
            text.append(f"\n  e.g. {shown[:300]}" + (f"; {more:,} more" if more > 0 else ""), "dim")
        table.add_row(Text(problem.severity, COLOURS[problem.severity]), problem.rule, text)
    out.print(table)


def print_claims(claims: list[Claim]) -> None:
    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in claims:
        text = Text(plain(claim.sentence))
        text.append(f"\n{plain(claim.why)}.", style="dim")
        text.append(f"\n→ {plain(claim.next_step)}.", style="dim")
        table.add_row(status_text(claim.status), text)
    out.print(table)


def status_text(status: str, more: str = "") -> Text:
    """A status by its plain name, with the stored value where it is another word."""
    from heldout.verdict import PLAIN

    words = PLAIN.get(status, status)
    stored = ", ".join(filter(None, ("" if words == status else status, more)))
    text = Text(words, COLOURS.get(status, "dim"))
    return text.append(f"\n{stored}", "dim") if stored else text


_SHARED = {
    "mapping": "--map",
    "images": "--images",
    "preset": "--preset",
    "engine": "--engine",
    "workers": "--workers",
    "allow_unread": "--allow-unread",
}
_SHARED_SETTING = re.compile(
    r"(?<!\S)(mapping)(?= \w+=)|^({names})(?=: )|\bthe setting ({names})\b".replace(
        "{names}", "|".join(_SHARED)
    )
)


def with_shared_options(message: str) -> str:
    """A message about how a benchmark is read or where work runs, with options in place of settings."""
    return _SHARED_SETTING.sub(
        lambda match: _SHARED[match[1] or match[2] or match[3]],
        message,
    )


# What a command comes to, before its details: a table of subjects, what to do, what was left out and why.


#: what cures a reason for leaving something out; a reason without an entry needs no advice
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
    "not JSON": "mend these lines; the others were read",
    "no options": "none needed: only items with options have such variants",
    "no twin": "none needed, unless heldout twin can make the missing ones",
}

_RECIPE = (
    "a recipe names the folder that holds its images: --against train.yaml, and in train.yaml "
    "corpora: [{name: train, source: FILE, images: DIR}]"
)
#: of rows of a corpus, where another cure helps: --images and --map are of the benchmark
CORPUS_CURES = {"missing image": _RECIPE, "image outside the dataset folder": _RECIPE}


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
    # Too wide a table breaks lines anywhere, also within a number: then its parts have a line each.
    cells = [(row.subject, row.words, row.number, row.verb) for row in outline.rows]
    narrow = sum(max(map(len, column)) + 2 for column in zip(*cells, strict=True)) > out.width
    for row in outline.rows:
        words, number = (
            cell.replace("; ", ";\n").replace("), ", "),\n") if narrow else cell
            for cell in (row.words, plain(row.number))
        )
        table.add_row(
            *((Text(plain(row.benchmark)),) if several else ()),
            Text(plain(row.subject), "bold"),
            Text(words, COLOURS.get(row.status, "dim")),
            Text(number),
            Text(row.verb, "cyan"),
        )
    if outline.rows:
        out.print(table)
    if next_steps and outline.steps:
        out.print(Text("\nwhat to do", "bold"))
        for place, step in enumerate(outline.steps, 1):
            out.print(Text(plain(f"{place}. {step['sentence']}")), soft_wrap=True)
            for command in step["commands"]:
                out.print(Text(plain(f"   {command}"), "cyan"), soft_wrap=True)


def print_sources(sources: Sequence[Mapping[str, Any]], of: str = "") -> None:
    """The sources of a training mixture; ``of``: the benchmark that was searched for."""
    if not sources:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    heads = ("source", "rows", "weight", "share", "leaked items", "leaked rows", "seen in training")
    for name in heads:
        table.add_column(name, overflow="fold", justify="left" if name == "source" else "right")
    for row in sources:
        table.add_row(
            Text(plain(row["name"])),
            f"{row['rows']:,}",
            f"{row['weight']:g}",
            percent(row["share"]),
            f"{row['leaked_items']:,}",
            f"{row['leaked_rows']:,}",
            f"{row['exposures']:,.4g}×",
        )
    title = f"{of}, by source" if of else "by source"
    console().print(Text(plain(f"\n{title}"), "bold"))
    console().print(table)
    if empty := [row["name"] for row in sources if not row["rows"]]:
        line = f"no row counts in {', '.join(empty)}: look at source and where in the recipe"
        console().print(Text(plain(line), "yellow"), soft_wrap=True)


def print_dropped(
    run: Run,
    stages: Collection[str] = (),
    *,
    of: str = "",
    model: str | None = None,
    quiet: bool = False,
) -> None:
    """How much was left out (of all stages where none is named), the commonest reason with an example, and its
    cure; ``of``: what these stages read."""
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
    message = f"left out{of and f' of {of}'}: {len(rows):,}; most often “{reason}” ({count:,})"
    cures = CURES | CORPUS_CURES if example["stage"] == "corpus" else CURES
    if cure := cures.get(reason):
        message += f"; cure: {cure}"
    out = console()
    out.print(Text(plain(message), "yellow"), soft_wrap=True)
    detail = f"for example {example['id']}: {example['detail']}".rstrip(": ")
    out.print(Text(plain(f"  {detail}")[:300], "dim"), soft_wrap=True)


# Rules of heldout check about what could not be read: print_dropped says it.
_LEFT_OUT = {"dropped-rows", "missing-image", "ambiguous-image", "unreadable-image"}


def print_errors(run: Run) -> None:
    """What check calls an error of the benchmark: a search for an empty question finds nothing."""
    record = run.read_json("check.json") if (run.path / "check.json").exists() else {"problems": []}
    out = console()
    for problem in record["problems"]:
        if problem["severity"] != "error" or problem["rule"] in _LEFT_OUT:
            continue
        message = f"{record['benchmark']}: {problem['message']}; {problem['advice']}"
        out.print(Text(plain(message), "yellow"), soft_wrap=True)
