"""Cards of matches: one per pair of pictures, however many questions and corpus items show it."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.evidence import (
    BY_DIGEST,
    COPIES,
    Modality,
    Relation,
    copies_with_answer,
    undecided_words,
)
from heldout.overlap import (
    JUDGED_DIFFERENT,
    Pair,
    match_batches,
    pair_subject,
    text_pairs,
    text_subject,
    with_subjects,
)
from heldout.review._pictures import Album, CardPicture, locations, same_bytes, same_pixels
from heldout.review.card import ReviewCard, drawn_place
from heldout.store import Partitions, Run

PAIR = ["benchmark_id", "corpus", "corpus_id"]
MOST = 20_000  # pairs on a desk, beside those that were judged
SHOWN = 20  # questions and corpus items that are listed with a pair


@dataclass(frozen=True)
class Choice:
    """Which pairs lie on a desk where there are more than anybody can judge."""

    most: int
    first: frozenset[str] = frozenset()  # subjects that do, whatever else does
    at_random: bool = False  # else the most urgent: undecided pairs first, proven ones last


def match_cards(
    run: Run, choice: Choice, *, unrelated: bool = False
) -> tuple[list[ReviewCard], int]:
    """In the order of the table, and how many pairs it has. The table is read twice, in pieces.

    ``unrelated`` adds the pairs in which the tool aligned nothing.
    """
    if not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no matches to judge: run heldout overlap into it first")
    items = {row["benchmark_id"]: row for row in run.read_table("items").to_pylist()}
    album = Album(run)
    chosen, every = _chosen(run, unrelated, choice)
    pairs: dict[int, _PairRows] = {}
    answered = set(copies_with_answer(run).select(PAIR).iter_rows())
    for frame in _with_pairs(run, unrelated):
        rows = frame.join(chosen, on="pair", how="semi", maintain_order="left")
        for row in rows.iter_rows(named=True):
            if row["pair"] not in pairs:
                pairs[row["pair"]] = _PairRows({**row, "evidence": json.loads(row["evidence"])})
            if row["relation"] in COPIES and tuple(row[name] for name in PAIR) in answered:
                row = {**row, "modality": Modality.FULL}
            pairs[row["pair"]].add(row)
    cards = [_match_card(rows, items, album) for rows in pairs.values()]
    sides = ("benchmark_image", "corpus_image")
    firsts = [rows.first["evidence"] for rows in pairs.values()]
    album.wanted = {evidence.get(side, "") for evidence in firsts for side in sides}
    return cards, every


def _with_pairs(run: Run, unrelated: bool) -> Iterator[pl.DataFrame]:
    for table in run.batches("matches"):
        frame = pl.DataFrame(table)
        yield with_subjects(
            frame if unrelated else frame.filter(pl.col("relation") != Relation.UNRELATED)
        )


def _chosen(run: Run, unrelated: bool, choice: Choice) -> tuple[pl.DataFrame, int]:
    """The chosen pairs, and how many there are."""
    kinds = {"pair": np.uint64, "rank": np.uint64, "place": np.int64}
    best, every, place = np.empty(0, list(kinds.items())), 0, 0
    # Two copies of each picture in each corpus are always there: what a judgement may change depends on others.
    copies: dict[tuple[str, str], set[int]] = defaultdict(set)
    with Partitions(kinds, by="pair") as partitions:
        for frame in _with_pairs(run, unrelated):
            once = frame.unique("pair", keep="first", maintain_order=True)
            places = place + np.arange(len(once))
            partitions.add(pair=once["pair"].to_numpy(), rank=_ranks(once, choice), place=places)
            place += len(once)
            copied = frame.filter(pl.col("relation").is_in(COPIES)).group_by("corpus", "picture")
            for corpus, picture, some in copied.agg(pl.col("pair").unique().head(2)).iter_rows():
                known = copies[corpus, picture]
                known.update(some[: 2 - len(known)])
        for part in partitions:
            pairs, firsts = np.unique(part["pair"], return_index=True)
            every += len(pairs)
            both = np.concatenate([best, part[firsts]])
            both = both[np.lexsort((both["place"], both["rank"]))]
            best = both[: choice.most + np.count_nonzero(both["rank"] == 0)]
    names = set(best["pair"].tolist()).union(*copies.values())
    return pl.DataFrame({"pair": sorted(names)}, schema={"pair": pl.UInt64}), every


def _ranks(once: pl.DataFrame, choice: Choice) -> NDArray[np.uint64]:
    """0 for what is there whatever else is, then the lower the sooner."""
    urgency = (
        pl.when(pl.col("method").is_in(BY_DIGEST))
        .then(3)
        .when(pl.col("relation") == Relation.UNDECIDED)
        .then(1)
        .otherwise(2)
    )
    ranks = once.select(urgency.cast(pl.UInt64)).to_series().to_numpy().copy()
    if choice.first or choice.at_random:
        for row, (picture, theirs) in enumerate(once.select("picture", "theirs").iter_rows()):
            subject = pair_subject(picture, theirs)
            if subject in choice.first:
                ranks[row] = 0
            elif choice.at_random:
                ranks[row] = max(1, int(drawn_place(subject)[:16], 16))
    return ranks


class _PairRows:
    """The rows of one pair, of which a card shows some."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.first = first
        self.items: dict[str, None] = {}
        self.places: dict[str, None] = {}
        self.modalities: set[str] = set()
        self.corpora: set[str] = set()

    def add(self, row: Mapping[str, Any]) -> None:
        self.items[row["benchmark_id"]] = None
        self.modalities.add(row["modality"])
        self.corpora.add(row["corpus"])
        if len(self.places) < SHOWN:
            self.places[f"{row['corpus']}: {row['corpus_id']}"] = None


