"""Accuracy of every variant with cluster intervals, vanilla and circular side by side."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from heldout.benchmark import OUTCOMES
from heldout.errors import counted, percent
from heldout.model.asking.recorded import RecordedAnswers
from heldout.stats import Interval, cluster_rate_interval

_ROTATION = "rotation-"


@dataclass(frozen=True)
class Accuracy:
    """Right answers among all that were given: unparsed and refused ones count as not right."""

    name: str
    n: int
    clusters: int
    right: int
    interval: Interval
    outcomes: Mapping[str, int]

    @property
    def rate(self) -> float:
        return self.right / self.n if self.n else float("nan")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rate": self.rate, "interval": self.interval._asdict()}


@dataclass(frozen=True)
class Summary:
    """``vanilla`` and ``circular`` are of the same items: those asked in every rotation."""

    variants: tuple[Accuracy, ...]
    vanilla: Accuracy | None
    circular: Accuracy | None
    without_rotations: int

    def as_json(self) -> dict[str, Any]:
        return {
            "variants": [variant.as_json() for variant in self.variants],
            "vanilla": self.vanilla.as_json() if self.vanilla else None,
            "circular": self.circular.as_json() if self.circular else None,
            "without_rotations": self.without_rotations,
        }


def summarise(rows: Sequence[Mapping[str, Any]], clusters: Mapping[str, str]) -> Summary:
    """``rows`` are one model's answers; ``clusters`` by item."""
    by_variant: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    outcomes: dict[str, dict[str, bool]] = defaultdict(dict)
    counts: dict[str, int] = {}
    for row in rows:
        by_variant[row["variant"]].append(row)
        name, variant = row["benchmark_id"], row["variant"]
        if variant == "original":
            counts[name] = len(row["options"])
        if row["draw"] == 0 and (variant == "original" or variant.startswith(_ROTATION)):
            outcomes[name][variant] = row["outcome"] == "right"
    listed = [
        _accuracy(name, by_variant[name], clusters) for name in sorted(by_variant, key=_place)
    ]
    turned = [name for name, count in counts.items() if _whole(outcomes[name], count)]
    vanilla = circular = None
    if turned:
        vanilla = _rate("vanilla", [(n, outcomes[n]["original"]) for n in turned], clusters)
        circular = _rate("circular", [(n, all(outcomes[n].values())) for n in turned], clusters)
    return Summary(tuple(listed), vanilla, circular, len(counts) - len(turned))


def _place(variant: str) -> tuple[bool, str, int]:
    """The original first, then by kind, and rotation-10 after rotation-9."""
    kind, _, number = variant.rpartition("-")
    if number.isdecimal():
        return True, kind, int(number)
    return variant != "original", variant, 0


def _whole(hits: Mapping[str, bool], count: int) -> bool:
    return count > 1 and all(f"{_ROTATION}{k}" in hits for k in range(1, count))


def _accuracy(
    name: str, rows: Iterable[Mapping[str, Any]], clusters: Mapping[str, str]
) -> Accuracy:
    outcomes_of_rows = list(rows)
    counts = Counter(row["outcome"] for row in outcomes_of_rows)
    hits = [(row["benchmark_id"], row["outcome"] == "right") for row in outcomes_of_rows]
    return _rate(name, hits, clusters, {outcome: counts[outcome] for outcome in OUTCOMES})


def _rate(
    name: str,
    hits: Sequence[tuple[str, bool]],
    clusters: Mapping[str, str],
    outcomes: Mapping[str, int] | None = None,
) -> Accuracy:
    groups = [clusters.get(item, item) for item, _ in hits]
    right = sum(hit for _, hit in hits)
    interval = cluster_rate_interval([float(hit) for _, hit in hits], groups)
    counts = outcomes or {"right": right, "wrong": len(hits) - right}
    return Accuracy(name, len(hits), len(set(groups)), right, interval, counts)


# Replies that no rule can read: with many of them, the accuracy is not the model's.


SHOWN = 5  # ids that are named
MANY = 0.5  # the share of unreadable replies from which on an accuracy says little about the model


class ReplyOutcome(NamedTuple):
    """How one reply was read; ``options`` is how many options the question had."""

    benchmark_id: str
    reply: str
    outcome: str
    options: int


@dataclass(frozen=True)
class Unread:
    """Of ``asked`` replies: the empty ones, and those in which no answer was found.

    ``places``: all of the latter are whole numbers that count options from zero.
    """

    asked: int = 0
    empty: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()
    places: bool = False

    @property
    def many(self) -> bool:
        """Whether they are so many that the accuracy is not the model's."""
        return self.asked > 0 and len(self.empty) + len(self.unparsed) >= MANY * self.asked

    def empty_sentence(self, word: str = "replies") -> str:
        verb = "is" if len(self.empty) == 1 else "are"
        return f"{len(self.empty):,} of {counted(self.asked, _one(word), word)} {verb} empty"

    def unparsed_sentence(self, word: str = "predictions") -> str:
        message = (
            f"{len(self.unparsed):,} of {counted(self.asked, _one(word), word)} could not be read as an "
            f"answer and count as not right ({_items(self.unparsed)})"
        )
        if self.places:
            message += (
                "; they are whole numbers from 0 on under keys that are letters: where they count the "
                "options, write 0 as A, 1 as B and so on"
            )
        return message

    def remarks(self, word: str = "replies", *, tell_empty: bool = True) -> list[str]:
        """Remarks on a model's replies if many of them are unreadable."""
        if not self.many:
            return []
        sentences = [self.empty_sentence(word)] if self.empty and tell_empty else []
        return sentences + ([self.unparsed_sentence(word)] if self.unparsed else [])


