"""What img2dataset writes: tars, folders or Parquet files, each with a log of every download.

The log (``00000.parquet`` beside ``00000.tar`` or ``00000/``) also lists what was never fetched.
Those rows are reported, so that a corpus is not silently smaller than the list it was made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from heldout.corpus.corpus import CorpusItem, Shard
from heldout.corpus.downloads import STATUS, not_downloaded
from heldout.corpus.folder import FolderCorpus
from heldout.corpus.listing import file_key
from heldout.corpus.parquet_corpus import FAILURES, open_parquet, rows
from heldout.corpus.webdataset import WebDatasetCorpus
from heldout.image import readable
from heldout.store import Dropped

_LOGGED = (STATUS, "error_message", "url", "key")


@dataclass(slots=True)
class Img2DatasetCorpus:
    """The shards of ``inner``, then one shard per log that yields the rows without an image."""

    inner: WebDatasetCorpus | FolderCorpus
    root: str
    name: str
    source: str
    reader: str = "img2dataset"

    def shards(self) -> Iterator[Shard]:
        index = 0
        for shard in self.inner.shards():
            yield replace(shard, payload=("images", shard.payload))
            index = shard.index + 1
        for path in _logs(Path(self.root)):
            yield Shard(index, f"{path.name} (log)", file_key(path), ("log", str(path)))
            index += 1

    def count_shards(self) -> int | None:
        count = self.inner.count_shards()
        return None if count is None else count + sum(1 for _ in _logs(Path(self.root)))

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        kind, payload = shard.payload
        if kind == "images":
            yield from self.inner.read(replace(shard, payload=payload))
        else:
            yield from self._failures(Path(payload))

    def _failures(self, path: Path) -> Iterator[Dropped]:
        ending = ".tar" if isinstance(self.inner, WebDatasetCorpus) else ""
        number = 0
        try:
            with open_parquet(path) as file:
                columns = [name for name in _LOGGED if name in file.schema_arrow.names]
                groups = list(range(file.metadata.num_row_groups))
                for row in rows(file, groups, columns) if STATUS in columns else ():
                    number += 1
                    item = f"{readable(path.stem)}{ending}/{row.get('key') or number}"
                    if (failed := not_downloaded(row, item)) is not None:
                        yield failed
        except FAILURES as error:
            detail = f"after row {number:,}: {error}; failed downloads are not listed"
            yield Dropped("corpus", path.name, "unreadable Parquet file", detail, scope="words")


def is_img2dataset(folder: Path) -> bool:
    """True if beside a tar or a folder lies a Parquet file of its name with a status column."""
    first = next(_logs(folder), None)
    if first is None:
        return False
    try:
        return STATUS in pq.read_schema(first).names
    except FAILURES:
        return False


def _logs(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.glob("*.parquet")):
        if path.with_suffix(".tar").is_file() or path.with_suffix("").is_dir():
            yield path