def _match_card(
    rows: _PairRows, items: Mapping[str, Mapping[str, Any]], album: Album
) -> ReviewCard:
    first = rows.first
    evidence = first["evidence"]
    registration = evidence.get("registration")
    item = items[first["benchmark_id"]]
    name = item["image_names"][first["image_index"]]
    return ReviewCard(
        subject=pair_subject(first["picture"], first["theirs"]),
        cluster=item["cluster"],
        content={
            "query": {
                "name": name,
                "questions": _questions(rows.items, items),
                "metadata": _shared_metadata(rows.items, items),
            },
            "neighbour": {
                "places": list(rows.places),
                "file": evidence.get("corpus_source", ""),
                "text": evidence.get("corpus_text", ""),
                "question": evidence.get("corpus_question", ""),
                "answer": evidence.get("corpus_answer", ""),
            },
            "laid": laid_on_query(registration["warp"] if registration else None)
            if registration or first["method"] in BY_DIGEST
            else None,
            "inverted": bool(registration and registration["inverted"]),
        },
        hint=_hint(rows),
        pictures={
            "query": _query(album, first, name),
            "neighbour": neighbour_picture(album, evidence, first["corpus_id"]),
        },
        decides=tuple(sorted((corpus, evidence["benchmark_pixels"]) for corpus in rows.corpora)),
    )


