"""Features of a training set with labels: embedded shard by shard, or embeddings somebody saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from heldout.corpus import Corpus, EmbeddingCorpus
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate.encoders.items import STAGE
from heldout.evaluate.encoders.probe import Features
from heldout.evaluate.encoders.settings import EncoderSettings
from heldout.overlap.embeddings import embed_corpus
from heldout.overlap.encoders import Encoder
from heldout.store import Dropped, Run

_FOLDERS = "folder"  # the reader of loose pictures


@dataclass
class TrainingFeatures:
    features: Features
    classes: list[str]
    dropped: list[Dropped] = field(default_factory=list)


@dataclass
class _Labelled:
    """Matrices with the label of each row; None where it has none."""

    matrices: list[NDArray[Any]] = field(default_factory=list)
    labels: list[list[str | None]] = field(default_factory=list)
    failed: Mapping[str, str] = field(default_factory=dict)


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
    found = (
        _saved(corpus)
        if isinstance(corpus, EmbeddingCorpus) and encoder is None
        else _embedded(corpus, settings, encoder, run, engine, quiet)
    )
    seen = Counter(label for labels in found.labels for label in labels)
    without = seen.pop(None, 0)
    if not seen:
        raise InputError(
            f"train {corpus.source}: none of its {without:,} pictures has a label. Expected a column "
            f"label or answer, without a question"
        )
    classes = sorted(str(label) for label in seen)
    places: dict[str | None, int] = {label: place for place, label in enumerate(classes)}
    rows = [
        (matrix, row, places[label])
        for matrix, labels in enumerate(found.labels)
        for row, label in enumerate(labels)
        if label is not None
    ]
    table = np.array(rows, np.int64)
    dropped = [Dropped(STAGE, name, "shard failed", why) for name, why in found.failed.items()]
    if without:
        detail = f"{without:,} training pictures have no label"
        dropped.append(Dropped(STAGE, corpus.name, "no label", detail, scope="many"))
    return TrainingFeatures(Features(found.matrices, table[:, :2], table[:, 2]), classes, dropped)


def _embedded(
    corpus: Corpus,
    settings: EncoderSettings,
    encoder: Encoder | None,
    run: Run,
    engine: Engine,
    quiet: bool,
) -> _Labelled:
    assert encoder is not None
    rows = embed_corpus(
        corpus, settings.encoder, encoder, run, engine, place=settings.embeddings, quiet=quiet
    )
    found = _Labelled(failed=rows.failed)
    for saved in rows.saved.values():
        matrix = saved.rows()
        pictures = len(saved.described(len(matrix)).ids)  # whole pictures come first, then parts
        found.matrices.append(matrix[:pictures])
        if saved.metadata is None:
            found.labels.append([None] * pictures)
            continue
        table = pq.read_table(saved.metadata, columns=["id", "question", "answer"])
        ids, *words = (table.column(name).to_pylist()[:pictures] for name in table.column_names)
        labels = [_label(*pair) for pair in zip(*words, strict=True)]
        if corpus.reader == _FOLDERS and not any(labels):
            labels = [_class_folder(one) for one in ids]
        found.labels.append(labels)
    return found


def _saved(corpus: EmbeddingCorpus) -> _Labelled:
    found = _Labelled()
    for shard in corpus.shards():
        matrix = corpus.embeddings(shard)
        items = [one for one in corpus.read(shard) if not isinstance(one, Dropped)]
        found.matrices.append(matrix)
        found.labels.append([_label(one.question, one.answer) for one in items])
    return found


def _class_folder(name: str) -> str | None:
    """``n01440764/x.jpg``: a folder of pictures that nobody labelled otherwise is their class."""
    return PurePosixPath(name).parent.name or None


def _label(question: str | None, answer: str | None) -> str | None:
    return answer.strip() or None if answer and not question else None
