"""heldout audit: one file in, one verdict out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heldout.audit import (
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
from heldout.cli.audit_show import show_plan, show_verdict
from heldout.cli.options import Json, Quiet, Verbose
from heldout.cli.show import complain, console, plain, print_json
from heldout.errors import InputError
from heldout.verdict import required, rules

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