def _questions(
    names: Iterable[str], items: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    fields = ("question", "options", "answer")
    shown = itertools.islice(names, SHOWN)
    return [{"id": name, **{key: items[name][key] for key in fields}} for name in shown]


def _shared_metadata(
    names: Iterable[str], items: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Metadata that all items of the picture share: it describes the picture, the rest a question."""
    records = [json.loads(items[name]["metadata"] or "{}") for name in names]
    return {
        key: value for key, value in records[0].items() if all(o.get(key) == value for o in records)
    }


def _hint(rows: _PairRows) -> dict[str, Any]:
    first = rows.first
    registration = first["evidence"].get("registration") or {}
    numbers = ("correlation", "detail", "residual", "overlap", "inliers")
    return {
        "relation": first["relation"],
        "transform": first["transform"],
        "method": first["method"],
        "similarity": first["similarity"],
        "degree": first["degree"],
        "modality": sorted(rows.modalities),
        "registration": {key: registration[key] for key in numbers if key in registration},
        "unverified": first["evidence"].get("unverified"),
        "undecided": undecided_words(first["evidence"])
        if first["relation"] == Relation.UNDECIDED
        else "",
    }


def _query(album: Album, row: Mapping[str, Any], name: str) -> CardPicture:
    digest = row["evidence"]["benchmark_image"]
    return CardPicture(
        name,
        lambda: album.of_benchmark(row["benchmark_id"], row["image_index"]),
        same_bytes(digest),
        lambda: album.thumbnail(digest),
    )


def neighbour_picture(album: Album, evidence: Mapping[str, Any], corpus_id: str) -> CardPicture:
    digest = evidence.get("corpus_image", "")
    return CardPicture(
        corpus_id,
        lambda: locations(evidence.get("corpus_source", ""), album.directories),
        same_bytes(digest),
        lambda: album.thumbnail(digest),
    )


def laid_on_query(warp: list[list[float]] | None) -> list[list[float]] | None:
    """Neighbour to query, as a page draws: the warp the other way, of pixels' corners.

    Registration uses the centres of pixels (the first is at 0, 0), a page their corners (it is at ½, ½).
    """
    if warp is None:
        return np.eye(3).tolist()  # equal bytes or pixels lie on each other as they are
    matrix = np.array(warp, dtype=np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        return None
    if abs(np.linalg.det(matrix[:2, :2])) < 1e-9 or abs(np.linalg.det(matrix)) < 1e-9:
        return None
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
    laid = half @ np.linalg.inv(matrix) @ np.linalg.inv(half)
    return (laid / laid[2, 2]).tolist() if abs(laid[2, 2]) > 1e-12 else None


# Cards of text matches: the words of an item beside the words of a corpus item, what differs marked.


Marked = list[tuple[str, bool]]  # pieces of a text; True where the other side has no such words
TEXTS = 4  # texts of one corpus item that are shown
_PIECE = re.compile(r"\s+|\w+|[^\w\s]")
_DEGREES = ("none", "soft", "hard")


def text_cards(run: Run, *, unrelated: bool = False) -> list[ReviewCard]:
    """One per pair of texts, however many items show it; ``unrelated`` adds what counts for nothing."""
    if not run.table_path("text_matches").exists():
        raise InputError(
            f"{run.path} has no texts to judge: compare them first (heldout overlap --text)"
        )
    items = {row["benchmark_id"]: row for row in run.read_table("items").to_pylist()}
    groups: dict[str, list[tuple[Pair, list[dict[str, Any]]]]] = {}
    for pair, rows in text_pairs(run.read_table("text_matches").to_pylist()).items():
        if unrelated or any(_counts(row) for row in rows):
            groups.setdefault(text_subject(items[pair[0]], rows), []).append((pair, rows))
    shown = [pair for same in groups.values() for pair, _ in same]
    album, pictured = Album(run), _pictured(run, shown)
    album.wanted = {
        json.loads(row["evidence"]).get("corpus_image", "") for row in pictured.values()
    }
    return [_text_card(subject, pairs, items, pictured, album) for subject, pairs in groups.items()]


def _counts(row: Mapping[str, Any]) -> bool:
    return bool(row["degree"] != "none" or row["relation"] == JUDGED_DIFFERENT)


def _pictured(run: Run, pairs: Iterable[Pair]) -> dict[Pair, Mapping[str, Any]]:
    """The image match of two items, where the image scan found one."""
    if not run.table_path("matches").exists():
        return {}
    wanted = pl.DataFrame(list(pairs), schema=dict.fromkeys(PAIR, pl.String), orient="row")
    return {
        (row["benchmark_id"], row["corpus"], row["corpus_id"]): row
        for frame in match_batches(run)
        for row in frame.join(wanted, on=PAIR, how="semi").iter_rows(named=True)
    }


def _text_card(
    subject: str,
    pairs: Sequence[tuple[Pair, list[dict[str, Any]]]],
    items: Mapping[str, Mapping[str, Any]],
    pictured: Mapping[Pair, Mapping[str, Any]],
    album: Album,
) -> ReviewCard:
    pair, rows = pairs[0]
    strongest = max(rows, key=lambda row: (_DEGREES.index(row["degree"]), row["similarity"]))
    item, evidence = items[pair[0]], strongest["evidence"]
    question, options = item["question"] or "", list(item["options"] or ())
    ours = "\n".join(part for part in (question, *options) if part) or item["answer"] or ""
    texts = list(dict.fromkeys(row["evidence"]["corpus_text"] for row in rows))
    marked, theirs = marked_words(ours, texts)
    names = list(dict.fromkeys(key[0] for key, _ in pairs))
    places = list(dict.fromkeys(f"{key[1]}: {key[2]}" for key, _ in pairs))
    shared = str(evidence.get("shared") or "")
    match = pictured.get(pair)
    # Several items may share these words, and then no picture is theirs.
    pictures = _pictures(item, match, album) if len(names) == 1 else {}
    return ReviewCard(
        subject=subject,
        cluster=item["cluster"],
        content={
            "query": {
                "id": pair[0],
                "items": names[:SHOWN],
                "text": marked,
                "answer": (item["answer"] or "") if question else "",
                "image": ", ".join(item["image_names"]),
                "metadata": json.loads(item["metadata"] or "{}"),
            },
            "neighbour": {
                "places": places[:SHOWN],
                "texts": theirs[:TEXTS],
                "answers": list(evidence.get("corpus_answers", ())),
                "shared": shared if all(shared not in text for text in texts) else "",
                "pictured": bool(evidence.get("pictured")),
            },
        },
        hint={
            "relation": strongest["relation"],
            "degree": strongest["degree"],
            "method": sorted({row["method"] for row in rows}),
            "similarity": strongest["similarity"],
            "answer": strongest["answer_relation"],
            "picture": match["relation"] if match else "",
            "common": bool(evidence.get("generic")),
            "short": bool(evidence.get("short")),
            "judge": evidence.get("judge"),
        },
        pictures=pictures,
        decides=tuple(sorted({(key[1], key[0]) for key, _ in pairs})),
    )


def _pictures(
    item: Mapping[str, Any], match: Mapping[str, Any] | None, album: Album
) -> dict[str, CardPicture]:
    """The item's picture, and the corpus' where the image scan found it: is it the same subject?"""
    pictures = {}
    if item["image_names"] and item["image_digests"][0]:
        name, proof = item["image_names"][0], same_pixels(item["image_digests"][0])
        place = functools.partial(album.of_benchmark, item["benchmark_id"], 0)
        pictures["query"] = CardPicture(name, place, proof)
    if match is not None:
        evidence = json.loads(match["evidence"])
        pictures["neighbour"] = neighbour_picture(album, evidence, match["corpus_id"])
    return pictures


def marked_words(ours: str, texts: Sequence[str]) -> tuple[Marked, list[Marked]]:
    """``ours`` against the text most like it, and each of ``texts`` against ``ours``, word by word."""
    sides = [_sides(ours, text) for text in texts]
    best = min((words for words, _ in sides), key=_differs, default=[(ours, False)])
    return best, [other for _, other in sides]


def _differs(marked: Marked) -> int:
    return sum(len(text) for text, other in marked if other)


def _sides(ours: str, theirs: str) -> tuple[Marked, Marked]:
    first, second = _PIECE.findall(ours), _PIECE.findall(theirs)
    # Differences of spaces and capitals are ignored.
    same = SequenceMatcher(
        None, [_seen(part) for part in first], [_seen(part) for part in second], autojunk=False
    )
    changed, other = [True] * len(first), [True] * len(second)
    for place, there, length in same.get_matching_blocks():
        changed[place : place + length] = [False] * length
        other[there : there + length] = [False] * length
    return _joined(first, changed), _joined(second, other)


def _seen(piece: str) -> str:
    return " " if piece.isspace() else piece.casefold()


def _joined(pieces: Sequence[str], differs: Sequence[bool]) -> Marked:
    """Neighbouring pieces of one kind are joined; a space between two marked words is marked with them."""
    marked: Marked = []
    for place, (piece, other) in enumerate(zip(pieces, differs, strict=True)):
        if piece.isspace():
            other = 0 < place < len(pieces) - 1 and differs[place - 1] and differs[place + 1]
        if marked and marked[-1][1] == other:
            marked[-1] = (marked[-1][0] + piece, other)
        else:
            marked.append((piece, other))
    return marked
