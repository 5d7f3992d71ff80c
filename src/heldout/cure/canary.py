"""Canaries: items that are planted in a benchmark before it is released, to recognise who trained on it.

Their right answers are drawn at random and show nowhere but in the answers that are released, so a model that has
not seen them is right by chance, whatever it is and however it was made. A random-choice item asks for a code that
somebody drew. A mark is a small pattern in the pictures of several items that all have their right option in the
same drawn place. What is left to chance was drawn by the key alone: the probability that a model which did not
train on the release scores as well is exact (Cheng et al. 2025, DyePack). It needs replies and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Annotated, Any, Self

import polars as pl
from pydantic import Field, model_validator

from heldout import __version__
from heldout.benchmark import canonical_text, grade, letter
from heldout.errors import InputError
from heldout.model import open_predictions
from heldout.settings import Settings
from heldout.stats import adjust
from heldout.store import Run, write_json

KEY_VERSION = 1


class CanarySettings(Settings):
    """Settings of ``heldout canary``."""

    items: Annotated[int, Field(ge=0, le=1000)] = 24
    """Random-choice items to plant."""
    marks: Annotated[int, Field(ge=0, le=100)] = 8
    """Marks to plant in pictures."""
    per_mark: Annotated[int, Field(ge=1, le=100)] = 4
    """Items that carry each mark."""
    options: Annotated[int, Field(ge=2, le=26)] = 4
    """Options of every planted item."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Seed of the key; default: drawn by the system. The right answers follow from it."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.001
    """A model is flagged if its exact false-positive probability, corrected over the models of the call, is not
    above this."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.items and not self.marks:
            raise ValueError("items: with no marks, at least one item has to be planted")
        return self


# The key: the right answers, kept secret.


@dataclass(frozen=True)
class Canary:
    """``mark``: its number, None for a random-choice item. ``target``: the place of the right option."""

    id: str
    options: tuple[str, ...]
    target: int
    mark: int | None = None

    def drawn(self, seed: int) -> int:
        """The place that this seed draws: one for all items of a mark."""
        name = f"item {self.id}" if self.mark is None else f"mark {self.mark}"
        return drawn_place(seed, name, len(self.options))


@dataclass(frozen=True)
class CanaryKey:
    """What the person who releases the benchmark keeps. ``released``: digest of the file with the items."""

    benchmark: str
    seed: int
    options: int
    released: str
    canaries: tuple[Canary, ...]

    @property
    def digest(self) -> str:
        """Of everything in it. Published with the benchmark, it proves that the key was not chosen later."""
        text = json.dumps(self._content(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def _content(self) -> dict[str, Any]:
        return {
            "canary_key_version": KEY_VERSION,
            "benchmark": self.benchmark,
            "seed": str(self.seed),  # larger than what JSON readers take for a whole number
            "options": self.options,
            "released": self.released,
            "canaries": [
                {
                    "id": canary.id,
                    "options": list(canary.options),
                    "right": letter(canary.target),
                    "mark": canary.mark,
                }
                for canary in self.canaries
            ],
        }

    def write(self, path: Path) -> None:
        write_json(path, {**self._content(), "digest": self.digest})

    @classmethod
    def read(cls, path: str | Path, digest: str | None = None) -> CanaryKey:
        """``digest``: the one that was published; the key's own if it is not given."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            version = content["canary_key_version"]
            key = cls(
                str(content["benchmark"]),
                int(content["seed"]),
                int(content["options"]),
                str(content["released"]),
                tuple(
                    Canary(
                        str(row["id"]),
                        tuple(map(str, row["options"])),
                        ord(row["right"]) - ord("A"),
                        row["mark"],
                    )
                    for row in content["canaries"]
                ),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"key {path}: expected the key file that heldout canary plant wrote ({error})"
            ) from error
        if version != KEY_VERSION:
            raise InputError(f"key {path}: version {version!r}; this heldout reads {KEY_VERSION}")
        for known, whose in ((content.get("digest"), "its own"), (digest, "the published")):
            if (known is not None and known != key.digest) or (
                known is None and whose == "its own"
            ):
                raise InputError(
                    f"key {path}: it was changed: its content has the digest {key.digest}, and {whose} "
                    f"digest is {known}. A changed key proves nothing"
                )
        key.check(path)
        return key

    def check(self, path: str | Path) -> None:
        """Refuse a key for which the probability would not be exact: whoever made it chose the right answers, or
        counts one guess several times."""
        repeated = [name for name, n in Counter(c.id for c in self.canaries).items() if n > 1]
        if repeated:
            raise InputError(
                f"key {path}: item {repeated[0]} is in it several times, and one guess would count as several"
            )
        chosen = [c.id for c in self.canaries if c.target != c.drawn(self.seed)]
        if chosen:
            raise InputError(
                f"key {path}: the right answer of {chosen[0]} ({len(chosen)} of {len(self.canaries)} items) is not "
                f"the one that its seed draws. Answers that somebody chose prove nothing"
            )

    @property
    def marks(self) -> dict[int, list[Canary]]:
        groups: dict[int, list[Canary]] = defaultdict(list)
        for canary in self.canaries:
            if canary.mark is not None:
                groups[canary.mark].append(canary)
        return dict(groups)

    @property
    def items(self) -> list[Canary]:
        """The random-choice items."""
        return [canary for canary in self.canaries if canary.mark is None]


