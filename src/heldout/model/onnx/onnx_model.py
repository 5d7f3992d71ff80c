"""OnnxModel: the onnxruntime backend. It needs numpy, Pillow, jinja2, onnxruntime and tokenizers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError, require
from heldout.model.local._answering import Parts
from heldout.model.local.forward import BATCH_TOKENS, Made, Prefix
from heldout.model.local.layout import Layout, PictureInputs, Row
from heldout.model.local.load import family_of
from heldout.model.local.local_model import RunningModel
from heldout.model.local.writing import Writer
from heldout.model.onnx.graphs import (
    CARD,
    FEATURES,
    IDS,
    LOGITS,
    PICTURES,
    PIXELS,
    PLACES,
    ROWS,
    SLOTS,
    Graphs,
    OnnxCard,
    moments,
    open_graphs,
    past_names,
    present_names,
    read_card,
)
from heldout.model.onnx.processor import LightProcessor, LightTokenizer
from heldout.model.request import TEMPLATE

# Forward passes through the three graphs. The decoder gathers the wanted places before its head.


Floats = NDArray[np.float32]
Caches = list[Any]  # keys and values, layer by layer


class OnnxPasses:
    """The Passes of a folder of graphs."""

    def __init__(self, graphs: Graphs, card: OnnxCard) -> None:
        self._graphs = graphs
        self._card = card
        self._past = past_names(card.decoder.layers)
        self._present = present_names(card.decoder.layers)
        self._seen: tuple[PictureInputs, Floats] | None = None

    @property
    def stops(self) -> tuple[int, ...]:
        return tuple(self._card.decoder.stops)

    def whole(self, rows: Sequence[Row], features: PictureInputs, *, share: bool = True) -> Any:
        """Full sequences, padded on the right: causality hides the padding."""
        wanted = [(n, place - 1) for n, row in enumerate(rows) for place in row.scored]
        return self._decode([row.ids for row in rows], self._none(), wanted, features)[0]

    def read(self, ids: Sequence[int], features: PictureInputs) -> Prefix | None:
        _, caches = self._decode([ids], self._none(), [], features, keep=True)
        return Prefix(caches, len(ids), None)

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        rest = [row.ids[prefix.length :] for row in rows]
        wanted = [
            (n, place - 1 - prefix.length) for n, row in enumerate(rows) for place in row.scored
        ]
        return self._decode(rest, prefix.cache, wanted)[0]

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """The graph itself repeats the keys and values of one row for many."""
        return list(prefix.cache)

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        wanted = [(number, len(row) - 1) for number, row in enumerate(rows)]
        logits, cache[:] = self._decode(rows, cache, wanted, keep=True)
        return logits

    def generate(self, row: Row, features: PictureInputs, most: int) -> tuple[list[int], Any]:
        logits, cache = self._decode(
            [row.ids], self._none(), [(0, len(row.ids) - 1)], features, keep=True
        )
        first, tokens = logits[0], self.likeliest(logits)
        while len(tokens) < most and tokens[-1] not in self.stops:
            tokens += self.likeliest(self.step(cache, [tokens[-1:]], 0, None))
        return tokens, first

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        rows: list[list[float]] = moments(logits, targets).tolist()
        return rows

    def likeliest(self, logits: Any) -> list[int]:
        places: list[int] = logits.argmax(-1).tolist()
        return places

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        less = line - line.max()
        array: NDArray[np.float32] = less - np.log(np.exp(less).sum(dtype=np.float64))
        return array.astype(np.float32)

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        try:
            return run()
        except MemoryError:
            return None
        except Exception as error:  # onnxruntime reports only as text that it ran out of memory
            if "alloc" not in str(error).lower():
                raise
            return None

    def _decode(
        self,
        rows: Sequence[Sequence[int]],
        past: Caches,
        wanted: Sequence[tuple[int, int]],
        features: PictureInputs | None = None,
        *,
        keep: bool = False,
    ) -> tuple[Floats, Caches]:
        """Logits at the wanted (row, place) pairs; with ``keep`` also the keys and values so far."""
        word = 0 if self._card.image_token_id else 1  # any that is no place of a picture
        ids = np.full((len(rows), max(map(len, rows))), word, np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
        pictures = self._pictures(features)
        slots = self._slots(ids, len(pictures))
        feeds: dict[str, Any] = {
            IDS: np.where(slots < 0, ids, word),
            SLOTS: slots,
            PICTURES: pictures if len(pictures) else np.zeros((1, pictures.shape[1]), np.float32),
            ROWS: np.array([row for row, _ in wanted], np.int64),
            PLACES: np.array([place for _, place in wanted], np.int64),
            **dict(zip(self._past, past, strict=True)),
        }
        names = [LOGITS, *(self._present if keep else ())]
        logits, *present = self._graphs.decoder.run(names, feeds)
        return logits, present

    def _pictures(self, features: PictureInputs | None) -> Floats:
        """One line for every place of the pictures; those of the last group are not looked at again."""
        if features is None or not features.tensors:
            return np.zeros((0, self._card.decoder.width), np.float32)
        if self._seen is None or self._seen[0] is not features:
            (towered,) = self._graphs.vision.run([FEATURES], {PIXELS: features.tensors[PIXELS]})
            (projected,) = self._graphs.projector.run([PICTURES], {FEATURES: towered})
            self._seen = features, projected.reshape(-1, projected.shape[-1])
        return self._seen[1]

    def _slots(self, ids: NDArray[np.int64], lines: int) -> NDArray[np.int64]:
        """Which line of the pictures stands at each place, -1 for a word; every row shows all of them."""
        marked = ids == self._card.image_token_id
        counts = marked.sum(1)
        if lines and not (counts == lines).all():
            raise ValueError(f"{lines} lines of pictures at {counts.tolist()} places of the rows")
        return np.where(marked & (lines > 0), marked.cumsum(1) - 1, -1)

    def _none(self) -> Caches:
        shape = self._card.decoder
        empty = np.zeros((1, shape.heads, 0, shape.head_width), np.float32)
        return [empty] * len(self._past)


_DTYPES = ("auto", "float32")


class OnnxModel(RunningModel):
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    @classmethod
    def load(
        cls,
        folder: str | Path,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        sharing: bool = True,
    ) -> OnnxModel:
        for package in ("onnxruntime", "tokenizers"):
            require(package, "onnx", "running a model onnx:FOLDER")
        if dtype not in _DTYPES:
            raise InputError(
                f"dtype {dtype}: graphs of onnx:FOLDER calculate in float32; leave it out"
            )
        folder = Path(folder).expanduser()
        card = read_card(folder)
        tokenizer = LightTokenizer.open(folder, card)
        processor = LightProcessor(folder, card, tokenizer)
        graphs = open_graphs(folder, card, device)
        family = family_of(card)
        writer = Writer(processor, tokenizer, family)
        layout = Layout(
            processor,
            tokenizer,
            family,
            placeholder=writer.placeholder,
            image_id=card.image_token_id,
        )
        identity = {
            "backend": "onnxruntime",
            "model": folder.resolve().name,
            # The card holds the hash of every other file.
            "revision": f"onnx {hashlib.sha256((folder / CARD).read_bytes()).hexdigest()[:16]}",
            "dtype": "float32",
            "template": TEMPLATE,
            "form": writer.form,
            "processor": "Pillow",
            "provider": graphs.provider,
            "source": f"{card.source.name} {card.source.revision}",
        }
        return cls(
            Parts(
                identity=identity,
                family=family,
                writer=writer,
                layout=layout,
                passes=OnnxPasses(graphs, card),
                tokenizer=tokenizer,
                image_id=card.image_token_id,
                context=card.decoder.context,
                batch_tokens=batch_tokens,
                sharing=sharing,
                replies=False,
            )
        )
