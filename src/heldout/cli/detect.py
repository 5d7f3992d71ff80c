"""heldout detect: run detectors over what a run has recorded. Offline: no model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from heldout.cli.behaviour import degrees, named_pairs, show_behaviour
from heldout.cli.detectors import list_detectors, show_measured
from heldout.cli.options import Json
from heldout.cli.show import console, plain, print_claims, print_json
from heldout.detect import ScoreTables, Settings, TripleHits
from heldout.errors import InputError
from heldout.stats import PERMUTATIONS, Contrast
from heldout.store import Run
from heldout.verdict import Examination, examine, read_rates, save_examination, shipped_rates

EXAMPLE = "Example: heldout detect runs/slake --baseline blip2 --detector order-trend"


def detect_command(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run folder with scores or answers.")
    ] = None,
    detector: Annotated[
        list[str], typer.Option("--detector", metavar="NAME", help="Only these; repeatable.")
    ] = [],  # noqa: B006 - typer copies defaults
    baseline: Annotated[
        list[str],
        typer.Option(
            "--baseline", metavar="MODEL", help="Cannot have seen the benchmark; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="MODEL", help="Of the perplexity ratio; default: baseline."
        ),
    ] = None,
    unseen: Annotated[
        str | None,
        typer.Option("--unseen", metavar="FIELD=VALUE", help="Items that no model can have seen."),
    ] = None,
    stratum: Annotated[
        list[str],
        typer.Option("--stratum", metavar="FIELD", help="Compare within it; 'none' for no strata."),
    ] = ["answer_type", "answer_length"],  # noqa: B006 - typer copies defaults
    permutations: Annotated[
        int, typer.Option("--permutations", min=100, max=1_000_000, help="Most per test.")
    ] = PERMUTATIONS,
    top: Annotated[int, typer.Option("--top", min=1, help="K of top-k overlap.")] = 25,
    rank_by: Annotated[
        str, typer.Option("--rank-by", help="Top-k by 'score' or by 'delta'.")
    ] = "score",
    tail: Annotated[
        float, typer.Option("--tail", help="Δ above which an item is in the tail.")
    ] = 100.0,
    share: Annotated[
        float, typer.Option("--share", min=0.01, max=1.0, help="K of Min-K: share of tokens.")
    ] = 0.2,
    base: Annotated[
        list[str],
        typer.Option(
            "--base",
            metavar="[MODEL=]BASE",
            help="The language model it was made from; repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    degree: Annotated[
        list[str],
        typer.Option(
            "--degree", metavar="MODEL=N", help="Times it is known to have seen it; repeatable."
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    category: Annotated[
        str | None,
        typer.Option("--category", metavar="FIELD", help="Break drops down by a metadata field."),
    ] = None,
    rates: Annotated[
        Path | None,
        typer.Option(
            "--rates", metavar="FILE", help="Measured rates of your own heldout lab power."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of every random draw.")] = 0,
    listing: Annotated[bool, typer.Option("--list", help="Say which detectors there are.")] = False,
    as_json: Json = False,
) -> None:
    """Has a model seen this benchmark? Every detector, under control, from saved scores and answers."""
    known = shipped_rates() if rates is None else read_rates(rates)
    if listing:
        list_detectors(known, as_json=as_json)
        return
    if run is None:
        raise InputError(
            "give the run folder whose scores or answers to look at, or --list for the detectors"
        )
    if rank_by not in ("score", "delta"):
        raise InputError(f"--rank-by {rank_by}: expected score or delta")
    settings = Settings(
        seed=seed,
        permutations=permutations,
        share=share,
        top=top,
        rank_by=rank_by,
        tail=tail,
        baselines=tuple(baseline),
        reference=reference,
        unseen=_pair(unseen),
        strata=() if stratum == ["none"] else tuple(stratum),
        bases=named_pairs("--base", base, alone=True),
        degrees=degrees(degree),
        category=category,
    )
    opened = Run.open(run)
    made = examine(ScoreTables.load(opened), detector, settings, known)
    save_examination(opened, made)
    if as_json:
        print_json({"run": str(run), **made.as_json()})
        return
    _show(made, run)


def _pair(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    field, equals, value = text.partition("=")
    if not equals or not field or not value:
        raise InputError(
            f"--unseen {text}: expected FIELD=VALUE, for example --unseen origin=fresh"
        )
    return field, value


def _show(made: Examination, run: Path) -> None:
    out = console()
    for model, checks in made.checks.items():
        for check in checks:
            if check.passed is not True:
                message = (
                    f"{plain(model)}: self-check '{check.name}' {check.outcome}: {check.reason}"
                )
                out.print(Text(message, "red" if check.failed else "yellow"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "detector",
        "model",
        "effect",
        "95 %",
        "p",
        "adjusted",
        "direction",
        "n",
        "clusters",
    ):
        table.add_column(name, justify="left" if name in ("detector", "model") else "right")
    for f in made.findings:
        e = f.effect
        table.add_row(
            f.detector,
            Text(plain(f.cell.model or "")),
            f"{e.value:.3g}",
            f"[{e.low:.3g}, {e.high:.3g}]",
            "–" if f.p is None else f"{f.p:.2g}",
            "–" if f.p_adjusted is None else f"{f.p_adjusted:.2g}",
            f.direction,
            f"{f.n:,}",
            f"{f.clusters:,}",
        )
    out.print(table)
    show_behaviour(made.findings)
    _show_inflation(made)
    _show_hits(made)
    if made.untested:
        out.print("\n[dim]not testable[/]")
        reasons: dict[str, list[str]] = {}
        for not_testable in made.untested:
            reasons.setdefault(not_testable.reason, []).append(not_testable.id)
        for reason, ids in reasons.items():
            named = ", ".join(ids[:4]) + (f" and {len(ids) - 4} more" if len(ids) > 4 else "")
            out.print(Text(f"{plain(named)}: {plain(reason)}", "dim"))
    if made.easiest:
        message = (
            "items, strata and orders: easiest_items, by_stratum and orders in detections.json"
        )
        out.print(Text(f"\n{message}; as a page: heldout report {run}", "dim"), soft_wrap=True)
    show_measured(made.measured)
    out.print()
    print_claims(made.claims)


def _show_inflation(made: Examination) -> None:
    """Are answers likelier where the image was proven to be in a corpus?"""
    out = console()
    for corpus, rows in made.inflation.items():
        if not rows:
            continue
        out.print(
            Text(f"\nimages found in {plain(corpus)} less the others, log p per token", "dim")
        )
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for name in ("model", "stratum", "gap", "less the baseline's", "items", "clusters"):
            table.add_column(name, justify="left" if name in ("model", "stratum") else "right")
        for row in rows:
            gap, above = row.gap, row.above_baseline
            table.add_row(
                Text(plain(row.model)),
                Text(plain(row.stratum)),
                _gap(gap),
                "–" if above is None else _gap(above),
                f"{gap.n[0]:,} / {gap.n[1]:,}",
                f"{gap.clusters[0]:,} / {gap.clusters[1]:,}",
            )
        out.print(table)


def _show_hits(made: Examination) -> None:
    """Items with a flagged picture, a score in the tail and an answer that counts, α by α."""
    rows: dict[tuple[str, ...], list[TripleHits]] = {}
    for hit in made.hits:
        rows.setdefault((hit.model, hit.corpus, hit.flag, hit.answer), []).append(hit)
    if not rows:
        return
    out = console()
    out.print(
        Text("\npicture flagged, score in the α tail, answer counts: hits (by chance)", "dim")
    )
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in (
        "model",
        "corpus",
        "picture",
        "answer",
        "hits (by chance) at α",
        "least adjusted p",
    ):
        table.add_column(name, overflow="fold")
    for key, row in rows.items():
        message = " · ".join(f"{one.alpha:.2g}: {one.hits} ({one.expected:.1f})" for one in row)
        tested = [one.p_adjusted for one in row if one.p_adjusted is not None]
        least = f"{min(tested):.2g}" if tested else "–"
        table.add_row(*(Text(plain(part)) for part in key), message, least)
    out.print(table)


def _gap(gap: Contrast) -> str:
    return f"{gap.value:+.3f} [{gap.interval.low:+.3f}, {gap.interval.high:+.3f}]"
