"""Backends in place of a model that ran elsewhere: one writes a sheet, one answers from a reading.

Both are ordinary Scorers and Askers, so that `heldout score`'s and `heldout ask`'s own code plans the
requests, grades, checks and writes the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import ImageRef, byte_digest, decode, to_rgb
from heldout.lab.models._reading import SheetReading, sliced_rows
from heldout.lab.models.sheet import IMAGE, MOST_NEW_TOKENS, Ragged, Sheet, letter_tokens
from heldout.lab.power.models import RECORDED
from heldout.model import (
    CUT,
    STOPPED,
    Family,
    Layout,
    Prompt,
    Reply,
    Request,
    Row,
    Score,
    Text,
    UnwritableError,
    Writer,
)
from heldout.store import Dropped


def _kind(request: Request) -> str:
    """An item, a shard read whole, or an item after another one that is not scored itself."""
    if request.turn:
        return "item"
    every = all(part.scored for part in request.content if isinstance(part, Text))
    return "joint" if every else "neighbour"


class RequestKeys:
    """A request by its content: pictures by their bytes, read once each."""

    def __init__(self) -> None:
        self._digests: dict[ImageRef, str] = {}

    def digest(self, picture: ImageRef) -> str:
        if picture not in self._digests:
            self._digests[picture] = byte_digest(picture.read())
        return self._digests[picture]

    def of(self, request: Request, kind: str) -> str:
        content = [
            ["picture", self.digest(part)]
            if isinstance(part, ImageRef)
            else [part.text, part.scored]
            for part in request.content
        ]
        written = json.dumps([kind, request.turn, content])
        return hashlib.sha256(written.encode()).hexdigest()[:24]


@dataclass
class Collector:
    """Remembers every request as rows of tokens, and answers with numbers that mean nothing."""

    processor: Any
    keys: RequestKeys = field(default_factory=RequestKeys)
    scored: dict[str, tuple[Row, int]] = field(default_factory=dict)
    asked: dict[str, tuple[Row, int]] = field(default_factory=dict)
    documents: set[str] = field(default_factory=set)
    lengths: dict[str, int] = field(default_factory=dict)
    golds: dict[str, list[str]] = field(default_factory=dict)
    pictures: dict[str, tuple[int, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tokenizer, family = self.processor.tokenizer, Family()
        self._writer = Writer(self.processor, tokenizer, family)
        self._layout = Layout(
            self.processor,
            tokenizer,
            family,
            placeholder=self._writer.placeholder,
            image_id=tokenizer.convert_tokens_to_ids(IMAGE),
        )
        # How many places a picture takes does not depend on what it shows.
        self._blank = Image.new("RGB", (8, 8))

    @property
    def identity(self) -> Mapping[str, str]:
        return {"backend": "collector", "form": self._writer.form}

    def row(self, request: Request, *, answered: bool = True) -> Row:
        write = self._writer.write if answered else self._writer.write_prompt
        _, (row,) = self._layout.lay_out([write(request)], [self._blank] * len(request.images))
        return row

    def count(self, requests: Sequence[Request]) -> list[int]:
        counts = [self.row(request).length for request in requests]
        keys = (self.keys.of(request, "score") for request in requests)
        self.lengths |= dict(zip(keys, counts, strict=True))
        return counts

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        for request in requests:
            try:
                row = self.row(request)
            except UnwritableError as problem:
                yield Dropped("score", request.id, problem.reason, problem.detail)
                continue
            key = self.keys.of(request, "score")
            self.scored.setdefault(key, (row, self.picture(request)))
            if not request.turn:
                self.documents.add(key)
            fake = (-1.0,) * len(row.scored)
            yield Score(request.id, row.tokens, fake, fake, tuple(1.0 for _ in fake), row.span_ok)

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        for prompt in prompts:
            try:
                row = self.row(prompt.request, answered=False)
            except UnwritableError as problem:
                yield Dropped("ask", prompt.request.id, problem.reason, problem.detail)
                continue
            key = self.keys.of(prompt.request, "ask")
            self.asked.setdefault(key, (row, self.picture(prompt.request)))
            reply = Reply(prompt.request.id, "", STOPPED, row.length, 0)
            keep(reply)
            yield reply

    def picture(self, request: Request) -> int:
        """The number of a request's only picture, -1 without; its pixels as the processor makes them."""
        if not request.images:
            return -1
        (reference,) = request.images
        digest = self.keys.digest(reference)
        if digest not in self.pictures:
            shown = to_rgb(decode(reference.read()))
            processed = self.processor.image_processor(images=[shown], return_tensors="np")
            levels = np.rint((np.asarray(processed["pixel_values"][0]) + 1) * 127.5)
            self.pictures[digest] = (len(self.pictures), levels.clip(0, 255).astype(np.uint8))
        return self.pictures[digest][0]

    def sheet(self, name: str, released: list[dict[str, Any]]) -> Sheet:
        tokenizer = self.processor.tokenizer
        image = tokenizer.convert_tokens_to_ids(IMAGE)
        scored, places = [], []
        for row, _ in self.scored.values():
            ids, moved = _without(row, image)
            scored.append(ids)
            places.append([moved[place] for place in row.scored])
        asked = [_without(row, image)[0] for row, _ in self.asked.values()]
        pixels = [pixels for _, pixels in self.pictures.values()]
        return Sheet(
            name,
            np.stack(pixels),
            Ragged.of(scored),
            Ragged.of(places),
            np.asarray([picture for _, picture in self.scored.values()], dtype=np.int32),
            np.asarray([key in self.documents for key in self.scored], dtype=bool),
            Ragged.of(asked),
            np.asarray([picture for _, picture in self.asked.values()], dtype=np.int32),
            letter_tokens(tokenizer),
            [*self.scored, *self.asked],
            self.lengths,
            [self.golds.get(key, ["", "", ""]) for key in self.asked],
            released,
        )


