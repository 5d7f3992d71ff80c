"""The answer to the question in a page's title, and the status that colours it."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.report._cell_words import (
    Cell,
    is_pair,
    nothing_found,
    read_in_part,
    speaks_of_leaks,
    uncompared,
)
from heldout.store import Run

_CLEARED = {"clean", "re-attributed", "collapses"}


def headline(cells: Sequence[Cell], runs: Sequence[Run], benchmarks: int = 1) -> tuple[str, str]:
    """The same for one benchmark's page and for the page of an audit, whose runs are ``runs``."""
    tested = [cell for cell in cells if not is_pair(cell) and cell["status"] != "not testable"]
    statuses = {cell["status"] for cell in tested}
    if "survives" in statuses:
        return "Not all." if benchmarks > 1 else "No.", "survives"
    if tested and statuses <= _CLEARED and not any(uncompared(cell) for cell in tested):
        if any(_same_source(cell) for cell in tested):
            return "No copy found, but items come from sources that a corpus names.", "qualified"
        return f"As far as {_tested(tested, runs)} go, yes.", "clean"
    open_ = [cell for cell in tested if cell["status"] not in _CLEARED]
    if open_ and all(read_in_part(cell) for cell in open_):
        return "Nothing found in the part that was read.", "qualified"
    if open_ and all(nothing_found(cell) for cell in open_):
        return "Nothing found, but the search was not complete.", "qualified"
    return "It could not be settled.", "qualified"


def _same_source(cell: Cell) -> bool:
    """Whether items name the article, file or address of corpus items: what is asked of it may be known."""
    return any(
        claim["id"].startswith("source/") and claim["status"] == "qualified"
        for claim in cell["claims"]
    )


def _tested(cells: Sequence[Cell], runs: Sequence[Run]) -> str:
    """What was searched and tested; nearness is not a leak and never answers the question."""
    corpora = [cell for cell in cells if cell["corpus"] is not None]
    kinds = {
        claim["id"].partition("/")[0]
        for cell in corpora
        for claim in cell["claims"]
        if claim["status"] in _CLEARED and speaks_of_leaks(claim)
    }
    copies = "copies" if _transformed_copies(runs) else "exact copies"
    parts = [words for kind, words in (("overlap", copies), ("text", "words")) if kind in kinds]
    if len(corpora) < len(cells):
        parts.append("tests of the models")
    parts = parts or [copies]
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _transformed_copies(runs: Sequence[Run]) -> bool:
    """Whether they were searched for everywhere, not only equal files."""
    stages = [stage for run in runs for stage in run.manifest().get("stages", {}).values()]
    return all(stage["nearest"] or stage.get("hashes", False) for stage in stages)
