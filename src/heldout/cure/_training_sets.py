"""Training sets without the rows that hold a benchmark, in their own format."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from heldout.benchmark import parse_source
from heldout.corpus import FilesCorpus, files_without, open_corpus
from heldout.errors import InputError
from heldout.remote import is_remote


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
    target = folder / _plain(name)
    try:
        corpus = open_corpus(parse_source(source).location)
        if not isinstance(corpus, FilesCorpus) or is_remote(corpus.location):
            reason = (
                f"{source} does not lie in files of this machine; remove the rows where it is kept"
            )
            return CleanedSet(name, reason=reason)
        written = files_without(corpus, ids, target)
    except InputError as error:
        shutil.rmtree(target, ignore_errors=True)
        return CleanedSet(name, reason=str(error))
    if missing := written.missing:
        reason = f"{len(missing):,} rows cannot be found by their ids, such as {missing[0]!r}"
        return CleanedSet(name, reason=reason)
    if not written.kept:
        return CleanedSet(name, removed=written.removed, reason="every row would go")
    path = target / Path(corpus.location).name if corpus.is_one_file else target
    return CleanedSet(name, path, written.kept, written.removed)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "training-set"