def unread_of(readings: Iterable[ReplyOutcome]) -> Unread:
    listed = list(readings)
    empty = [reading.benchmark_id for reading in listed if not reading.reply.strip()]
    lost = [
        reading for reading in listed if reading.outcome == "unparsed" and reading.reply.strip()
    ]
    places = bool(lost) and all(
        _is_place(reading.reply.strip(), reading.options) for reading in lost
    )
    # Several draws or variants of an item are as many replies: an id may stand here more than once.
    return Unread(
        len(listed), tuple(empty), tuple(reading.benchmark_id for reading in lost), places
    )


def _is_place(text: str, options: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 3 and int(text) < options


def _one(word: str) -> str:
    return {"replies": "reply"}.get(word, word.removesuffix("s"))


def _items(ids: tuple[str, ...]) -> str:
    """How many items, and the first of them: an item has a reply in every variant."""
    listed = list(dict.fromkeys(ids))
    named = ", ".join(listed[:SHOWN]) + (" …" if len(listed) > SHOWN else "")
    return f"{counted(len(listed), 'item', 'items')}: {named}"


# A file's own grades beside those of strict grading.


SHOWN_GRADES = 5  # ids that are named; JSON has as many


@dataclass(frozen=True)
class OwnGrades:
    """Two grades of the same rows. ``file_only`` and ``heldout_only`` count rows that one of them alone
    calls right; ``partial`` those that the file calls neither right nor wrong (a score of 0.6)."""

    column: str
    rows: int
    file_accuracy: float
    heldout_accuracy: float
    file_only: int
    heldout_only: int
    partial: int
    file_only_ids: list[str] = field(default_factory=list)
    heldout_only_ids: list[str] = field(default_factory=list)
    #: why the two are not compared, where they are not
    not_compared: str = ""

    @property
    def disagree(self) -> int:
        """Rows on which the two differ."""
        return self.file_only + self.heldout_only + self.partial

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "disagree": self.disagree, "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """A sentence: how many rows differ, in which direction, which ones, and both accuracies."""
        head = f"the file's own grade (column '{self.column}')"
        if self.not_compared:
            return f"{head} was not compared: {self.not_compared}"
        both = f"{percent(self.file_accuracy)} by the file, {percent(self.heldout_accuracy)} by heldout"
        if not self.disagree:
            return f"{head} agrees on all {self.rows:,} rows"
        ways = [
            f"{count:,} right for {who} alone ({_named_items(ids, count)})"
            for count, who, ids in (
                (self.heldout_only, "heldout", self.heldout_only_ids),
                (self.file_only, "the file", self.file_only_ids),
            )
            if count
        ]
        if self.partial:
            ways.append(f"{self.partial:,} with a part of the credit in the file")
        return (
            f"{head} disagrees on {self.disagree:,} of {self.rows:,} rows: {', '.join(ways)}; "
            f"accuracy {both}"
        )


def compare_grades(column: str, grades: Iterable[tuple[str, bool, float]]) -> OwnGrades | None:
    """``grades``: id, right by heldout, the file's grade. None where there is nothing to compare."""
    listed = list(grades)
    if not listed:
        return None
    theirs = [own for _, _, own in listed]
    low, high = min(theirs), max(theirs)
    if low < 0 or high > 1:
        reason = f"its values run from {low:g} to {high:g}; 0 to 1 would be a grade"
        return OwnGrades(column, len(listed), 0.0, 0.0, 0, 0, 0, not_compared=reason)
    by_file = [name for name, right, own in listed if own == 1 and not right]
    by_us = [name for name, right, own in listed if own == 0 and right]
    return OwnGrades(
        column,
        len(listed),
        sum(theirs) / len(listed),
        sum(right for _, right, _ in listed) / len(listed),
        len(by_file),
        len(by_us),
        sum(0 < own < 1 for own in theirs),
        by_file[:SHOWN_GRADES],
        by_us[:SHOWN_GRADES],
    )


def own_grades_of(answers: RecordedAnswers, rows: Sequence[Mapping[str, Any]]) -> OwnGrades | None:
    """``rows`` are the graded ones of ``answers.pairs``, in their order."""
    if answers.graded_by is None:
        return None
    return compare_grades(
        answers.graded_by,
        [
            (question.benchmark_id, row["outcome"] == "right", answers.own_grades[question.id])
            for (question, _), row in zip(answers.pairs, rows, strict=True)
            if question.id in answers.own_grades
        ],
    )


def recorded_remarks(own: OwnGrades | None, empty: Sequence[str]) -> list[str]:
    """Remarks on a file of predictions, as sentences."""
    remarks = [own.sentence] if own is not None else []
    if empty:
        what = counted(
            len(empty), "prediction is empty and counts", "predictions are empty and count"
        )
        remarks.append(f"{what} as not right: {_named_items(empty[:SHOWN_GRADES], len(empty))}")
    return remarks


def _named_items(ids: Sequence[str], count: int) -> str:
    return ", ".join(ids) + (" …" if count > len(ids) else "")
