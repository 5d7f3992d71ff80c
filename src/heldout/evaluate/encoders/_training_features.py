"""Features of a training set with labels: embedded shard by shard, or saved embeddings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.corpus import Corpus, EmbeddingCorpus
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate.encoders._items import STAGE
from heldout.evaluate.encoders._probe import Features
from heldout.evaluate.encoders._saved_rows import UNUSABLE
from heldout.evaluate.encoders.settings import EncoderSettings
from heldout.overlap import Encoder, embed_corpus
from heldout.store import Dropped, Run

_FOLDERS = "folder"  # the reader of loose pictures
_COLUMNS = ("id", "caption", "question", "answer")
_LABEL_WORDS = 4  # longer texts are captions
_Row = tuple[str, str | None, str | None, str | None]  # id, text, question, answer


@dataclass
class TrainingFeatures:
    features: Features
    classes: list[str]
    dropped: list[Dropped] = field(default_factory=list)


@dataclass
class _Described:
    """Matrices, and for each of their rows what may be its class; None where nothing is."""

    matrices: list[NDArray[Any]] = field(default_factory=list)
    answers: list[list[str | None]] = field(default_factory=list)
    texts: list[list[str | None]] = field(default_factory=list)
    folders: list[list[str | None]] = field(default_factory=list)
    failed: Mapping[str, str] = field(default_factory=dict)

    def labels(self) -> list[list[str | None]]:
        """Answers; where the corpus has none, short texts that repeat, then the folders of pictures."""
        if any(map(any, self.answers)):
            return self.answers
        texts = [text for part in self.texts for text in part if text]
        brief = all(len(text.split()) <= _LABEL_WORDS for text in texts)
        if texts and brief and len(set(texts)) <= len(texts) / 2:
            return self.texts
        return self.folders

    def add(self, matrix: NDArray[Any], rows: Iterable[_Row], folders: bool) -> None:
        listed = list(rows)
        self.matrices.append(matrix)
        self.answers.append([_label(question, answer) for _, _, question, answer in listed])
        self.texts.append([_label(question, text) for _, text, question, _ in listed])
        named = (PurePosixPath(name).parent.name or None for name, *_ in listed)
        self.folders.append(list(named) if folders else [None] * len(listed))


def training_features(
    corpus: Corpus,
    settings: EncoderSettings,
    encoder: Encoder | None,
    run: Run,
    engine: Engine,
    *,
    quiet: bool = False,
) -> TrainingFeatures:
    """Every labelled picture of ``corpus``; rows without a label are counted and left out."""
    described = (
        _saved(corpus)
        if isinstance(corpus, EmbeddingCorpus) and encoder is None
        else _embedded(corpus, settings, encoder, run, engine, quiet)
    )
    labels = described.labels()
    seen = Counter(label for part in labels for label in part)
    without = seen.pop(None, 0)
    if not seen:
        raise InputError(
            f"train {corpus.source}: none of its {without:,} pictures has a label. Expected a column "
            f"label or answer without a question, or class folders"
        )
    classes = sorted(str(label) for label in seen)
    places: dict[str | None, int] = {label: place for place, label in enumerate(classes)}
    rows = [
        (matrix, row, places[label])
        for matrix, part in enumerate(labels)
        for row, label in enumerate(part)
        if label is not None
    ]
    table = np.array(rows, np.int64)
    features = Features(described.matrices, table[:, :2], table[:, 2])
    good = features.usable()
    dropped = [Dropped(STAGE, name, "shard failed", why) for name, why in described.failed.items()]
    if without:
        detail = f"{without:,} training pictures have no label"
        dropped.append(Dropped(STAGE, corpus.name, "no label", detail, scope="many"))
    if not good.all():
        detail = f"{int((~good).sum()):,} training rows have {UNUSABLE}"
        dropped.append(Dropped(STAGE, corpus.name, "unusable embedding", detail, scope="many"))
        features = features.chosen(good)
        if not len(features):
            raise InputError(f"train {corpus.source}: no row can be used: {UNUSABLE}")
    return TrainingFeatures(features, classes, dropped)


def _embedded(
    corpus: Corpus,
    settings: EncoderSettings,
    encoder: Encoder | None,
    run: Run,
    engine: Engine,
    quiet: bool,
) -> _Described:
    assert encoder is not None
    rows = embed_corpus(
        corpus, settings.encoder, encoder, run, engine, place=settings.embeddings, quiet=quiet
    )
    described = _Described(failed=rows.failed)
    for saved in rows.saved.values():
        matrix = saved.rows()
        pictures = len(saved.described(len(matrix)).ids)  # whole pictures come first, then parts
        described_rows: Iterable[_Row] = [("", None, None, None)] * pictures
        if saved.metadata is not None:
            table = pq.read_table(saved.metadata, columns=list(_COLUMNS))
            described_rows = zip(
                *(table.column(name).to_pylist()[:pictures] for name in _COLUMNS), strict=True
            )
        described.add(matrix[:pictures], described_rows, corpus.reader == _FOLDERS)
    return described


def _saved(corpus: EmbeddingCorpus) -> _Described:
    described = _Described()
    for shard in corpus.shards():
        items = (
            corpus_item
            for corpus_item in corpus.read(shard)
            if not isinstance(corpus_item, Dropped)
        )
        rows = ((item.id, item.text, item.question, item.answer) for item in items)
        described.add(corpus.embeddings(shard), rows, folders=False)
    return described


def _label(question: str | None, answer: str | None) -> str | None:
    return answer.strip() or None if answer and not question else None
