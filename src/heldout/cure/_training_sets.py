"""Training sets without the rows that hold a benchmark, in their own format."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark import open_tables
from heldout.corpus import open_corpus, tars_without
from heldout.cure._files import chosen_by_table, entries, write_file
from heldout.errors import InputError
from heldout.image import readable

_FURTHER = re.compile(r"/\d+$")  # the second image of row R is R/1


@dataclass(frozen=True)
class CleanedSet:
    """A training set that was written again, or the reason why it was not."""

    corpus: str
    path: Path | None = None
    kept: int = 0
    removed: int = 0
    reason: str = ""


def write_cleaned(name: str, source: str, ids: Collection[str], folder: Path) -> CleanedSet:
    """Write one training set without some of its rows; what stays is written verbatim.

    Args:
        name: What the run calls it; of several sources of a mixture that are rows of it, all their names.
        source: Where it is read from.
        ids: Items to leave out. Rows of one conversation go together.
        folder: Folder of all training sets that are written.
    """
    if (written := _tars(name, source, ids, folder)) is not None:
        return written
    try:
        opened = open_tables(source)
    except InputError as error:
        return CleanedSet(name, reason=f"{source} is no table or folder of images ({error})")
    several = len(opened.tables) > 1
    wanted = set(ids)
    further: dict[str, set[str]] = {}
    for entry in wanted:
        further.setdefault(_FURTHER.sub("", entry), set()).add(entry)
    known: set[str] = set()
    gone = []
    examples = iter(opened.benchmark.examples)
    for table in opened.tables:
        prefix = f"{readable(table.file.path.stem)}/" if several else ""
        for _ in table.rows:
            own = readable(f"{prefix}{next(examples).id}")
            hits = {own} & wanted or further.get(own, set())
            known |= hits
            gone.append(bool(hits))
    if missing := sorted(wanted - known):
        reason = f"{len(missing):,} rows cannot be found by their ids, such as {missing[0]!r}"
        return CleanedSet(name, reason=reason)
    units = entries(opened)
    broken = {unit for unit, leaks in zip(units, gone, strict=True) if leaks}
    keep = [unit not in broken for unit in units]
    if not any(keep):
        return CleanedSet(name, removed=len(keep), reason="every row would go")
    target = folder / _plain(name)
    selections = [entry for entry in chosen_by_table(opened, keep) if entry.examples]
    for selection in selections:
        write_file([selection], target / selection.table.relative, target)
    path = target if several else target / selections[0].table.relative
    return CleanedSet(name, path, sum(keep), len(keep) - sum(keep))


def _tars(name: str, source: str, ids: Collection[str], folder: Path) -> CleanedSet | None:
    """Tars are written sample by sample; None if the training set is something else."""
    target = folder / _plain(name)
    try:
        written = tars_without(open_corpus(source), ids, target)
    except InputError as error:
        if not target.exists():
            return None  # no corpus at all: the reader of tables says what is wrong
        shutil.rmtree(target)
        return CleanedSet(name, reason=str(error))
    if written is None:
        return None
    if written.missing or not written.kept:
        shutil.rmtree(target, ignore_errors=True)
        reason = "every sample would go"
        if lost := written.missing:
            reason = f"{len(lost):,} samples cannot be found by their ids, such as {lost[0]!r}"
        return CleanedSet(name, reason=reason)
    return CleanedSet(name, target, written.kept, written.removed)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "training-set"
