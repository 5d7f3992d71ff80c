"""Corpus items of one flat row, whatever kind of file it stands in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heldout.benchmark import FieldMap, ImageFinder
from heldout.corpus.columns import CorpusColumns, Words
from heldout.corpus.corpus import CorpusItem
from heldout.corpus.downloads import STATUS, not_downloaded
from heldout.errors import HeldoutError, blame_the_machine
from heldout.store import FAILED, OUT_OF_MEMORY, Dropped


def row_items(
    row: Mapping[str, Any],
    item: str,
    origin: str,
    columns: CorpusColumns,
    finder: ImageFinder,
    words: Words | None = None,
) -> Iterator[CorpusItem | Dropped]:
    """One item per image of the row, or one without; further images are called ``<item>/k``.

    ``words`` takes the place of what the columns say.
    """
    words = words or columns.words(row)
    refs = [ref for column in columns.image for ref in finder.find(row.get(column), origin)]
    used = {*columns.image, *columns.talk}
    metadata = {key: value for key, value in row.items() if key not in used and value is not None}
    if columns.options:  # one list, also where every option has a column of its own
        metadata["options"] = list(FieldMap({"options": columns.options}).options(row))
    if not refs:
        failed = not_downloaded(row, item) if STATUS in row else None
        if failed is not None or (columns.image and words.text is None):
            yield failed or Dropped("corpus", item, "empty row", f"{origin}: no image and no text")
            return
    for k, ref in enumerate(refs or [None]):
        yield CorpusItem(
            id=f"{item}/{k}" if k else item,
            image=ref,
            text=words.text,
            question=words.question,
            answer=words.answer,
            also=words.also,
            metadata=metadata,
        )


def lost_row(origin: str, error: Exception) -> Dropped:
    """Why one row is left out, whatever went wrong with it; a full disk is no row's fault."""
    blame_the_machine(error)
    if isinstance(error, HeldoutError):
        return Dropped("corpus", origin, "no usable column", str(error))
    if isinstance(error, RecursionError):
        return Dropped("corpus", origin, "nested too deeply", "its values lie inside each other")
    if isinstance(error, MemoryError):
        return Dropped("corpus", origin, OUT_OF_MEMORY, "reading the row")
    return Dropped("corpus", origin, FAILED, f"{type(error).__name__}: {error}"[:500])
