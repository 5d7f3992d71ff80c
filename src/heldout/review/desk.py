"""Desk: the cards one rater works through, their judgements, and the settings; no web code."""

from __future__ import annotations

import getpass
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.review._items import (
    benchmark_cards,
    is_synthesized,
    run_cards,
    synthesis_cards,
    twin_cards,
)
from heldout.review._matches import MOST, Choice, match_cards, text_cards
from heldout.review._tables import Table, agreement_tables
from heldout.review.card import (
    FORMS,
    KINDS,
    ORDERS,
    Kind,
    ReviewCard,
    as_listed,
    drawn,
    filters_of,
    match_orders,
    shuffled,
    text_orders,
    undecided,
)
from heldout.settings import Settings
from heldout.store import (
    ITEM,
    Following,
    Judgement,
    Run,
    append,
    current,
    is_run,
    log_path,
    read_document,
    write_json,
)

# ReviewSettings: every setting of ``heldout review``, once, for the command line and Python.


def user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


class ReviewSettings(Settings):
    """Settings of ``heldout review``."""

    rater: str = Field(default_factory=user_name)
    """Who judges (default: your user name)."""
    kind: Kind | None = None
    """What to judge (default: matches, texts and twins, as far as the run has them, else items)."""
    blind: bool = False
    """Show neither the tool's opinion nor other raters' verdicts."""
    rubric: bool = True
    """Items: show the verifier's rubric."""
    unrelated: bool = False
    """Also pairs that count for nothing: nothing aligns, or the words are common."""
    sample: Annotated[int | None, Field(ge=1)] = None
    """Judge a random sample of this size, drawn once and shared by all raters (default: everything)."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port on this machine; 0 takes a free one."""


NOTE = 4000  # characters
MORE_THAN_A_NAME = 80
DESK_FILE, SAMPLE_FILE = "desk.json", "sample.json"  # beside the judgements


class JudgedMeanwhileError(Exception):
    """This card was judged since it was shown, usually in another tab; ``said`` is that judgement."""

    def __init__(self, judgement: Judgement | None) -> None:
        super().__init__("this was judged in another tab since it was shown here")
        self.said = judgement


