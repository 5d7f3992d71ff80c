"""What `make docs` adds to the pages: the command line's reference, and links to files outside `docs/`."""

from __future__ import annotations

import re
from typing import Any

import typer
from mkdocs.structure.files import File, Files
from typer.cli import get_docs_for_click

_REPOSITORY = re.compile(r"\]\(\.\./([^)]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """``cli.md`` is written from the commands themselves, so that it cannot differ from them."""
    from heldout.cli.app import app

    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="heldout")
    text = get_docs_for_click(obj=command, ctx=context, name="heldout", title="Command line")
    files.append(File.generated(config, "cli.md", content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """The empty corner of a table is a cell, not a header without words."""
    return re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files of the repository that are no pages are named, not linked."""
    return _REPOSITORY.sub(r"](#)", markdown) if "](../" in markdown else markdown