def _without(row: Row, image: int) -> tuple[list[int], dict[int, int]]:
    """Tokens less the picture's places, which must stand behind the first one; where each token went."""
    shown = [place for place, number in enumerate(row.ids) if number == image]
    if shown and shown != list(range(1, 1 + len(shown))):
        raise ValueError("a picture stands elsewhere than behind the first token")
    kept = [place for place, number in enumerate(row.ids) if number != image]
    return [row.ids[place] for place in kept], {place: n for n, place in enumerate(kept)}


@dataclass
class Replay:
    """What a model read from a sheet, as a Scorer and an Asker."""

    sheet: Sheet
    reading: SheetReading
    tokenizer: Any
    identity: Mapping[str, str]
    picture_places: int
    keys: RequestKeys = field(default_factory=RequestKeys)
    read: dict[tuple[str, str], int] = field(default_factory=dict)  # tokens, by kind and request

    def __post_init__(self) -> None:
        count = len(self.sheet.scored)
        self._scored = {key: place for place, key in enumerate(self.sheet.keys[:count])}
        self._asked = {key: place for place, key in enumerate(self.sheet.keys[count:])}
        self._summed = np.cumsum(self.sheet.sums) - 1
        kept = np.where(self.sheet.sums, 0, self.sheet.places.lengths)
        self._starts = np.cumsum(kept) - kept

    def count(self, requests: Sequence[Request]) -> list[int]:
        return [self.sheet.lengths.get(self.keys.of(request, "score"), 0) for request in requests]

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        for request in requests:
            place = self._scored.get(self.keys.of(request, "score"))
            if place is None:
                yield Dropped("score", request.id, "not on the sheet", self.sheet.name)
                continue
            self.read[_kind(request), request.id] = len(
                self.sheet.scored[place]
            ) + self.picture_places * len(request.images)
            ids = self.sheet.scored[place][self.sheet.places[place]]
            if self.sheet.sums[place]:
                # A document's sum in equal parts: callers that ask for documents use the sum alone.
                total = float(self.reading.sums[self._summed[place]])
                yield Score(request.id, ("",) * len(ids), (total / len(ids),) * len(ids))
                continue
            tokens = tuple(self.tokenizer.decode([int(number)]) for number in ids)
            start = self._starts[place]
            lines = self.reading.lines[start : start + len(ids)].astype(float)
            logprobs, mu, sigma = (tuple(column.tolist()) for column in lines.T)
            # float32 may round log 1 to a positive number
            yield Score(
                request.id, tokens, tuple(min(logprob, 0.0) for logprob in logprobs), mu, sigma
            )

    def entropies(
        self, requests: Iterable[Request]
    ) -> Iterator[tuple[str, NDArray[np.float64]] | Dropped]:
        """Empty readings are of a grid that was read without them."""
        places = {int(row): place for place, row in enumerate(sliced_rows(self.sheet))}
        for request in requests:
            place = places.get(self._scored.get(self.keys.of(request, "score"), -1))
            if place is None or place >= len(self.reading.entropies):
                yield Dropped("entropies", request.id, "not on the sheet", self.sheet.name)
            else:
                yield request.id, self.reading.entropies[place].astype(np.float64)

    def read_for(self, items: Collection[str]) -> dict[str, Any]:
        """Tokens of what was scored: all ``items`` once, every shard in one order, items after others."""
        kinds: dict[str, dict[str, int]] = {"item": {}, "joint": {}, "neighbour": {}}
        for (kind, name), count in self.read.items():
            kinds[kind][name] = count
        shards = kinds["joint"].items()
        spent = {
            "scores": sum(kinds["item"].get(name, 0) for name in items),
            "order_joint": {name.split("/")[0]: count for name, count in shards},
            "order_neighbour": sum(kinds["neighbour"].values()),
        }
        return {RECORDED: spent}

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        for prompt in prompts:
            place = self._asked.get(self.keys.of(prompt.request, "ask"))
            if place is None:
                yield Dropped("ask", prompt.request.id, "not on the sheet", self.sheet.name)
                continue
            tokens = [int(token) for token in self.reading.replies[place] if token >= 0]
            letters = tuple(self.reading.letters[place, : prompt.letters].astype(float).tolist())
            reply = Reply(
                prompt.request.id,
                self.tokenizer.decode(tokens, skip_special_tokens=True),
                STOPPED if len(tokens) < MOST_NEW_TOKENS else CUT,
                len(self.sheet.asked[place]) + self.picture_places * len(prompt.request.images),
                len(tokens),
                letters,
            )
            keep(reply)
            yield reply
