"""Images that lie loose beside the archives of a corpus: not read, but never forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heldout.corpus.corpus import Corpus, CorpusItem, Shard
from heldout.corpus.listing import walk
from heldout.image.kinds import IMAGE_ENDINGS, ending, readable
from heldout.store import Dropped


@dataclass(slots=True)
class WithLooseImages:
    """``inner`` as it is, and with its first shard a word about the images it does not read."""

    inner: Corpus
    loose: int
    example: str
    name: str
    source: str
    reader: str

    def shards(self) -> Iterator[Shard]:
        return self.inner.shards()

    def count_shards(self) -> int | None:
        return self.inner.count_shards()

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        yield from self.inner.read(shard)
        if shard.index == 0:
            detail = (
                f"{self.loose:,} image files lie beside the archives and are not read; "
                f"move them into a folder of their own and scan it with another --against"
            )
            yield Dropped(
                "corpus", self.example, "loose image beside archives", detail, scope="many"
            )


def with_loose_images(corpus: Corpus, folder: Path) -> Corpus:
    """``corpus``, wrapped if ``folder`` holds image files that it does not read."""
    if not folder.is_dir():
        return corpus
    loose = (entry.name for entry in walk(folder) if ending(entry.name) in IMAGE_ENDINGS)
    example = next(loose, None)
    if example is None:
        return corpus
    count = 1 + sum(1 for _ in loose)
    return WithLooseImages(
        corpus, count, readable(example), corpus.name, corpus.source, corpus.reader
    )
