"""The matches as pairs of pictures with their questions, the worst leaks first."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup
from PIL import Image

from heldout.engine import progress
from heldout.evidence import (
    COPIES,
    GRAVEST,
    SUREST,
    Modality,
    Relation,
    copies_with_answer,
    undecided_words,
)
from heldout.overlap import evidence_field, match_batches, pair_hash
from heldout.report._reproduce import templates
from heldout.store import Partitions, Run

CONFLICT = "label conflict"  # a copy with another answer or under another class
LEAKED = {
    Modality.FULL: "image, question and answer",
    Modality.IMAGE_AND_QUESTION: "image and question",
    Modality.IMAGE_ONLY: "image only",
}
LABELLED = "image and label"  # of items without a question
QUESTIONS = 8  # of one picture; the table holds all
_LONGEST = 400  # characters of a text in one card


MOST = 20_000  # pairs on a page: more of them no browser opens, and nobody looks at
_WAITING = 1 << 17  # matches of these pairs


def gravest_pairs(run: Run) -> tuple[list[dict[str, Any]], int]:
    """The MOST gravest pairs of pictures that are not unrelated, with the questions asked of them, and how
    many pairs there are."""
    places, every = _gravest(run)
    if places.is_empty():
        return [], 0
    rows, corpus_items = _rows_of(run, places)
    # One pair of pictures can carry many questions on either side: they are grouped under the worst leak.
    grouped = rows.group_by("place", maintain_order=True).agg(pl.all()).sort("place")
    items = _items(run, set(rows["benchmark_id"]))
    pairs = [
        _pair(group, items, count)
        for group, count in zip(grouped.iter_rows(named=True), corpus_items, strict=True)
    ]
    return pairs, every


def _with_pairs(run: Run) -> Iterator[pl.DataFrame]:
    """The matches that are not unrelated, with the ``pair`` of pictures that each is about, and its ``severity``."""
    severity = pl.col("modality").replace_strict(GRAVEST, return_dtype=pl.Int32)
    sureness = pl.col("relation").replace_strict(SUREST, return_dtype=pl.Int32)
    theirs = evidence_field("corpus_image").fill_null(pl.col("corpus_id"))
    joined = pl.col("modality", "label_relation").name.suffix("_joined")
    worded = copies_with_answer(run).select(*_PLACE, joined)
    for frame in match_batches(run):
        yield (
            frame.filter(pl.col("relation") != Relation.UNRELATED)
            .join(worded, on=list(_PLACE), how="left", maintain_order="left")
            .with_columns((pl.col("modality") != Modality.FULL).alias("reworded"))
            .with_columns(
                pl.when(pl.col("relation").is_in(COPIES) & pl.col(f"{name}_joined").is_not_null())
                .then(f"{name}_joined")
                .otherwise(name)
                .alias(name)
                for name in ("modality", "label_relation")
            )
            .with_columns(
                evidence_field("benchmark_pixels").fill_null("").alias("picture"),
                theirs.alias("theirs"),
                # Equal words come before others: they can be seen at a glance.
                (2 * (len(GRAVEST) * sureness + severity) + pl.col("reworded")).alias("severity"),
            )
            .with_columns(pair_hash("picture", "corpus", "theirs").alias("pair"))
        )


_PLACE = ("benchmark_id", "corpus", "corpus_id")


def _gravest(run: Run) -> tuple[pl.DataFrame, int]:
    """(pair, place) of the MOST gravest pairs, the worst first, then in the order of the table; and how many
    pairs there are."""
    kinds = {"pair": np.uint64, "severity": np.int64, "first": np.int64}
    best = np.empty(0, list(kinds.items()))
    every = start = 0
    with Partitions(kinds, by="pair") as partitions:
        for frame in _with_pairs(run):
            rows = frame.with_row_index("first", start).group_by("pair", maintain_order=True)
            worst = rows.agg(pl.col("severity").min(), pl.col("first").first())
            partitions.add(**{name: worst[name].to_numpy() for name in kinds})
            start += len(frame)
        for part in partitions:
            order = np.argsort(part["pair"], kind="stable")
            pairs, starts = np.unique(part["pair"][order], return_index=True)
            records = np.empty(len(pairs), best.dtype)
            records["pair"] = pairs
            records["first"] = part["first"][order][starts]
            records["severity"] = np.minimum.reduceat(part["severity"][order], starts)
            every += len(pairs)
            both = np.concatenate([best, records])
            best = both[np.lexsort((both["first"], both["severity"]))[:MOST]]
    places = pl.DataFrame({"pair": best["pair"].copy(), "place": np.arange(len(best))})
    return places, every


def _rows_of(run: Run, places: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    """One match per pair of ``places``, item, modality and label, the worst first; and of every pair, in how
    many corpus items it stands."""
    once = ["place", "benchmark_id", "modality", "label_relation"]
    waiting: list[pl.DataFrame] = []
    length = 0
    counts = np.zeros(len(places), np.int64)

    def distinct() -> pl.DataFrame:
        rows = pl.concat(waiting).sort("severity", maintain_order=True)
        return rows.unique(once, keep="first", maintain_order=True)

    with Partitions({"item": np.uint64, "place": np.int64}, by="item") as partitions:
        for frame in _with_pairs(run):
            rows = frame.join(places, on="pair", how="inner", maintain_order="left")
            names = rows.select(pair_hash("pair", "corpus_id").alias("item"), "place").unique(
                "item"
            )
            partitions.add(item=names["item"].to_numpy(), place=names["place"].to_numpy())
            waiting.append(pl.DataFrame(rows.to_arrow()))  # without the texts of other rows
            length += len(rows)
            if length > _WAITING:
                waiting = [distinct()]
                length = len(waiting[0]) // 2
        for part in partitions:
            single = part[np.unique(part["item"], return_index=True)[1]]
            counts += np.bincount(single["place"], minlength=len(counts))
    return distinct(), counts.tolist()


def _pair(
    group: dict[str, Any], items: dict[str, dict[str, Any]], corpus_items: int
) -> dict[str, Any]:
    evidence = json.loads(group["evidence"][0])
    worst: dict[str, str] = {}  # rows come sorted, worst first
    for item, modality in zip(group["benchmark_id"], group["modality"], strict=True):
        worst.setdefault(item, modality)
    questions = [
        {
            "question": _short(items[item]["question"]),
            "answer": _short(items[item]["answer"]),
            "leaked": modality == Modality.FULL,
        }
        for item, modality in worst.items()
    ]
    registration = evidence.get("registration") or {}
    return {
        "corpus": group["corpus"][0],
        "corpus_id": group["corpus_id"][0],
        "corpus_items": corpus_items,
        "method": group["method"][0],
        "relation": group["relation"][0],
        "transform": group["transform"][0],
        "leaked": _leaked(group["modality"][0], questions),
        "full": group["modality"][0] == Modality.FULL,
        "label": CONFLICT
        if "different" in group["label_relation"]
        else "same label"
        if "same" in group["label_relation"]
        else "",
        "left": evidence["benchmark_image"],
        "right": evidence["corpus_image"],
        "warp": registration.get("warp"),
        "inverted": bool(registration.get("inverted")),
        "similarity": group["similarity"][0],
        "undecided": undecided_words(evidence, group["transform"][0])
        if group["relation"][0] == Relation.UNDECIDED
        else "",
        "detail": registration.get("detail"),
        "image": items[group["benchmark_id"][0]]["image_names"][group["image_index"][0]],
        "corpus_text": _short(evidence["corpus_text"]),
        "corpus_question": _short(evidence["corpus_question"]),
        "corpus_answer": _short(evidence["corpus_answer"]),
        "questions": questions[:QUESTIONS],
        "asked": len(questions),
        "items": list(worst),
    }


def _leaked(modality: str, questions: Sequence[Mapping[str, Any]]) -> str:
    if modality == Modality.FULL and not any(record["question"] for record in questions):
        return LABELLED
    return LEAKED.get(Modality(modality), "")


def _short(words: str | None) -> str:
    message = words or ""
    return message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"


def _items(run: Run, wanted: set[str]) -> dict[str, dict[str, Any]]:
    kept = run.frame("items").filter(pl.col("benchmark_id").is_in(list(wanted)))
    return {row["benchmark_id"]: row for row in kept.iter_rows(named=True)}


# A registration's warp as an SVG transform: the corpus' picture laid on the benchmark's.


_STILL = 1e-6
_FLAT = 1e-9


def laid_on(warp: Sequence[Sequence[float]] | None, size: tuple[int, int]) -> str | None:
    """``matrix(…)`` from the candidate's native pixels to the query's; None where nothing moves.

    SVG has no perspective: a homography is drawn by what it does in the middle of the candidate, which has
    ``size``.
    """
    if warp is None:
        return None
    matrix = np.asarray(warp, dtype=np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        return None
    if abs(np.linalg.det(matrix)) < _FLAT:
        return None
    # Warps refer to the centres of pixels, SVG to their corners.
    half = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    back = half @ np.linalg.inv(matrix) @ np.linalg.inv(half)
    middle = np.array([size[0] / 2, size[1] / 2])
    x, y, depth = back @ np.array([*middle, 1.0])
    if abs(depth) < _FLAT:
        return None
    there = np.array([x / depth, y / depth])
    linear = (back[:2, :2] - np.outer(there, back[2, :2])) / depth
    shift = there - linear @ middle
    if np.abs(linear - np.eye(2)).max() < _STILL and np.abs(shift).max() < _STILL:
        return None
    (a, c), (b, d) = linear
    numbers = " ".join(f"{value:.6g}" for value in (a, b, c, d, *shift))
    return f"matrix({numbers})"


# A gallery of any size on one page: cards and pictures in blocks that the browser reads on demand.
#
# The first page of cards is plain HTML. All pages lie in packed blocks of JSON behind the text, each with its
# cards as HTML (made by the same template, so escaped the same way) and with the pictures that are new in it.
# A picture's name says which block holds it. Until a block is shown the browser does not unpack it.


PER_PAGE = 24
WHOLE_SHARE = (
    1 / 3
)  # of the bytes are for pictures as the run keeps them, then small ones, then none
SMALL = 112  # pixels
_SIDES = ("left", "right")


@dataclass
class GalleryPicture:
    """What the browser needs to draw one: its native size and a WebP, in base64."""

    name: str
    width: int
    height: int
    data: str

    def as_json(self) -> list[Any]:
        return [self.width, self.height, self.data]


@dataclass
class Gallery:
    total: int = 0  # pairs on the page
    every: int = 0  # pairs there are
    first: list[Markup] = field(default_factory=list)  # cards of the first page
    sprite: list[GalleryPicture] = field(default_factory=list)  # and the pictures they use
    blocks: list[str] = field(default_factory=list)  # packed, one per page
    index: Markup = field(default_factory=Markup)  # values by which cards are filtered
    choices: dict[str, dict[str, int]] = field(default_factory=dict)
    small: int = 0  # pictures shown smaller than the run keeps them
    missing: int = 0  # pictures that are not on the page at all
    top: list[dict[str, Any]] = field(default_factory=list)  # pairs of the first screen
    numbers: dict[str, list[int]] = field(default_factory=dict)  # of cards, by item


def make_gallery(run: Run, megabytes: float, *, quiet: bool = False) -> Gallery:
    """The gravest pairs; pictures as far as ``megabytes`` allow, so that the page still opens on a phone."""
    pairs, every = gravest_pairs(run)
    if not pairs:
        return Gallery()
    gallery = Gallery(total=len(pairs), every=every)
    store = _Store(run, pairs, round(megabytes * 1e6))
    card = templates().get_template("pair.html.j2")
    with progress("gallery of the report", len(pairs), "pairs", disabled=quiet) as step:
        for start in range(0, len(pairs), PER_PAGE):
            store.turn()
            if not start:
                gallery.top = _with_pictures(store, pairs)
            shown = [store.drawn(pair) for pair in pairs[start : start + PER_PAGE]]
            cards = [
                Markup(card.render(pair=pair, number=start + n + 1)) for n, pair in enumerate(shown)
            ]
            if not start:
                gallery.first, gallery.sprite = cards, list(store.block)
            pictures = {picture.name: picture.as_json() for picture in store.block}
            gallery.blocks.append(packed({"cards": cards, "pictures": pictures}))
            step(len(shown))
    gallery.small, gallery.missing = store.small, store.missing
    for number, pair in enumerate(pairs):
        for item in pair["items"]:
            gallery.numbers.setdefault(item, []).append(number)
    gallery.choices = {
        "corpus": _counts(pair["corpus"] for pair in pairs),
        "relation": _counts(pair["relation"] for pair in pairs),
        "leaked": _counts(pair["leaked"] for pair in pairs if pair["leaked"]),
        "label": _counts(pair["label"] for pair in pairs if pair["label"]),
    }
    gallery.choices = {name: counts for name, counts in gallery.choices.items() if counts}
    kinds = {name: list(counts) for name, counts in gallery.choices.items()}
    rows = [
        [kinds[name].index(pair[name]) if pair[name] in kinds[name] else -1 for name in kinds]
        for pair in pairs
    ]
    gallery.index = as_data({"per_page": PER_PAGE, "rows": rows})
    return gallery


TOP = 3  # pairs on the first screen


def strongest_pairs(
    run: Run, megabytes: float
) -> tuple[list[dict[str, Any]], list[GalleryPicture]]:
    """The pairs of the first screen and their pictures, for a page without a gallery."""
    if not run.table_path("matches").exists():
        return [], []
    pairs, _ = gravest_pairs(run)
    if not pairs:
        return [], []
    store = _Store(run, pairs, round(megabytes * 1e6))
    store.turn()
    return _with_pictures(store, pairs), store.block


def _with_pictures(store: _Store, pairs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = (store.drawn(pair) for pair in _strongest(pairs))
    return [pair for pair in shown if pair["left"] and pair["right"]]


def _strongest(pairs: Sequence[dict[str, Any]], count: int = TOP) -> list[dict[str, Any]]:
    """The gravest pairs of the surest kind there is: copies before undecided pairs before look-alikes. Of
    copies, each relation and corpus once before a second of any."""
    kinds: tuple[tuple[str, ...], ...] = (
        tuple(COPIES),
        (Relation.UNDECIDED,),
        (Relation.LOOK_ALIKE,),
    )
    for relations in kinds:
        mine = [pair for pair in pairs if pair["relation"] in relations]
        if mine:
            times: dict[tuple[str, str], int] = {}
            order = []
            for place, pair in enumerate(mine):
                kind = (pair["corpus"], pair["relation"])
                times[kind] = times.get(kind, 0) + 1
                order.append((times[kind], place))
            return [mine[place] for _, place in sorted(order)[:count]]
    return []


def as_data(value: Any) -> Markup:
    """JSON that may stand inside <script type="application/json">: nothing in it can end the block."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def packed(value: Any) -> str:
    """Compressed JSON. It has no time stamp, so that the same run makes the same page."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 3, mtime=0)).decode()


_THUMBNAILS = 1 << 12  # read at a time


def _only(thumbnails: pl.DataFrame, wanted: Collection[str]) -> pl.DataFrame:
    return thumbnails.filter(pl.col("digest").is_in(list(wanted)))


class _Store:
    """Pictures by digest, each put into the block in which a card needs it first."""

    def __init__(self, run: Run, pairs: Sequence[Mapping[str, Any]], most: int) -> None:
        self.most = most  # bytes
        wanted = {pair[side] for pair in pairs for side in _SIDES}
        self.kept = {
            row["digest"]: row
            for table in run.batches("thumbnails", rows=_THUMBNAILS)
            for row in _only(pl.DataFrame(table), wanted).iter_rows(named=True)
        }
        self.known: dict[str, GalleryPicture | None] = {}
        self.block: list[GalleryPicture] = []
        self.number = -1
        self.bytes = self.small = self.missing = 0

    def turn(self) -> None:
        self.block = []
        self.number += 1

    def drawn(self, pair: dict[str, Any]) -> dict[str, Any]:
        left, right = (self.picture(pair[side]) for side in _SIDES)
        laid = laid_on(pair["warp"], (right.width, right.height)) if left and right else None
        return {**pair, "left": left, "right": right, "laid": laid}

    def picture(self, digest: str) -> GalleryPicture | None:
        if digest not in self.known:
            self.known[digest] = self._new(digest)
        return self.known[digest]

    def _new(self, digest: str) -> GalleryPicture | None:
        row = self.kept.get(digest)
        if row is None:
            return None
        data = row["webp"]
        if self.bytes + len(data) > WHOLE_SHARE * self.most:
            data = _smaller(data)
            if self.bytes + len(data) > self.most:
                self.missing += 1
                return None
            self.small += 1
        self.bytes += len(data)
        name = f"p{self.number}-{len(self.block)}"
        picture = GalleryPicture(name, row["width"], row["height"], base64.b64encode(data).decode())
        self.block.append(picture)
        return picture


def _smaller(webp: bytes) -> bytes:
    """The run's thumbnail at a smaller size."""
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
    order = [LABELLED, *LEAKED.values()]
    return dict(
        sorted(counts.items(), key=lambda entry: order.index(entry[0]) if entry[0] in order else 0)
    )
