"""Settings of the verbs report, compare and export, once, for the command line, audit files and Python."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from heldout.settings import Settings

PDF = "pdf"
WORKBOOK = "xlsx"
TABLE_FORMATS = ("csv", WORKBOOK, "json", "md")
TABLE_NAMES = ("claims", "findings", "leaks", "matches", "texts", "judgements")
FORMAT_NAMES = (
    *TABLE_FORMATS,
    "badge",
    "hf-card",
    "conda",
    "helm",
    "every-eval-ever",
    "bibtex",
    PDF,
)


class ReportSettings(Settings):
    """Settings of ``heldout report``."""

    megabytes: Annotated[float, Field(ge=0)] = 48
    """Size in megabytes of all pictures on the page; a third of it is for pictures as large as the run
    keeps them, the rest for small ones. 0: a page without pictures."""
    texts: Annotated[int, Field(ge=0)] = 30
    """Items per corpus whose texts are shown beside their match; the tables have all of them."""
    items: Annotated[int, Field(ge=0)] = 100_000
    """Items in the page's table, the gravest first; 0: a page without it."""
    summary: bool = False
    """Also write summary.html, one page to send on, and summary.pdf through a browser."""


class ServeSettings(Settings):
    """Settings of ``heldout serve``."""

    host: str = "127.0.0.1"
    """Address to listen on; another one than this machine's own lets everybody who reaches it read the reports."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port to listen on; 0 takes a free one."""


class CompareSettings(Settings):
    """Settings of ``heldout compare``."""

    examples: Annotated[int, Field(ge=0)] = 20
    """Items and matches named for each kind of change; all are counted."""


def _known_format(name: str) -> str:
    if name not in FORMAT_NAMES:
        raise ValueError(f"expected one of {', '.join(FORMAT_NAMES)}")
    return name


class ExportSettings(Settings):
    """Settings of ``heldout export``."""

    to: Annotated[str, AfterValidator(_known_format)]
    """``csv``, ``xlsx``, ``json`` or ``md``: claims, findings, leaks, matches and judgements as tables; ``badge``: an
    SVG for a README; ``hf-card``, ``conda``, ``helm``, ``every-eval-ever``, ``bibtex``; ``pdf``: every figure of the
    report."""
    table: Literal["claims", "findings", "leaks", "matches", "texts", "judgements"] | None = None
    """With ``csv``, ``xlsx``, ``json`` and ``md``: this table alone."""
    model: str | None = None
    """With ``every-eval-ever``: the record of this model alone."""
