"""A training mixture as a file: ``corpora.yaml`` names its sources, how often each is seen, and which rows.

Every source is a corpus of its own, so that everything a run reports, it reports by source.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from heldout.benchmark import canonical_value
from heldout.corpus._listing import FILE, LINES, PARQUET, TAR, ZIP, digest, kind_of
from heldout.corpus.corpus import Corpus, CorpusItem, EmbeddingCorpus, Shard
from heldout.corpus.files import FilesCorpus
from heldout.corpus.open import open_corpus
from heldout.documents import read_yaml
from heldout.errors import InputError
from heldout.image import readable
from heldout.remote import is_remote, located
from heldout.settings import Settings
from heldout.store import Dropped

_ENDINGS = (".yaml", ".yml")
_TABLES = (".csv", ".tsv", ".json", ".arrow")
_FIELDS = ("id", "image", "text", "question", "answer")
Text = Annotated[str, Field(min_length=1)]


class RecipeSource(Settings):
    """One source of a training mixture."""

    name: Text
    """What reports call it."""
    source: Text
    """A corpus: a path relative to the recipe's folder, or an address."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """How often training sees each of its rows; 1: once."""
    where: dict[Text, Text | list[Text]] = Field(default_factory=dict)
    """Rows that count: a pattern with * and ?, or several, for id, image, text, question, answer or any column."""
    mapping: dict[Text, Text] = Field(default_factory=dict)
    """Columns by field (id, image, text, question, answer)."""
    images: Text | None = None
    """Folder that holds the images."""
    reader: Text | None = None
    """Use this reader; default: the first that recognises the files."""


class TrainingMixture(Settings):
    """A training mixture."""

    corpora: Annotated[tuple[RecipeSource, ...], Field(min_length=1)]
    """Its sources."""

    @field_validator("corpora")
    @classmethod
    def _distinct(cls, sources: tuple[RecipeSource, ...]) -> tuple[RecipeSource, ...]:
        names = [source.name for source in sources]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two sources are called {repeated[0]}")
        return sources


@dataclass(slots=True)
class MixtureSource:
    """``inner``, of which only the rows that fit ``where`` count; ``weight`` as the recipe says."""

    inner: Corpus
    where: tuple[tuple[str, tuple[str, ...]], ...]
    weight: float
    name: str
    source: str
    reader: str

    def shards(self) -> Iterator[Shard]:
        for shard in self.inner.shards():
            yield replace(shard, key=digest(shard.key, self.where)) if self.where else shard

    def count_shards(self) -> int | None:
        return self.inner.count_shards()

    def read(self, shard: Shard) -> Iterator[CorpusItem | Dropped]:
        unknown = {name for name, _ in self.where}
        items = 0
        for item in self.inner.read(shard):
            if isinstance(item, Dropped):
                yield item
                continue
            items += 1
            values = {name: _value(item, name) for name, _ in self.where}
            unknown -= {name for name, value in values.items() if value is not None}
            if all(_fits(values[name], patterns) for name, patterns in self.where):
                yield item
        if items and unknown:
            detail = f"no row has {', '.join(sorted(unknown))}, by which the recipe chooses rows"
            yield Dropped("corpus", shard.id, "no such column", detail, scope="many")


def _value(item: CorpusItem, name: str) -> str | None:
    if name == "image":
        return item.image.name if item.image is not None else None
    if name in _FIELDS:
        value = getattr(item, name)
        return None if value is None else str(value)
    return canonical_value(item.metadata.get(name))


def _fits(value: str | None, patterns: tuple[str, ...]) -> bool:
    return value is not None and any(fnmatch.fnmatchcase(value, pattern) for pattern in patterns)


def is_recipe(source: str | Path) -> bool:
    """True for a YAML file: no corpus is one."""
    return isinstance(source, str | Path) and str(source).lower().endswith(_ENDINGS)


