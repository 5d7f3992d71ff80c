"""Card: one thing a person judges, split into what everybody may see and what a blinded rater may not."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from heldout.evidence import BY_DIGEST, COPIES, GRAVEST, SUREST, Modality, Relation
from heldout.overlap import RELATIONS, TEXT_RELATIONS
from heldout.review._pictures import CardPicture
from heldout.store import ITEM, MATCH, TEXT, TWIN

Kind = Literal["matches", "texts", "twins", "items"]
KINDS: dict[Kind, str] = {"matches": MATCH, "texts": TEXT, "twins": TWIN, "items": ITEM}


@dataclass(frozen=True)
class ReviewCard:
    """``subject`` depends on the data alone, so that a judgement outlives the run that asked for it."""

    subject: str
    cluster: str  # cards of one benchmark picture are not independent
    content: Mapping[str, Any]  # what every rater sees
    hint: Mapping[str, Any]  # the tool's opinion: hidden from a blinded rater
    pictures: Mapping[str, CardPicture] = field(default_factory=dict)  # by side, in the order shown
    decides: tuple[tuple[str, str], ...] = ()  # corpora and pictures whose leak a match decides


@dataclass(frozen=True)
class VerdictChoice:
    value: str  # as in the log
    key: str  # on the keyboard
    label: str
    help: str


@dataclass(frozen=True)
class RatingScale:
    name: str  # as in the log
    label: str
    help: str


@dataclass(frozen=True)
class Form:
    """What can be said of a card: one of the verdicts, and a number from 1 to 4 on every scale."""

    verdicts: tuple[VerdictChoice, ...]
    scales: tuple[RatingScale, ...] = ()


_MATCH_HELP = (
    "the same picture: nothing was changed but the file",
    "the same picture, cropped, turned, resized, recoloured or re-compressed",
    "the same subject or study, but another shot, slice or moment",
    "similar, but no copy; of the same subject or of another",
    "nothing in common but by chance",
    "cannot be told from what is shown",
)
_TEXT_HELP = (
    "word for word, or with slips of the pen; of a caption: the same caption",
    "asks the same of the same subject in other words, and gives the same answer",
    "asks the same, in these or other words; the answer is another one, or is not there",
    "made from one template, but about something else: left for right, T1 for T2",
    "nothing in common but by chance",
    "cannot be told from what is shown",
)


def _numbered(values: Iterable[str], messages: Iterable[str]) -> Form:
    return Form(
        tuple(
            VerdictChoice(value, str(number), value[0].upper() + value[1:], help)
            for number, (value, help) in enumerate(zip(values, messages, strict=True), 1)
        )
    )


MATCH_FORM = _numbered(RELATIONS, _MATCH_HELP)
TEXT_FORM = _numbered(TEXT_RELATIONS, _TEXT_HELP)
TWIN_FORM = Form(
    (
        VerdictChoice(
            "keep", "1", "Keep", "the new picture makes the new answer right and is answerable"
        ),
        VerdictChoice("reject", "2", "Reject", "the new answer is wrong, or the picture is broken"),
    )
)
# The four scales of MedVLSynther (Appendix G.1), worded for any field: 4 is excellent, 1 is poor.
SCALES = (
    RatingScale(
        "correctness",
        "Correctness",
        "by what is known in its field, is the keyed answer right, and the only right one?",
    ),
    RatingScale(
        "clarity", "Clarity and wording", "clear, professional, without a hint of the answer?"
    ),
    RatingScale("grounding", "Image grounding", "does it take the picture to answer?"),
    RatingScale("options", "Option design", "alike in form, mutually exclusive, plausible?"),
)
ITEM_FORM = Form(
    (
        VerdictChoice("accept", "a", "Accept", "fit for use"),
        VerdictChoice("reject", "r", "Reject", "not fit for use"),
    ),
    SCALES,
)
FORMS: dict[Kind, Form] = {
    "matches": MATCH_FORM,
    "texts": TEXT_FORM,
    "twins": TWIN_FORM,
    "items": ITEM_FORM,
}


# The order of pairs: undecided ones first, or the strongest evidence, or those that could change a claim.


UNDECIDED_FIRST, EVIDENCE, CLAIMS = "undecided", "evidence", "claims"
SHUFFLED, LISTED = "shuffled", "listed"
ORDERS = {
    UNDECIDED_FIRST: "undecided first",
    EVIDENCE: "strongest evidence first",
    CLAIMS: "what could change a claim first",
    SHUFFLED: "shuffled for you",
    LISTED: "as listed",
}
_DEGREES = ("hard", "soft", "none")


def match_orders(cards: Sequence[ReviewCard]) -> dict[str, list[int]]:
    indices = range(len(cards))
    copies = [card.hint["relation"] in COPIES for card in cards]
    stakes = [
        # proven by digest, so judgements cannot change it
        2 if card.hint["method"] in BY_DIGEST else stake
        for card, stake in zip(cards, _stakes(cards, copies), strict=True)
    ]
    return {
        # What a judgement can change least comes last: equal bytes or pixels stay a copy.
        UNDECIDED_FIRST: sorted(
            indices,
            key=lambda index: (
                cards[index].hint["method"] in BY_DIGEST,
                cards[index].hint["relation"] != Relation.UNDECIDED,
                stakes[index],
                _doubt(cards[index]),
                index,
            ),
        ),
        EVIDENCE: sorted(indices, key=lambda index: (_strength(cards[index]), index)),
        CLAIMS: sorted(indices, key=lambda index: (stakes[index], _doubt(cards[index]), index)),
    }


def text_orders(cards: Sequence[ReviewCard]) -> dict[str, list[int]]:
    """As for pictures, with what counts (a degree) in place of a copy."""
    indices = range(len(cards))
    stakes = _stakes(cards, [card.hint["degree"] != "none" for card in cards])
    return {
        UNDECIDED_FIRST: sorted(
            indices,
            key=lambda index: (cards[index].hint["degree"] != "soft", stakes[index], index),
        ),
        EVIDENCE: sorted(indices, key=lambda index: (_worth(cards[index]), index)),
        CLAIMS: sorted(
            # At equal stakes, first what proves nothing yet: a judgement may decide it.
            indices,
            key=lambda index: (stakes[index], cards[index].hint["degree"] != "soft", index),
        ),
    }


def undecided(kind: Kind, cards: Sequence[ReviewCard]) -> list[int]:
    """What people are asked for first: pairs that nothing has decided, and texts that count and prove nothing."""
    field, value = {"matches": ("relation", Relation.UNDECIDED), "texts": ("degree", "soft")}.get(
        kind, ("", "")
    )
    return [index for index, card in enumerate(cards) if field and card.hint[field] == value]


def _worth(card: ReviewCard) -> tuple[float, ...]:
    hint = card.hint
    return (_DEGREES.index(hint["degree"]), hint["answer"] != "same", -hint["similarity"])


def shuffled(
    cards: Sequence[ReviewCard], rater: str, judged: Collection[str] = ()
) -> dict[str, list[int]]:
    """A random order for a blinded rater: an order by certainty would reveal the tool's opinion. What others
    ``judged`` comes first, since agreement needs the same cards."""

    def place(index: int) -> tuple[bool, str]:
        subject = cards[index].subject
        return subject not in judged, hashlib.sha256(f"{rater}\n{subject}".encode()).hexdigest()

    return {SHUFFLED: sorted(range(len(cards)), key=place)}


def drawn(cards: Sequence[ReviewCard], size: int, kept: Collection[str]) -> list[ReviewCard]:
    """A random sample that is the same for everybody: first what was ``kept`` of an earlier draw."""

    def place(card: ReviewCard) -> tuple[bool, str]:
        return card.subject not in kept, drawn_place(card.subject)

    chosen = {card.subject for card in sorted(cards, key=place)[: max(size, len(kept))]}
    return [card for card in cards if card.subject in chosen]


def drawn_place(subject: str) -> str:
    """A random number of a subject, the same for everybody."""
    return hashlib.sha256(f"sample\n{subject}".encode()).hexdigest()


def as_listed(cards: Sequence[ReviewCard]) -> dict[str, list[int]]:
    return {LISTED: list(range(len(cards)))}


def _strength(card: ReviewCard) -> tuple[float, ...]:
    gravest = min(GRAVEST[part] for part in card.hint["modality"])
    copied = gravest < GRAVEST[Modality.NONE]
    agreed = card.hint["registration"].get("detail", 1.0 if copied else 0.0)
    return (SUREST[card.hint["relation"]], gravest, -agreed, -card.hint["similarity"])


def _doubt(card: ReviewCard) -> tuple[float, ...]:
    """Undecided pairs before those the tool is sure of, and the nearest call before the clear one."""
    relation = card.hint["relation"]
    detail = card.hint["registration"].get("detail", 1.0 if relation in COPIES else 0.0)
    return (relation != Relation.UNDECIDED, -detail if relation not in COPIES else detail)


def _stakes(cards: Sequence[ReviewCard], counts: Sequence[bool]) -> list[int]:
    """0: may overturn a claim. 1: may change how many pictures or items leaked. 2: changes no number.

    ``counts``: which cards are evidence of a leak as they are.
    """
    copies: Counter[tuple[str, str]] = Counter()
    for card, counted in zip(cards, counts, strict=True):
        if counted:
            copies.update(card.decides)
    leaked: dict[str, set[str]] = defaultdict(set)
    for corpus, picture in copies:
        leaked[corpus].add(picture)
    return [
        _stake(card, counted, copies, leaked) for card, counted in zip(cards, counts, strict=True)
    ]


def _stake(
    card: ReviewCard, counts: bool, copies: Counter[tuple[str, str]], leaked: dict[str, set[str]]
) -> int:
    stake = 2
    for corpus, picture in card.decides:
        others = copies[corpus, picture] - counts
        if others == 0:
            stake = min(stake, 0 if not leaked[corpus] - {picture} else 1)
    return stake


# Filters: what a rater may choose among. The tool's opinion is no filter of a blinded rater.


_BANDS = ((0.9, "0.9 and more"), (0.7, "0.7 to 0.9"), (-1.0, "below 0.7"))
BY_NOBODY, BY_ONE, AGREED, DISAGREED = (
    "by nobody",
    "by one rater",
    "raters agree",
    "raters disagree",
)


def filters_of(
    cards: Sequence[ReviewCard], verdicts: Mapping[str, Sequence[str]], *, blind: bool
) -> list[dict[str, Any]]:
    """Each with its name, its choices and, card by card, which of them hold. ``verdicts`` by subject."""
    columns: dict[str, list[list[str]]] = {
        "corpus": [sorted({corpus for corpus, _ in card.decides}) for card in cards]
    }
    if not blind:
        columns["relation"] = [_named(card, "relation") for card in cards]
        columns["similarity"] = [_band(card) for card in cards]
        columns["judged"] = [[_state(verdicts.get(card.subject, ()))] for card in cards]
    filters = []
    for name, values in columns.items():
        counts = Counter(value for mine in values for value in mine)
        choices = (
            sorted(counts) if name == "corpus" else [value for value, _ in counts.most_common()]
        )
        if len(choices) > 1:
            numbers = {value: place for place, value in enumerate(choices)}
            filters.append(
                {
                    "name": name,
                    "choices": [{"value": value, "cards": counts[value]} for value in choices],
                    "cards": [[numbers[value] for value in mine] for mine in values],
                }
            )
    return filters


def _named(card: ReviewCard, name: str) -> list[str]:
    return [str(card.hint[name])] if card.hint.get(name) else []


def _band(card: ReviewCard) -> list[str]:
    similarity = card.hint.get("similarity")
    if not isinstance(similarity, int | float):
        return []
    return [next(words for least, words in _BANDS if similarity >= least)]


def _state(verdicts: Sequence[str]) -> str:
    if len(verdicts) < 2:
        return BY_ONE if verdicts else BY_NOBODY
    return AGREED if len(set(verdicts)) == 1 else DISAGREED
