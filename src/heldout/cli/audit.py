"""heldout audit: one file in, one verdict out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from heldout.audit import (
    Audit,
    AuditResult,
    Plan,
    fresh_steps,
    make_plan,
    open_cases,
    open_fresh_items,
    parse_gate,
    read_audit,
    run_audit,
    shut,
    write_init,
)
from heldout.cli.options import Json, Quiet, Verbose
from heldout.cli.show import (
    complain,
    console,
    plain,
    print_dropped,
    print_errors,
    print_json,
    print_outline,
    print_sources,
    status_text,
)
from heldout.errors import InputError, counted, percent
from heldout.report import outline, rankings_without, read_sources, worst_first
from heldout.store import Run
from heldout.verdict import ONE_FORM, PLAIN, CellVerdict, is_leak, required, rules, rung_words

# How `heldout audit` shows a plan and a verdict in a terminal.


def show_plan(plan: Plan, audit: Audit) -> None:
    out = console()
    out.print(Text(plain(f"{audit.path} → {audit.output}"), "bold"), soft_wrap=True)
    out.print(
        f"in all: {plan.total('pictures'):,} pictures to read, {plan.total('requests'):,} requests, "
        f"{_about(plan.total('forward_tokens')) or '0'} tokens (estimates)"
    )
    out.print(plain(_time_and_price(plan)), soft_wrap=True, markup=False)
    for sentence in plan.warnings:
        out.print(Text(plain(f"warning: {sentence}"), "yellow"), soft_wrap=True)
    for sentence in plan.over:
        out.print(Text(f"over budget: {sentence}", "bold red"))
    out.print()
    table = _table("benchmark", "stage", "on", "items", "pictures", "requests", "tokens", "how")
    for step in plan.steps:
        table.add_row(
            plain(step.benchmark),
            step.stage,
            plain(step.on),
            _count(step.items),
            _count(step.pictures),
            _count(step.requests),
            _about(step.forward_tokens),
            Text(plain(step.note), "dim"),
        )
    out.print(table)
    if plan.tests:
        _show_family(plan)
    if plan.nearness:
        out.print(f"nearness: up to {plan.nearness:,} tests, corrected together by Holm")


def _time_and_price(plan: Plan) -> str:
    minutes = plan.seconds / 60
    if plan.seconds < 60:
        parts = ["time: less than a minute"]
    elif minutes < 120:
        parts = [f"time: about {minutes:,.0f} minutes"]
    else:
        parts = [f"time: about {minutes / 60:,.1f} hours"]
    parts[0] += " for searches (one core) and endpoints"
    if plan.untimed:
        names = ", ".join(plan.untimed)
        parts.append(
            f"local models are not timed ({names}): heldout ask BENCH --model M --limit 20 --out RUN shows how "
            f"many requests a second one answers; divide the requests above by it"
        )
    if plan.price:
        parts.append(f"price: up to {plan.price:,.2f}, at the prices of the audit file")
    elif any("endpoint" in step.note for step in plan.steps):
        parts.append(
            "price: not known; endpoint.price_in and price_out give prices of a million tokens"
        )
    return "; ".join(parts)


def _show_family(plan: Plan) -> None:
    out = console()
    tests = [test for test in plan.tests if not test.lacks]
    if tests:
        out.print(
            f"\n[bold]the family[/]: {counted(len(tests), 'test', 'tests')} in "
            f"{counted(plan.family, 'claim', 'claims')}, fixed now; Holm within a claim, "
            f"Benjamini–Yekutieli over all {plan.family:,}"
        )
        _show_resolution(plan)
        table = _table("benchmark", "claim", "tests")
        for benchmark, claims in plan.claims.items():
            for claim in claims:
                mine = [t.detector for t in tests if (t.benchmark, t.claim) == (benchmark, claim)]
                table.add_row(plain(benchmark), plain(claim), ", ".join(mine))
        out.print(table)
    else:
        out.print("\n[bold]nothing can be tested of the models[/]: add what their tests lack")
    lacking: dict[str, list[str]] = {}
    for test in plan.tests:
        if test.lacks:
            lacking.setdefault(test.lacks, []).append(test.detector)
    for reason, names in lacking.items():
        message = f"not testable: {', '.join(dict.fromkeys(names))}: {reason}"
        out.print(Text(message, "dim"), soft_wrap=True)


def _show_resolution(plan: Plan) -> None:
    if plan.permutations < plan.permutations_needed:
        message = (
            f"permutations: {plan.permutations:,} are too few: after correction over "
            f"{counted(plan.family, 'claim', 'claims')} no permutation test can fire by itself, however "
            f"strong the effect; give at least {plan.permutations_needed:,}"
        )
        console().print(Text(message, "bold red"), soft_wrap=True)


def show_verdict(done: AuditResult, *, verbose: bool = False) -> None:
    """A row per corpus and model, and what to do; ``verbose``: every claim with its reasons, and scores with and
    without leaks."""
    out = console()
    runs = [Run.open(path) for path in done.runs.values()]
    advice = done.overall.recommendations
    cells = outline([cell.as_json() for cell in done.overall.cells], runs, advice)
    print_outline(cells, next_steps=not verbose)
    for run in runs:
        print_sources(worst_first(read_sources(run)), run.manifest()["inputs"]["benchmark"]["name"])
        print_errors(run)
        print_dropped(run, ("read", "benchmark"), of="the benchmark")
        print_dropped(run, ("score",))
    _show_resolution(done.plan)
    if verbose:
        _show_grid(done)
        _show_claims(done)
        _show_scores(done)
    if verbose and advice:
        out.print(Text("\nwhat to do", "bold"))
        table = _bare()
        for record in advice:
            table.add_row("→", Text(plain(record["sentence"])))
        out.print(table)
    elif not verbose:
        message = "scores with and without leaks, every claim, all recommendations: --verbose, or the report"
        out.print(Text(f"\n{message}", "dim"), soft_wrap=True)
    out.print(f"\nverdict: {plain(str(done.verdict))}", soft_wrap=True, markup=False)
    page = done.verdict.with_name("report.html")
    out.print(f"report: {plain(str(page))}", soft_wrap=True, markup=False)
    for name, path in done.runs.items():
        message = plain(f"report of {name}: {path / 'report.html'}")
        out.print(message, soft_wrap=True, markup=False)
    for name, path in done.datasets.items():
        message = plain(f"fresh items {name}: {path / 'report.html'}")
        out.print(message, soft_wrap=True, markup=False)


def _show_claims(done: AuditResult) -> None:
    out = console()
    for cell in done.overall.cells:
        tested = [claim for claim in cell.claims if claim.status != "not testable"]
        if not tested and cell.pair:
            continue
        out.print(Text(plain(f"\n{cell.cell.benchmark} × {cell.on}"), "bold"))
        table = _bare()
        for claim in tested:
            text = Text(plain(claim.sentence))
            text.append(f"\n{plain(claim.why)}. [{claim.rule}]", style="dim")
            table.add_row(status_text(claim.status, "" if is_leak(claim) else "nearness"), text)
        for names, why in _untested(cell).items():
            message = f"{names}: {why}" if names else why
            table.add_row(Text("not testable", "dim"), Text(plain(message), "dim"))
        out.print(table)


def _untested(cell: CellVerdict) -> dict[str, str]:
    """Families of tests that could not be made, together where the reason is the same."""
    if not cell.claims:
        return {"": ONE_FORM}
    reasons: dict[str, list[str]] = {}
    for claim in cell.claims:
        if claim.status == "not testable":
            reasons.setdefault(claim.why, []).append(claim.id.partition("/")[0])
    return {", ".join(names): why for why, names in reasons.items()}


def _show_grid(done: AuditResult) -> None:
    """Corpora and models down, benchmarks across: there are more of the former."""
    single = [cell for cell in done.overall.cells if not cell.pair]
    cells = sorted(single, key=lambda cell: cell.cell.corpus is None)
    names = [benchmark.benchmark for benchmark in done.overall.benchmarks]
    table = _table("", *map(plain, names))
    for row in dict.fromkeys(_row(cell) for cell in cells):
        mine = {cell.cell.benchmark: cell for cell in cells if _row(cell) == row}
        table.add_row(Text(row, "bold"), *(_word(mine.get(name)) for name in names))
    console().print(table)


def _row(cell: CellVerdict) -> str:
    return plain(f"{'corpus' if cell.cell.corpus is not None else 'model'} {cell.on}")


def _word(cell: CellVerdict | None) -> Text:
    if cell is None:
        return Text("–", "dim")
    text = status_text(cell.status)
    if cell.leak is not None and cell.leak.leaked:
        low, high = cell.leak.interval.low, cell.leak.interval.high
        text.append(
            f"\n{percent(cell.leak.value)} of items [{percent(low)}, {percent(high)}]", "dim"
        )
    for evidence, count in cell.evidence.items():
        text.append(
            f"\n{counted(count, 'item', 'items')}: "
            f"{rung_words(evidence, answers_compared=cell.answers_compared)}",
            "dim",
        )
    for claim in cell.claims:
        if not is_leak(claim) and claim.status in ("survives", "qualified"):
            text.append(f"\nnearness {PLAIN[claim.status]}", "dim")
    return text


def _show_scores(done: AuditResult) -> None:
    """One table per benchmark and measure; subsets only where something leaked."""
    out = console()
    for benchmark in done.overall.benchmarks:
        seen = {
            cell.cell.model
            for cell in benchmark.cells
            if cell.status == "survives" and not cell.pair
        }
        orders = rankings_without(benchmark.corrected["rankings"], seen)
        rankings = {ranking["measure"]: ranking for ranking in orders}
        for measure in dict.fromkeys(model["metric"] for model in benchmark.corrected["models"]):
            models = [
                model for model in benchmark.corrected["models"] if model["metric"] == measure
            ]
            leaked = any(_by_subset(model)["leaked"]["items"] for model in models)
            labels = benchmark.corrected.get("labels")
            kind = "proven"
            if labels is not None:
                kind = "proven or labelled" if "confirmed" in labels else "labelled"
            message = (
                f"with and without {kind} leaks" if leaked else f"(no {kind} leak to take out)"
            )
            out.print(Text(plain(f"\n{benchmark.benchmark}: {measure} {message}"), "bold"))
            if labels is not None:
                message = "; ".join(filter(None, (labels["note"], labels.get("remark"))))
                out.print(Text(plain(message), "yellow"), soft_wrap=True)
            out.print(_scores(models, measure, rankings.get(measure), leaked, seen))
            if leaked and any(model["model"] in seen for model in models):
                out.print(Text("not clean: the model has seen the benchmark itself", "dim"))
            if measure in rankings and leaked:
                tau = rankings[measure]["tau_b"]
                if tau is not None:
                    message = f"both rankings agree to {tau:.2f} (Kendall's τ-b; 1: the same order)"
                    out.print(Text(message, "dim"))


def _scores(
    models: Sequence[Mapping[str, Any]],
    measure: str,
    ranking: Mapping[str, Any] | None,
    leaked: bool,
    seen: Collection[str | None],
) -> Table:
    subsets = {"original": "all items"}
    if leaked:
        subsets |= {"non-leaked": "clean", "leaked": "leaked", "random": "random, as many"}
    ranks = {"full": "rank", "clean": "clean rank"} if leaked else {"full": "rank"}
    ranks = ranks if ranking else {}
    table = _table("model", *subsets.values(), *ranks.values())
    for model in models:
        lines = _by_subset(model)
        known = model["model"] in seen
        cells = [
            "not clean" if known and subset == "non-leaked" else _line(lines[subset], measure)
            for subset in subsets
        ]
        mine = ranking["ranks"][model["model"]] if ranking else {}
        places = [
            "not clean" if known and rank == "clean" else _rank(mine.get(rank)) for rank in ranks
        ]
        table.add_row(plain(model["model"]), *cells, *places)
    return table


def _by_subset(model: Mapping[str, Any]) -> dict[str, Any]:
    return {line["subset"]: line for line in model["lines"]}


def _line(line: Mapping[str, Any], measure: str) -> str:
    if line["value"] is None:
        return "none"
    if line["sd"] is not None:
        return f"{_number(line['value'], measure)} ± {_number(line['sd'], measure)}"
    text = _number(line["value"], measure)
    if line["interval"]:
        low, high = (_number(line["interval"][end], measure) for end in ("low", "high"))
        text += f" [{low}, {high}]"
    return f"{text} of {line['items']:,}"


def _rank(rank: Mapping[str, int] | None) -> str:
    return "none" if rank is None else f"{rank['rank']} [{rank['low']}, {rank['high']}]"


def _number(value: float, measure: str) -> str:
    return f"{100 * value:.1f}" if measure == "accuracy" else f"{value:.3f}"


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in columns:
        numeric = name in ("items", "pictures", "requests", "tokens")
        table.add_column(name, justify="right" if numeric else "left")
    return table


def _bare() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _about(tokens: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"~{tokens / size:.1f} {unit}"
    return f"~{tokens}" if tokens else ""


EXAMPLE = "Example: heldout audit audit.yaml --plan"


def audit_command(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="AUDIT.yaml", help="What is audited against what; with --init a folder of data."
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what will run, at which cost; run nothing.")
    ] = False,
    init: Annotated[
        bool, typer.Option("--init", help="Write an audit.yaml from the data found in the folder.")
    ] = False,
    fail_on: Annotated[
        list[str],
        typer.Option(
            "--fail-on",
            metavar="GATE",
            help="Exit with 1 on: survives, leak-rate>0.01; repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies defaults
    table: Annotated[
        bool, typer.Option("--rules", help="Print the verdict's table of rules, and stop.")
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Audit benchmarks against corpora and models: evidence, controls, claims, one verdict.

    A killed audit goes on where it was when the same command is given again, and what is finished is
    not done again unless its inputs change.
    """
    if table:
        typer.echo(f"{rules.as_markdown()}\n\n{required.as_markdown()}")
        return
    if init:
        path = write_init(file if file is not None else Path())
        if as_json:
            print_json({"file": str(path)})
        else:
            console().print(
                f"wrote {plain(str(path))}: read it, then `heldout audit {path} --plan`",
                soft_wrap=True,
                markup=False,
            )
        return
    if file is None:
        raise InputError("give an audit file, or --init to write one from the data in this folder")
    gates = [parse_gate(text) for text in fail_on]
    audit = read_audit(file)
    gates = gates or [parse_gate(text) for text in audit.file.fail_on]
    if plan:
        cases = open_cases(audit)
        made_plan = make_plan(cases, audit.file, fresh_steps(open_fresh_items(audit, cases)))
        if as_json:
            print_json({"audit": str(audit.path), **made_plan.as_json()})
        else:
            show_plan(made_plan, audit)
        return

    def tell(line: str) -> None:
        if not quiet and not as_json:
            typer.echo(plain(line), err=True)

    done = run_audit(audit, tell=tell, quiet=quiet or as_json)
    fired = shut(done.overall, gates)
    if as_json:
        print_json({**done.as_json(), "gates": fired})
    else:
        show_verdict(done, verbose=verbose)
    for reason in fired:
        complain(reason)
    if fired:
        raise typer.Exit(1)
