"""heldout compare: what changed between two audits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.from_settings import Shown, command
from heldout.cli.options import Json, Quiet
from heldout.cli.show import COLOURS, console, plain, print_json
from heldout.engine import progress
from heldout.report import CompareSettings, compare, is_empty
from heldout.verdict import PLAIN

EXAMPLE = "Example: heldout compare runs/slake-v1 runs/slake-v2"
_WAYS = {
    "fingerprint": "its content changed",
    "encoder": "searched with another encoder",
    "nearest": "another number of neighbours was verified",
    "hashes": "searched with hashes in one of the two alone",
}


@command(CompareSettings, (Shown("examples", "N"),))
def compare_command(
    settings: CompareSettings,
    before: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or an audit's.")],
    after: Annotated[
        Path, typer.Argument(metavar="RUN", help="A later one of the same benchmark.")
    ],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what changed between two audits: inputs, claims, findings, matches and scores."""
    with progress("comparing", 1, "pairs of runs", disabled=quiet) as step:
        changes = compare(before, after, settings=settings).changes
        step()
    if as_json:
        print_json(changes[0] if len(changes) == 1 else {"benchmarks": changes})
        return
    for number, record in enumerate(changes):
        if number:
            console().print()
        _show(record)


def _show(changes: dict[str, Any]) -> None:
    out = console()
    title = f"{changes['benchmark']}: {changes['before']} → {changes['after']}"
    out.print(Text(plain(title), "bold"), soft_wrap=True)
    for kind, names in changes.get("benchmarks", {}).items():
        if names:
            out.print(plain(f"benchmarks {kind}: {', '.join(names)}"), markup=False)
    if is_empty(changes):
        out.print("nothing changed")
        return
    for sentence in _inputs(changes["inputs"]):
        out.print(plain(sentence), markup=False, soft_wrap=True)
    _show_claims(changes["claims"])
    _show_matches(changes["matches"])
    _show_findings(changes["findings"])
    for row in changes["scores"]:
        message = (
            f"score of {row['model']} ({row['metric']}, {row['subset']}): {_number(row['before'])} → "
            f"{_number(row['after'])}"
        )
        out.print(plain(message), markup=False)


def _inputs(inputs: dict[str, Any]) -> list[str]:
    sentences = []
    if inputs["revision"]:
        first, second = (digest[:12] for digest in inputs["revision"])
        sentences.append(
            f"the benchmark itself changed: revision {first} → {second}; items are compared by id"
        )
    for name in ("items", "seed", "heldout"):
        if inputs[name]:
            sentences.append(f"{name}: {inputs[name][0]} → {inputs[name][1]}")
    for name in ("corpora", "models"):
        for kind, names in (inputs[name] or {}).items():
            if kind == "changed":
                sentences += [
                    f"corpus {name}: {' and '.join(_WAYS[way] for way in ways)}"
                    for name, ways in names.items()
                ]
            elif names:
                sentences.append(f"{name} {kind}: {', '.join(names)}")
    return sentences


def _show_claims(claims: dict[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in claims["changed"]:
        status = _status(claim["before"])
        status.append(" → ", "dim").append(_status(claim["after"]))
        table.add_row(status, Text(plain(f"{claim['sentence']} ({claim['why']})")))
    for kind in ("appeared", "gone"):
        for claim in claims[kind]:
            status = Text(f"{kind}: ", "dim").append(_status(claim["status"]))
            table.add_row(status, Text(plain(claim["sentence"])))
    if table.row_count:
        console().print(Text("\nclaims", "bold"))
        console().print(table)
    else:
        console().print("\nno claim changed its status")


def _status(status: str) -> Text:
    return Text(PLAIN.get(status, status), COLOURS.get(status, "dim"))


def _show_matches(matches: dict[str, Any]) -> None:
    first, second = matches["copies"]
    items = matches["items"]
    out = console()
    out.print(
        f"\nitems whose picture leaked: {items['leaked'][0]:,} → {items['leaked'][1]:,} "
        f"({items['newly_leaked']:,} newly, {items['no_longer_leaked']:,} no longer)"
    )
    for kind, label, how in (
        ("newly", "newly", "judged anew by people, not new in the corpus"),
        ("no_longer", "no longer", "judged anew by people, not gone from the corpus"),
    ):
        judged = items[f"{kind}_by_people"]
        rest = [name for name in items[kind] if name not in judged]
        for names, count, message in (
            (rest, items[f"{kind}_leaked"] - len(judged), label),
            (judged, len(judged), f"{label}, {how}"),
        ):
            if count:
                more = ", …" if count > len(names[:8]) else ""
                line = f"  {message}: {', '.join(names[:8])}{more}"
                out.print(plain(line), markup=False, soft_wrap=True, style="dim")
    if not (matches["appeared"] or matches["gone"] or matches["changed"]):
        return
    people = matches["changed_by_people"]
    message = (
        f"matches: {matches['appeared']:,} appeared, {matches['gone']:,} gone, "
        f"{matches['changed']:,} judged anew{f' ({people:,} by people)' if people else ''}"
    )
    out.print(Text(f"{message}; copies {first:,} → {second:,}"))
    for kind, count in matches["kinds"].items():
        out.print(f"  {count:,} {kind}", markup=False)
    for example in matches["examples"][:5]:
        ways = f"{example['before'] or 'not there'} → {example['after'] or 'not there'}"
        who = ", by people" if example["by_people"] else ""
        line = f"  {example['benchmark_id']} in {example['corpus']} as {example['corpus_id']}: {ways}{who}"
        out.print(plain(line), markup=False, soft_wrap=True, style="dim")


def _show_findings(findings: dict[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("finding", "effect", "before", "after"):
        table.add_column(name, overflow="fold")
    for finding in findings["changed"]:
        table.add_row(
            plain(finding["id"]),
            plain(finding["effect"]),
            _around(finding["before"]),
            _around(finding["after"]),
        )
    if table.row_count:
        console().print(Text("\nfindings", "bold"))
        console().print(table)


def _around(record: dict[str, Any]) -> str:
    return f"{record['value']:.3g} [{record['low']:.3g}, {record['high']:.3g}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
