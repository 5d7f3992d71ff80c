"""whole_pictures: a corpus' saved rows, one per picture, without its panels and trimmed frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.overlap.embeddings import folders
from heldout.overlap.embeddings.corpus_rows import SHEET
from heldout.overlap.embeddings.store import read_sheet
from heldout.overlap.encoders.saved import SavedShard
from heldout.store import Run


@dataclass(frozen=True)
class CorpusEmbeddings:
    """``rows`` hold the pictures in item order, shard by shard, still on disk (memory-mapped).

    ``groups`` has one label per picture: equal labels are equal pixels, so that copies inside the
    corpus can be taken out.
    """

    identity: str
    rows: list[NDArray[Any]]
    ids: list[str]
    groups: NDArray[np.int64]


def whole_pictures(run: Run, corpus: str, identity: str | None = None) -> CorpusEmbeddings:
    """What a near search of ``corpus`` saved in ``run``; ``identity`` where it used several encoders."""
    known = _sheets(run, corpus)
    chosen = folders.encoder_asked_for(run, identity, known, f"embeddings of corpus '{corpus}'")
    rows: list[NDArray[Any]] = []
    ids: list[str] = []
    digests: list[str] = []
    for shard in known[chosen]:
        matrix, own, shown = _wholes(shard)
        rows.append(matrix)
        ids += own
        digests += shown
    return CorpusEmbeddings(chosen, rows, ids, _labels(digests))


def _sheets(run: Run, corpus: str) -> dict[str, list[SavedShard]]:
    folder = run.path / "embeddings" / folders.corpus_folder(corpus)
    return dict(read_sheet(path) for path in sorted(folder.glob(f"*/{SHEET}")))


def _wholes(shard: SavedShard) -> tuple[NDArray[Any], list[str], list[str]]:
    """Rows, ids and digests of the whole pictures; a digest is "" where nobody knows it."""
    matrix = shard.rows()
    about = shard.described(len(matrix))
    return matrix[: len(about.ids)], about.ids, about.digests  # they come first: a view, no copy


def _labels(digests: list[str]) -> NDArray[np.int64]:
    """One label per distinct digest, in order of appearance; a picture without one is its own."""
    label_of: dict[str, int] = {}
    labels = np.empty(len(digests), np.int64)
    for position, digest in enumerate(digests):
        labels[position] = label_of.setdefault(digest or f"row {position}", len(label_of))
    return labels
