"""A benchmark's pictures as rows, and texts as rows of the same space: by a model, or saved by somebody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from heldout.benchmark import Benchmark
from heldout.engine import Engine
from heldout.evaluate.encoders.items import STAGE, Asked, AskedItems
from heldout.evaluate.encoders.saved_rows import UNUSABLE, SavedPairs, read_saved_pairs
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
        return self.pictures[[self.place[one.picture] for one in items]]


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
    found = upright_rows(benchmark, settings.encoder, encoder, run, engine, quiet=quiet)
    place = {key: number for number, key in enumerate(found.pictures)}
    return EncodedRows(
        settings.encoder, encoder.identity, encoder, None, found.rows, place, run, engine, quiet
    )


def _saved(
    benchmark: Benchmark, asked: AskedItems, spec: str, run: Run | None, engine: Engine, quiet: bool
) -> EncodedRows:
    folder = Path(spec.removeprefix(SAVED))
    saved = read_saved_pairs(folder, benchmark, asked.items)
    asked.dropped += [
        Dropped(STAGE, one.id, "unusable embedding", UNUSABLE)
        if one.id in saved.unusable
        else Dropped(STAGE, one.id, "no embedding", f"{folder.name} has no row of it")
        for one in asked.items
        if one.id not in saved.pictures
    ]
    asked.items = [one for one in asked.items if one.id in saved.pictures]
    first: dict[str, Floats] = {}  # a picture shown by several items is one candidate
    for one in asked.items:
        first.setdefault(one.picture, saved.pictures[one.id])
    place = {key: number for number, key in enumerate(first)}
    rows = np.stack(list(first.values()))
    return EncodedRows(spec, saved.identity, None, saved, rows, place, run, engine, quiet)