@dataclass
class Desk:
    folder: Path  # judgements are appended to its review/judgements.jsonl
    title: str
    kind: Kind
    rater: str
    cards: Sequence[ReviewCard]
    blind: bool = False  # hides the tool's opinion and other raters' verdicts
    rubric: bool = True  # the verifier's lines are shown with items
    every: int = 0  # how many there are, where that is more than lie here
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: dict[str, int] = field(init=False)
    _log: Following = field(init=False)

    def __post_init__(self) -> None:
        name = self.rater.strip()
        if not name or len(name) > MORE_THAN_A_NAME or not name.isprintable():
            raise InputError(f"rater {self.rater!r}: expected a name of 1 to 80 characters")
        self.rater = name
        self._log = Following(self.folder, KINDS[self.kind])
        self._places = {card.subject: index for index, card in enumerate(self.cards)}

    @property
    def size(self) -> str:
        """How many of what lie here."""
        more = f" of {self.every:,}" if self.every > len(self.cards) else ""
        return f"{len(self.cards):,}{more} {self.kind}"

    def session(self) -> dict[str, Any]:
        form = FORMS[self.kind]
        orders = self.orders()
        return {
            "title": self.title,
            "kind": self.kind,
            "rater": self.rater,
            "blind": self.blind,
            "rubric": self.rubric and not self.blind,
            "total": len(self.cards),
            "every": max(self.every, len(self.cards)),
            "verdicts": [asdict(verdict) for verdict in form.verdicts],
            "scales": [asdict(scale) for scale in form.scales],
            "orders": [
                {"name": name, "label": ORDERS[name], "cards": orders[name]} for name in orders
            ],
            "undecided": [] if self.blind else undecided(self.kind, self.cards),
            "filters": filters_of(self.cards, self._verdicts(), blind=self.blind),
            "remembered": self._remembered().get(self._mine_key(), {}),
        }

    def _verdicts(self) -> dict[str, list[str]]:
        """The judgements of each subject, by all raters."""
        verdicts: dict[str, list[str]] = {}
        for (subject, _), judgement in self.judgements().items():
            verdicts.setdefault(subject, []).append(judgement.verdict or "")
        return verdicts

    def remember(self, choices: Mapping[str, Any]) -> None:
        """The order and the filters that this rater works with, for the next time."""
        order, filters = choices.get("order"), choices.get("filters")
        named = isinstance(filters, dict) and all(isinstance(v, str) for v in filters.values())
        if not isinstance(order, str) or not named:
            raise InputError("expected an order and filters by name")
        with self._lock:
            known = {**self._remembered(), self._mine_key(): {"order": order, "filters": filters}}
            write_json(self.folder / "review" / DESK_FILE, {"choices": known})

    def _remembered(self) -> dict[str, Any]:
        path = self.folder / "review" / DESK_FILE
        try:
            choices = read_document(path)["choices"]
        except (OSError, InputError, KeyError):
            return {}  # nothing that anybody's judgement depends on
        return choices if isinstance(choices, dict) else {}

    def _mine_key(self) -> str:
        return f"{self.kind} {self.rater}"

    def orders(self) -> dict[str, list[int]]:
        if self.blind:
            others = {subject for subject, rater in self.judgements() if rater != self.rater}
            return shuffled(self.cards, self.rater, others)
        by_kind = {"matches": match_orders, "texts": text_orders}
        return by_kind.get(self.kind, as_listed)(self.cards)

    def progress(self) -> dict[str, Any]:
        """The judgements of this rater so far, by the number of the card; how many each rater judged."""
        here = {
            (subject, rater): judgement
            for (subject, rater), judgement in self.judgements().items()
            if subject in self._places
        }
        verdicts = {
            self._places[subject]: judgement.verdict
            for (subject, rater), judgement in here.items()
            if rater == self.rater
        }
        raters = Counter(rater for _, rater in here)
        return {
            "judged": verdicts,
            "total": len(self.cards),
            "raters": []
            if self.blind
            else [{"rater": rater, "judged": raters[rater]} for rater in sorted(raters)],
        }

    def card(self, index: int) -> dict[str, Any]:
        card = self.cards[index]
        judgements = self.judgements()
        others = [
            {"rater": rater, "verdict": judgement.verdict, "note": judgement.note}
            for (subject, rater), judgement in judgements.items()
            if subject == card.subject and rater != self.rater
        ]
        return {
            "index": index,
            "subject": card.subject,
            "content": card.content,
            "pictures": [
                {"side": side, "name": picture.name} for side, picture in card.pictures.items()
            ],
            "hint": None if self.blind else self._hint(card),
            "others": None if self.blind else others,
            "mine": _mine(judgements.get((card.subject, self.rater))),
        }

    def judge(
        self,
        index: int,
        verdict: str | None,
        *,
        note: str = "",
        ratings: Mapping[str, int] | None = None,
        seen: str | None = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """The judgement is on disk when this returns. ``seen`` is the time of the judgement that the person
        saw, if any; ``seconds``: how long the card was looked at."""
        card = self.cards[index]
        self._check(verdict, note, ratings or {})
        with self._lock:
            known = self.judgements().get((card.subject, self.rater))
            if (known.time if known else None) != seen:
                raise JudgedMeanwhileError(known)
            kind = KINDS[self.kind]
            judgement = Judgement(
                self.rater, kind, card.subject, verdict, note, dict(ratings or {}), seconds=seconds
            )
            return {"mine": _mine(append(self.folder, judgement)), "progress": self.progress()}

    def undo(self, index: int | None = None) -> int | None:
        """Take back this rater's verdict on a card, or else the last one; the card it was, if any."""
        with self._lock:
            mine = {
                subject: judgement
                for (subject, rater), judgement in self.judgements().items()
                if rater == self.rater and subject in self._places
            }
            subject = self.cards[index].subject if index is not None else None
            if subject is None or subject not in mine:
                subject = max(mine, key=lambda judged: mine[judged].time, default=None)
            if subject is None:
                return None
            # The note stays in the log; a verdict of None takes the rest back.
            append(self.folder, Judgement(self.rater, KINDS[self.kind], subject, None))
            return self._places[subject]

    def tables(self) -> list[Table]:
        """How far people agree. Hidden from a blinded rater until all is judged."""
        return agreement_tables(self.kind, self.cards, self.judgements())

    def judgements(self) -> dict[tuple[str, str], Judgement]:
        """The judgement in force of each rater on each subject, by (subject, rater)."""
        return self._log.current()

    def _hint(self, card: ReviewCard) -> Mapping[str, Any]:
        if self.kind == "items" and not self.rubric:
            return {}
        return card.hint

    def _check(self, verdict: str | None, note: str, ratings: Mapping[str, int]) -> None:
        form = FORMS[self.kind]
        known = [verdict.value for verdict in form.verdicts]
        if verdict is not None and verdict not in known:
            raise InputError(f"there is no verdict {verdict!r}; there are: {', '.join(known)}")
        if len(note) > NOTE:
            raise InputError(f"a note has at most {NOTE:,} characters, this one {len(note):,}")
        scales = [scale.name for scale in form.scales]
        for name, rating in ratings.items():
            if name not in scales or rating not in (1, 2, 3, 4):
                raise InputError(
                    f"{name} = {rating}: expected 1 to 4 on {', '.join(scales) or 'none'}"
                )


def _mine(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None or judgement.verdict is None:
        return None
    return {
        "verdict": judgement.verdict,
        "note": judgement.note,
        "ratings": dict(judgement.ratings),
        "time": judgement.time,
    }


# Open desks: what RUN or BENCH holds to be judged, and where judgements go.


SHOWN = 12  # runs of an audit's output that are named


def open_desks(
    source: str,
    settings: ReviewSettings | None = None,
    *,
    out: Path | None = None,
    **values: Any,
) -> list[Desk]:
    """One desk of the kind that is set; without it one each of matches, texts and twins, else of items."""
    chosen = ReviewSettings.choose(settings, values)
    path = Path(source)
    if not (path / "manifest.json").exists():
        inside = runs_inside(path)
        if not inside:
            if log_path(path).exists():
                raise InputError(
                    f"{path} holds what people judged, and not what they judged: name that, too "
                    f"(heldout review BENCH --kind items --out {path})"
                )
            return [_benchmark_desk(source, chosen, out)]
        if len(inside) > 1:
            raise InputError(_choose(path, inside))
        path = inside[0]
    run = Run.open(path)
    run.verify()
    kinds = [chosen.kind] if chosen.kind else _kinds(run)
    known = run.manifest()["inputs"].get("benchmark", {})
    title = str(known.get("name") or run.path.resolve().name)
    folder = out or run.path
    known_cards = {
        kind: _cards(run, kind, chosen.unrelated, _choice(folder, kind, chosen.sample))
        for kind in kinds
    }
    cards_by_kind = {kind: cards for kind, (cards, _) in known_cards.items()}
    if not any(cards_by_kind.values()):
        searched = "matches" in cards_by_kind or "texts" in cards_by_kind
        why = "nothing was found" if searched else "the table is empty"
        if (
            searched
            and not chosen.unrelated
            and any(_cards(run, name, True, Choice(1))[0] for name in cards_by_kind)
        ):
            why = "nothing that was found counts by itself; all pairs can be asked for"
        raise InputError(f"{run.path} has no {' and no '.join(cards_by_kind)} to judge: {why}")
    return [
        Desk(
            folder,
            title,
            name,
            chosen.rater,
            _sampled(folder, name, cards, chosen.sample),
            chosen.blind,
            chosen.rubric,
            known_cards[name][1] if chosen.sample is None else 0,
        )
        for name, cards in cards_by_kind.items()
        if cards
    ]


def _sampled(
    folder: Path, kind: Kind, cards: list[ReviewCard], size: int | None
) -> list[ReviewCard]:
    """All cards, or the sample that all raters share: drawn once, kept in the folder, and only ever enlarged."""
    if size is None:
        return cards
    path = folder / "review" / SAMPLE_FILE
    samples = _samples(path)
    kept = set(samples.get(kind, ()))
    if size < len(kept):
        raise InputError(
            f"sample {size}: a sample of {len(kept):,} {kind} was drawn for all raters before ({path}); "
            f"give {len(kept):,} or more, or remove that file to draw anew"
        )
    chosen = drawn(cards, size, kept)
    names = [card.subject for card in chosen]
    if set(names) - kept:
        write_json(
            path, {"schema_version": 1, "samples": {**samples, kind: sorted({*names, *kept})}}
        )
    return chosen


def _samples(path: Path) -> dict[str, list[str]]:
    """Subjects that were drawn for all raters, by kind."""
    if not path.exists():
        return {}
    try:
        samples: dict[str, list[str]] = read_document(path)["samples"]
    except KeyError as error:
        raise InputError(f"{path} is no sample of heldout review: {error}") from error
    return samples


def _choice(folder: Path, kind: Kind, sample: int | None) -> Choice:
    """Of many pairs: those that were judged or drawn before, and the most urgent, or a random sample."""
    first = {subject for subject, _ in current(folder, KINDS[kind])}
    if sample is None:
        return Choice(MOST, frozenset(first))
    first.update(_samples(folder / "review" / SAMPLE_FILE).get(kind, ()))
    return Choice(max(sample, MOST), frozenset(first), at_random=True)


def item_tables(run: Run) -> list[Table]:
    """How far people agree about the items of a synthesis; empty before anybody judged."""
    if not is_synthesized(run) or not (judgements := current(run.path, ITEM)):
        return []
    return agreement_tables("items", synthesis_cards(run), judgements)


def runs_inside(folder: Path) -> list[Path]:
    """Run folders that lie in ``folder``, as in the output of an audit."""
    paths = []
    for manifest in sorted(folder.glob("*/manifest.json")) if folder.is_dir() else ():
        if is_run(manifest.parent):
            paths.append(manifest.parent)
    return paths


def _choose(folder: Path, inside: list[Path]) -> str:
    named = "; ".join(f"heldout review {path}" for path in inside[:SHOWN])
    more = f"; and {len(inside) - SHOWN} more" if len(inside) > SHOWN else ""
    return (
        f"{folder} holds {len(inside)} runs, and people judge one at a time. Choose: {named}{more}"
    )


def _cards(run: Run, kind: Kind, unrelated: bool, choice: Choice) -> tuple[list[ReviewCard], int]:
    """Cards, and how many there could be."""
    if kind == "matches":
        return match_cards(run, choice, unrelated=unrelated)
    if kind == "texts":
        cards = text_cards(run, unrelated=unrelated)
    elif kind == "twins":
        cards = twin_cards(run)
    elif is_synthesized(run):
        cards = synthesis_cards(run)
    else:
        if not run.table_path("items").exists():
            raise InputError(f"{run.path} has no items to rate: it has no tables/items.parquet")
        cards = run_cards(run)
    return cards, len(cards)


def _benchmark_desk(source: str, settings: ReviewSettings, out: Path | None) -> Desk:
    if settings.kind not in (None, "items"):
        raise InputError(
            f"{source} is no run folder, and only a run folder has {settings.kind} to judge"
        )
    benchmark = read_benchmark(source)
    # Not inside the benchmark: a reader would take the log for data.
    folder = out or Path(f"{benchmark.name}-review")
    return Desk(
        folder,
        benchmark.name,
        "items",
        settings.rater,
        _sampled(folder, "items", benchmark_cards(benchmark), settings.sample),
        settings.blind,
        settings.rubric,
    )


def _kinds(run: Run) -> list[Kind]:
    tables: dict[Kind, str] = {"matches": "matches", "texts": "text_matches", "twins": "twins"}
    items = [kind for kind, table in tables.items() if run.table_path(table).exists()]
    return items or ["items"]
