"""Any benchmark format as a corpus: another split, or a training set in JSON, CSV, LLaVA."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.benchmark import BenchmarkSource, Example, locate, read_examples
from heldout.corpus._listing import digest, file_key
from heldout.corpus.corpus import CorpusItem, Shard, unique_ids
from heldout.errors import InputError
from heldout.image import readable
from heldout.remote import located
from heldout.store import Dropped


@dataclass(slots=True)
class TableCorpus:
    """One shard per data file. Item ids are example ids, ``<id>/k`` for an example's k-th image.

    Where a table lies in several files, ids start with the file's name, since they may repeat.
    """

    location: str
    name: str
    source: str
    selection: dict[str, str] = field(default_factory=dict)
    mapping: dict[str, str] = field(default_factory=dict)
    images: str | None = None
    table_reader: str | None = None
    reader: str = "table"

    def shards(self) -> Iterator[Shard]:
        if not located(self.location).exists():  # a named benchmark on the hub
            yield Shard(0, self.source, digest("hub", self.source), (self.location, ""))
            return
        files = [file.path for file in locate(self._source(self.location), self.table_reader)]
        for index, path in enumerate(files):
            prefix = f"{readable(path.stem)}/" if len(files) > 1 else ""
            location = str(path) if len(files) > 1 else self.location
            yield Shard(index, readable(path.name), file_key(path), (location, prefix))

    def count_shards(self) -> int | None:
        return sum(1 for _ in self.shards())

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        return unique_ids(self._items(shard))

    def _items(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        location, prefix = shard.payload
        examples = read_examples(
            self._source(location),
            mapping=self.mapping or None,
            images=self.images,
            reader=self.table_reader,
        )
        try:
            for example in examples:
                if isinstance(example, Dropped):
                    yield dataclasses.replace(example, stage="corpus", id=prefix + example.id)
                else:
                    yield from _items(example, prefix)
        except InputError as error:
            if shard.index == 0:  # a wrong selection or mapping is the user's to correct
                raise
            yield Dropped("corpus", shard.id, "unreadable table", str(error), scope="many")

    def _source(self, location: str) -> BenchmarkSource:
        return BenchmarkSource(location, dict(self.selection))


def _items(example: Example, prefix: str) -> Iterator[CorpusItem]:
    question, answer = example.question, example.answer
    text = "\n".join(part for part in (question, answer) if part) or None
    metadata: Mapping[str, Any] = example.metadata
    if example.options:
        metadata = {**metadata, "options": list(example.options)}
    for k, image in enumerate(example.images or (None,)):
        yield CorpusItem(
            id=readable(f"{prefix}{example.id}" + (f"/{k}" if k else "")),
            image=image,
            text=text,
            question=question,
            answer=answer if question else None,  # an answer to nothing is a caption
            metadata=metadata,
        )