def drawn_place(seed: int, name: str, options: int) -> int:
    """A place for what ``name`` says, independent of everything that is released (HMAC-SHA256)."""
    secret = seed.to_bytes((seed.bit_length() + 7) // 8 or 1, "big")
    digest = hmac.new(secret, name.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest, "big") % options


# Testing


def false_positive_probability(
    hits: int, items: int, activated: int, marks: int, options: int
) -> float:
    """How often a model that has not seen the release does as well, exactly.

    Hits and activated marks are independent binomial numbers with probability 1 / options. The two tails are
    multiplied, and all pairs of numbers with a product at most as large are added up, in whole numbers.
    """

    def masses(count: int) -> list[int]:  # of 0, 1, … successes, times options ** count
        return [math.comb(count, k) * (options - 1) ** (count - k) for k in range(count + 1)]

    def tails(values: Sequence[int]) -> list[int]:  # of at least so many
        total, sums = 0, []
        for value in reversed(values):
            total += value
            sums.append(total)
        return sums[::-1]

    first, second = masses(items), masses(marks)
    first_tail, second_tail = tails(first), tails(second)
    observed = first_tail[hits] * second_tail[activated]
    fewest_by_marks = []
    for tail in second_tail:  # a product falls with the number of hits
        low, high = 0, items + 1
        while low < high:
            middle = (low + high) // 2
            if middle > items or first_tail[middle] * tail <= observed:
                high = middle
            else:
                low = middle + 1
        fewest_by_marks.append(low)
    count = sum(
        mass * (first_tail[fewest] if fewest <= items else 0)
        for mass, fewest in zip(second, fewest_by_marks, strict=True)
    )
    return float(Fraction(count, options ** (items + marks)))


@dataclass(frozen=True)
class CanaryVerdict:
    """One model. ``p`` is exact; ``corrected`` over the models of the call (Holm)."""

    model: str
    hits: int
    items: int
    activated: int
    marks: int
    unanswered: int
    p: float
    corrected: float
    flagged: bool
    #: the corrected probability of a model that is right on all of them
    least: float
    level: float

    @property
    def sentence(self) -> str:
        counts = f"{self.hits} of {self.items} random-choice items, {self.activated} of {self.marks} marks"
        if self.unanswered:
            counts += (
                f"; {self.unanswered} planted items have no readable reply and count as missed"
            )
        chance = f"a model that has not trained on the release does as well with probability {self.corrected:.2g}"
        if self.flagged:
            return f"{self.model} trained on the release: {counts}; {chance}."
        if self.least > self.level:
            return (
                f"Whether {self.model} trained on the release cannot be told: all planted items right would have a "
                f"probability of {self.least:.2g}, which is above the level of {self.level:.2g} ({counts})."
            )
        return f"Nothing shows that {self.model} trained on the release: {counts}; {chance}."


@dataclass(frozen=True)
class CanaryTest:
    """What ``heldout.check_canary`` returns."""

    key: CanaryKey
    level: float
    verdicts: tuple[CanaryVerdict, ...]

    @property
    def models(self) -> pl.DataFrame:
        """One row per model."""
        rows = [{**vars(verdict), "sentence": verdict.sentence} for verdict in self.verdicts]
        return pl.DataFrame(rows)

    def as_json(self) -> dict[str, Any]:
        return {
            "heldout": __version__,
            "benchmark": self.key.benchmark,
            "digest": self.key.digest,
            "options": self.key.options,
            "level": self.level,
            "models": self.models.to_dicts(),
        }

    def __repr__(self) -> str:
        flagged = sum(verdict.flagged for verdict in self.verdicts)
        return f"<Canary test: {flagged} of {len(self.verdicts)} models flagged>"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(verdict.sentence)}</p>" for verdict in self.verdicts)