def open_recipe(source: str | Path, prefix: str = "") -> list[Corpus]:
    """The sources of a training mixture, each as a corpus.

    Args:
        source: The recipe, a YAML file.
        prefix: What their names begin with.
    """
    path = located(source)
    recipe = read_recipe(path)
    return [_opened(entry, path, prefix) for entry in recipe.corpora]


_MOST_SETS = 20  # a folder of more is shards of one set, or nothing that a recipe helps with


def suggested_recipe(source: str) -> str:
    """A recipe of the data sets in a folder, one source each; empty where there are not several.

    A data set is a folder, a table or an archive at the top; names that differ in their numbers alone are its shards.
    """
    if is_remote(source) or not Path(source).is_dir():
        return ""
    sets: dict[str, str] = {}
    for entry in FilesCorpus(source, "", "").files():
        top, below, _ = entry.name.partition("/")
        held = kind_of(top) in (LINES, PARQUET, TAR, ZIP) or top.endswith(_TABLES)
        if entry.kind == FILE and not below and not held:
            return ""  # a recipe would leave it out
        if entry.kind == FILE:
            sets.setdefault(top if below else re.sub(r"\d+", "*", top), top)
    if not 1 < len(sets) <= _MOST_SETS:
        return ""
    lines = ["corpora:"]
    for pattern in sets:
        name = pattern.partition(".")[0].replace("*", "").strip("-_") or pattern
        source = pattern if "*" in pattern else sets[pattern]
        # A string of JSON is one of YAML, whatever the name holds.
        lines.append(f"  - {{name: {json.dumps(name)}, source: {json.dumps(f'./{source}')}}}")
    return "\n".join(lines)


def read_recipe(path: Path) -> TrainingMixture:
    """Read and check a recipe."""
    record, _ = read_yaml(path)
    if not isinstance(record, Mapping) or "corpora" not in record:
        raise InputError(f"{path}: expected a recipe: corpora: and a list of name and source")
    sources = record["corpora"]
    if not isinstance(sources, list) or not sources:
        raise InputError(f"{path}: corpora: expected a list with a name and a source in each entry")
    for number, source in enumerate(sources, 1):
        if not isinstance(source, Mapping):
            raise InputError(f"{path}: source {number}: expected a name and a source")
        try:
            RecipeSource.read({str(key): value for key, value in source.items()})
        except InputError as error:
            named = f" ({readable(source['name'])})" if isinstance(source.get("name"), str) else ""
            raise InputError(f"{path}: source {number}{named}: {error}") from error
    try:
        return TrainingMixture.read({str(key): value for key, value in record.items()})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _opened(entry: RecipeSource, recipe: Path, prefix: str) -> Corpus:
    name = f"{prefix}{entry.name}"
    options: dict[str, Any] = {"mapping": entry.mapping, "reader": entry.reader}
    if entry.images is not None:
        options["images"] = _beside(recipe, entry.images)
    try:
        inner = open_corpus(_beside(recipe, entry.source), name=name, **options)
    except InputError as error:
        raise InputError(f"{recipe}: {readable(entry.name)}: {error}") from error
    where = tuple(
        (column, (patterns,) if isinstance(patterns, str) else tuple(patterns))
        for column, patterns in entry.where.items()
    )
    if where and isinstance(inner, EmbeddingCorpus):
        raise InputError(
            f"{recipe}: {readable(entry.name)}: where: rows of embeddings cannot be chosen; they belong to "
            f"their file by their place"
        )
    if not where and entry.weight == 1:
        return inner
    if isinstance(inner, EmbeddingCorpus):
        raise InputError(f"{recipe}: {readable(entry.name)}: weight: not for embeddings")
    return MixtureSource(inner, where, entry.weight, name, inner.source, inner.reader)


def _beside(recipe: Path, source: str) -> str:
    """A path relative to the recipe's folder; addresses, names and absolute paths as they are."""
    location, mark, selection = source.partition("#")
    if is_remote(location) or Path(location).is_absolute():
        return source
    there = recipe.parent / location
    written_as_path = location.startswith(".") or "/" in location or Path(location).suffix
    return f"{there}{mark}{selection}" if written_as_path or there.exists() else source
