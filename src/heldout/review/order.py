"""In which order pairs come: strongest evidence first, or first what could change a claim."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from heldout.evidence import BY_DIGEST, COPIES, GRAVEST, SUREST, Modality, Relation
from heldout.review.card import Card

EVIDENCE, CLAIMS, SHUFFLED, LISTED = "evidence", "claims", "shuffled", "listed"
ORDERS = {
    EVIDENCE: "strongest evidence first",
    CLAIMS: "what could change a claim first",
    SHUFFLED: "shuffled for you",
    LISTED: "as listed",
}
_DEGREES = ("hard", "soft", "none")


def match_orders(cards: Sequence[Card]) -> dict[str, list[int]]:
    indices = range(len(cards))
    copies = [card.hint["relation"] in COPIES for card in cards]
    stakes = [
        2 if card.hint["method"] in BY_DIGEST else stake  # a copy whatever people say
        for card, stake in zip(cards, _stakes(cards, copies), strict=True)
    ]
    return {
        EVIDENCE: sorted(indices, key=lambda index: (_strength(cards[index]), index)),
        CLAIMS: sorted(indices, key=lambda index: (stakes[index], _doubt(cards[index]), index)),
    }


def text_orders(cards: Sequence[Card]) -> dict[str, list[int]]:
    """As for pictures; what counts (a degree) stands where a copy stands there."""
    indices = range(len(cards))
    stakes = _stakes(cards, [card.hint["degree"] != "none" for card in cards])
    return {
        EVIDENCE: sorted(indices, key=lambda index: (_worth(cards[index]), index)),
        CLAIMS: sorted(
            # Of equal stakes first what proves nothing as it is: a word may make or break it.
            indices,
            key=lambda index: (stakes[index], cards[index].hint["degree"] != "soft", index),
        ),
    }


def _worth(card: Card) -> tuple[float, ...]:
    hint = card.hint
    return (_DEGREES.index(hint["degree"]), hint["answer"] != "same", -hint["similarity"])


def shuffled(cards: Sequence[Card], rater: str) -> dict[str, list[int]]:
    """For a blinded rater: an order by the tool's certainty would tell what the tool thinks."""

    def place(index: int) -> str:
        return hashlib.sha256(f"{rater}\n{cards[index].subject}".encode()).hexdigest()

    return {SHUFFLED: sorted(range(len(cards)), key=place)}


def as_listed(cards: Sequence[Card]) -> dict[str, list[int]]:
    return {LISTED: list(range(len(cards)))}


def _strength(card: Card) -> tuple[float, ...]:
    gravest = min(GRAVEST[one] for one in card.hint["modality"])
    copied = gravest < GRAVEST[Modality.NONE]
    agreed = card.hint["registration"].get("detail", 1.0 if copied else 0.0)
    return (SUREST[card.hint["relation"]], gravest, -agreed, -card.hint["similarity"])


def _doubt(card: Card) -> tuple[float, ...]:
    """Undecided pairs before those the tool is sure of, and the nearest call before the clear one."""
    relation = card.hint["relation"]
    detail = card.hint["registration"].get("detail", 1.0 if relation in COPIES else 0.0)
    return (relation != Relation.UNDECIDED, -detail if relation not in COPIES else detail)


def _stakes(cards: Sequence[Card], counts: Sequence[bool]) -> list[int]:
    """0: may turn a claim over. 1: may change how many pictures or items leaked. 2: changes no number.

    ``counts`` says which cards speak for a leak as it is.
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
    card: Card, counts: bool, copies: Counter[tuple[str, str]], leaked: dict[str, set[str]]
) -> int:
    stake = 2
    for corpus, picture in card.decides:
        others = copies[corpus, picture] - counts
        if others == 0:
            stake = min(stake, 0 if not leaked[corpus] - {picture} else 1)
    return stake