def check_canary(
    key: str | Path | CanaryKey,
    answers: Run | str | Path,
    *,
    model: str | None = None,
    digest: str | None = None,
    settings: CanarySettings | None = None,
    **values: Any,
) -> CanaryTest:
    """Compute how likely a model answers planted items so well without having trained on them.

    Args:
        key: The key file that was kept.
        answers: A run of ``heldout.ask`` on the released benchmark, or a file with ids and predictions.
        model: Only this model of them; the model's name where a file does not say it.
        digest: The digest that was published with the benchmark. A key with another one is refused.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.cure.CanarySettings``; ``level`` is used here.

    Returns:
        For each model its hits, exact false-positive probability and whether it is flagged.
    """
    chosen = CanarySettings.choose(settings, values)
    known = key if isinstance(key, CanaryKey) else CanaryKey.read(key, digest)
    replies = _replies(known, answers, model)
    counted = {name: _count(known, places) for name, places in sorted(replies.items())}
    items, marks = len(known.items), len(known.marks)
    exact = {
        name: false_positive_probability(hits, items, activated, marks, known.options)
        for name, (hits, activated, _) in counted.items()
    }
    corrected = dict(zip(exact, adjust(list(exact.values()), "holm"), strict=True))
    least = false_positive_probability(items, items, marks, marks, known.options)
    verdicts = [
        CanaryVerdict(
            name,
            hits,
            items,
            activated,
            marks,
            unanswered,
            exact[name],
            corrected[name],
            corrected[name] <= chosen.level,
            min(1.0, least * len(exact)),
            chosen.level,
        )
        for name, (hits, activated, unanswered) in counted.items()
    ]
    return CanaryTest(known, chosen.level, tuple(verdicts))


Places = Mapping[str, Sequence[int]]  # by item the places that were chosen, one per readable reply


def _count(key: CanaryKey, places: Places) -> tuple[int, int, int]:
    """Hits, activated marks, and planted items without a readable reply, which count as missed."""
    hits = sum(_favourite(places.get(canary.id, ())) == canary.target for canary in key.items)
    activated = 0
    for group in key.marks.values():
        chosen = [place for canary in group for place in places.get(canary.id, ())]
        activated += _favourite(chosen) == group[0].target
    return hits, activated, sum(not places.get(canary.id) for canary in key.canaries)


def _favourite(places: Sequence[int]) -> int | None:
    """The most frequent place, the first of equals: a rule that does not depend on the key."""
    counts = Counter(places)
    return min(counts, key=lambda place: (-counts[place], place)) if counts else None


def _replies(key: CanaryKey, answers: Run | str | Path, model: str | None) -> dict[str, Places]:
    path = answers.path if isinstance(answers, Run) else Path(answers)
    known = {canary.id: canary for canary in key.canaries}
    rows = (
        _of_run(Run.open(path), known)
        if path.is_dir()
        else _of_file(path, known, model or path.stem)
    )
    places: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for name, item, place in rows:
        if model is None or name == model:
            places[name][item] += [] if place is None else [place]
    if not places:
        whose = f" of {model}" if model else ""
        raise InputError(
            f"answers {path}: there is no reply{whose} to a planted item; ask the model the benchmark that "
            f"was released, with the options as in that file"
        )
    return {name: dict(record) for name, record in places.items()}


Rows = list[tuple[str, str, int | None]]  # model, item, chosen place


def _of_run(run: Run, known: Mapping[str, Canary]) -> Rows:
    if not run.table_path("answers").exists():
        raise InputError(f"answers {run.path}: it holds no answers; run heldout ask first")
    frame = run.frame("answers").filter(
        pl.col("variant") == "original", pl.col("benchmark_id").is_in(list(known))
    )
    rows: Rows = []
    for name, item, options, parsed in frame.select(
        "model", "benchmark_id", "options", "parsed"
    ).iter_rows():
        if tuple(options or ()) != known[item].options:
            raise InputError(
                f"answers {run.path}: item {item} was asked with other options than those that were "
                f"planted; the key belongs to another release"
            )
        rows.append((name, item, _place(parsed, len(options))))
    return rows


def _of_file(path: Path, known: Mapping[str, Canary], default: str) -> Rows:
    entries, columns, _ = open_predictions(path, None, frozenset(known))
    rows: Rows = []
    for entry in entries:
        item = canonical_text(columns.cell(entry.values, "id"))
        if item is None or item not in known:
            continue
        reply = canonical_text(columns.cell(entry.values, "prediction")) or ""
        options = known[item].options
        parsed = grade(reply, "A", options).parsed
        name = canonical_text(columns.cell(entry.values, "model")) or default
        rows.append((name, item, _place(parsed, len(options))))
    return rows


def _place(parsed: str | None, options: int) -> int | None:
    place = ord(parsed) - ord("A") if parsed and len(parsed) == 1 else -1
    return place if 0 <= place < options else None
