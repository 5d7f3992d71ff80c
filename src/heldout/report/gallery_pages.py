"""A gallery of any size on one page: cards and pictures in blocks that the browser reads when asked.

The first page of cards is plain HTML. All pages lie in packed blocks of JSON behind the text, each with its
cards as HTML (made by the same template, so escaped the same way) and with the pictures that are new in it.
A picture's name says which block holds it. Until a block is shown the browser does not unpack it.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from markupsafe import Markup
from PIL import Image

from heldout.engine import progress
from heldout.report.environment import templates
from heldout.report.gallery import LEAKED, all_pairs
from heldout.report.overlay import laid_on
from heldout.store import Run

PER_PAGE = 24
#: Bytes of pictures as the run keeps them, then small ones, then none: a page must still open on a phone.
WHOLE_BYTES = 16_000_000
ALL_BYTES = 48_000_000
SMALL = 112  # pixels
_SIDES = ("left", "right")


@dataclass
class Picture:
    """What the browser needs to draw one: its native size and a WebP, in base64."""

    name: str
    width: int
    height: int
    data: str

    def as_json(self) -> list[Any]:
        return [self.width, self.height, self.data]


@dataclass
class Gallery:
    total: int = 0
    first: list[Markup] = field(default_factory=list)  # cards of the first page
    sprite: list[Picture] = field(default_factory=list)  # and the pictures they use
    blocks: list[str] = field(default_factory=list)  # packed, one a page
    index: Markup = field(default_factory=Markup)  # what every card can be filtered by
    choices: dict[str, dict[str, int]] = field(default_factory=dict)
    small: int = 0  # pictures shown smaller than the run keeps them
    missing: int = 0  # pictures that are not on the page at all


def make_gallery(run: Run, *, quiet: bool = False) -> Gallery:
    pairs = all_pairs(run)
    if not pairs:
        return Gallery()
    made = Gallery(total=len(pairs))
    store = _Store(run, pairs)
    card = templates().get_template("pair.html.j2")
    with progress("gallery of the report", len(pairs), "pairs", disabled=quiet) as step:
        for start in range(0, len(pairs), PER_PAGE):
            store.turn()
            shown = [store.drawn(pair) for pair in pairs[start : start + PER_PAGE]]
            cards = [
                Markup(card.render(pair=pair, number=start + n + 1)) for n, pair in enumerate(shown)
            ]
            if not start:
                made.first, made.sprite = cards, list(store.block)
            pictures = {picture.name: picture.as_json() for picture in store.block}
            made.blocks.append(packed({"cards": cards, "pictures": pictures}))
            step(len(shown))
    made.small, made.missing = store.small, store.missing
    made.choices = {
        "corpus": _counts(pair["corpus"] for pair in pairs),
        "relation": _counts(pair["relation"] for pair in pairs),
        "leaked": _counts(pair["leaked"] for pair in pairs if pair["leaked"]),
    }
    kinds = {name: list(counts) for name, counts in made.choices.items()}
    rows = [
        [kinds[name].index(pair[name]) if pair[name] in kinds[name] else -1 for name in kinds]
        for pair in pairs
    ]
    made.index = as_data({"per_page": PER_PAGE, "rows": rows})
    return made


def as_data(value: Any) -> Markup:
    """JSON that may stand inside <script type="application/json">: nothing in it can end the block."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def packed(value: Any) -> str:
    """Cards differ in few words, so they pack well. No time stamp: the same run makes the same page."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 3, mtime=0)).decode()


class _Store:
    """Pictures by digest, each put into the block in which a card needs it first."""

    def __init__(self, run: Run, pairs: Sequence[Mapping[str, Any]]) -> None:
        wanted = {pair[side] for pair in pairs for side in _SIDES}
        thumbnails = run.frame("thumbnails")
        self.kept = {
            row["digest"]: row
            for row in thumbnails.filter(pl.col("digest").is_in(list(wanted))).iter_rows(named=True)
        }
        self.known: dict[str, Picture | None] = {}
        self.block: list[Picture] = []
        self.number = -1
        self.bytes = self.small = self.missing = 0

    def turn(self) -> None:
        self.block = []
        self.number += 1

    def drawn(self, pair: dict[str, Any]) -> dict[str, Any]:
        left, right = (self.picture(pair[side]) for side in _SIDES)
        laid = laid_on(pair["warp"], (right.width, right.height)) if left and right else None
        return {**pair, "left": left, "right": right, "laid": laid}

    def picture(self, digest: str) -> Picture | None:
        if digest not in self.known:
            self.known[digest] = self._new(digest)
        return self.known[digest]

    def _new(self, digest: str) -> Picture | None:
        row = self.kept.get(digest)
        if row is None:
            return None
        data = row["webp"]
        if self.bytes + len(data) > WHOLE_BYTES:
            data = _smaller(data)
            if self.bytes + len(data) > ALL_BYTES:
                self.missing += 1
                return None
            self.small += 1
        self.bytes += len(data)
        name = f"p{self.number}-{len(self.block)}"
        made = Picture(name, row["width"], row["height"], base64.b64encode(data).decode())
        self.block.append(made)
        return made


def _smaller(webp: bytes) -> bytes:
    """The run's own thumbnail once more, at the size of a stamp."""
    with Image.open(io.BytesIO(webp), formats=("WEBP",)) as image:
        stamp = image.convert("RGB")
    stamp.thumbnail((SMALL, SMALL), Image.Resampling.BOX)
    buffer = io.BytesIO()
    stamp.save(buffer, "WEBP", quality=60, method=0)
    return min(buffer.getvalue(), webp, key=len)


def _counts(values: Iterator[str] | Any) -> dict[str, int]:
    """In the order of severity, which is the order in which they come."""
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    order = list(LEAKED.values())
    return dict(
        sorted(counts.items(), key=lambda one: order.index(one[0]) if one[0] in order else 0)
    )
