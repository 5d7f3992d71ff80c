"""A benchmark's pictures as rows, and texts as rows of the same space: by a model, or from saved embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.engine import Engine
from heldout.evaluate.encoders._items import STAGE, Asked, AskedItems
from heldout.evaluate.encoders._saved_rows import UNUSABLE, SavedPairs, read_saved_pairs
from heldout.evaluate.encoders.settings import SAVED, EncoderSettings
from heldout.overlap import Encoder, open_encoder, text_rows, upright_rows
from heldout.store import Dropped, Run

Floats = NDArray[np.float32]


@dataclass
class EncodedRows:
    """One row per distinct picture; ``place`` finds it by the picture's key."""

    spec: str
    identity: str
    encoder: Encoder | None  # None where rows were saved
    saved: SavedPairs | None
    pictures: Floats
    place: dict[str, int]
    run: Run | None
    engine: Engine
    quiet: bool

    def texts(self, texts: Sequence[str], what: str) -> Floats:
        assert self.encoder is not None
        return text_rows(
            texts, self.spec, self.encoder, self.run, self.engine, what=what, quiet=self.quiet
        )

    def of(self, items: Sequence[Asked]) -> Floats:
        return self.pictures[[self.place[item.picture] for item in items]]


def encoded_rows(
    benchmark: Benchmark,
    asked: AskedItems,
    settings: EncoderSettings,
    run: Run | None,
    engine: Engine,
    *,
    quiet: bool,
) -> EncodedRows:
    """Rows of every picture of ``asked``; items without a saved row are dropped from it."""
    if settings.is_saved:
        return _saved(benchmark, asked, settings.encoder, run, engine, quiet)
    encoder = open_encoder(settings.encoder)
    benchmark_embeddings = upright_rows(
        benchmark, settings.encoder, encoder, run, engine, quiet=quiet
    )
    place = {key: number for number, key in enumerate(benchmark_embeddings.pictures)}
    return EncodedRows(
        settings.encoder,
        encoder.identity,
        encoder,
        None,
        benchmark_embeddings.rows,
        place,
        run,
        engine,
        quiet,
    )


def _saved(
    benchmark: Benchmark, asked: AskedItems, spec: str, run: Run | None, engine: Engine, quiet: bool
) -> EncodedRows:
    folder = Path(spec.removeprefix(SAVED))
    saved = read_saved_pairs(folder, benchmark, asked.items)
    asked.dropped += [
        Dropped(STAGE, item.id, "unusable embedding", UNUSABLE)
        if item.id in saved.unusable
        else Dropped(STAGE, item.id, "no embedding", f"{folder.name} has no row of it")
        for item in asked.items
        if item.id not in saved.pictures
    ]
    asked.items = [item for item in asked.items if item.id in saved.pictures]
    first: dict[str, Floats] = {}  # a picture shown by several items is one candidate
    for item in asked.items:
        first.setdefault(item.picture, saved.pictures[item.id])
    place = {key: number for number, key in enumerate(first)}
    rows = np.stack(list(first.values()))
    return EncodedRows(spec, saved.identity, None, saved, rows, place, run, engine, quiet)
