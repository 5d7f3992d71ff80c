"""In which order pairs come: strongest evidence first, or first what could change a claim."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from heldout.review.card import Card

EVIDENCE, CLAIMS, SHUFFLED, LISTED = "evidence", "claims", "shuffled", "listed"
ORDERS = {
    EVIDENCE: "strongest evidence first",
    CLAIMS: "what could change a claim first",
    SHUFFLED: "shuffled for you",
    LISTED: "as listed",
}
_SUREST = {"same image": 0, "transformed copy": 1, "undecided": 2, "same view, other subject": 3}
_WORST = {"full": 0, "image and question": 1, "image only": 2}
_COPIES = ("same image", "transformed copy")


def match_orders(cards: Sequence[Card]) -> dict[str, list[int]]:
    indices = range(len(cards))
    stakes = _stakes(cards)
    return {
        EVIDENCE: sorted(indices, key=lambda index: (_strength(cards[index]), index)),
        CLAIMS: sorted(indices, key=lambda index: (stakes[index], _doubt(cards[index]), index)),
    }


def shuffled(cards: Sequence[Card], rater: str) -> dict[str, list[int]]:
    """For a blinded rater: an order by the tool's certainty would tell what the tool thinks."""

    def place(index: int) -> str:
        return hashlib.sha256(f"{rater}\n{cards[index].subject}".encode()).hexdigest()

    return {SHUFFLED: sorted(range(len(cards)), key=place)}


def as_listed(cards: Sequence[Card]) -> dict[str, list[int]]:
    return {LISTED: list(range(len(cards)))}


def _strength(card: Card) -> tuple[float, ...]:
    worst = min(_WORST.get(one, 3) for one in card.hint["modality"])
    agreed = card.hint["registration"].get("detail", 1.0 if worst < 3 else 0.0)
    return (_SUREST.get(card.hint["relation"], 4), worst, -agreed, -card.hint["similarity"])


def _doubt(card: Card) -> tuple[float, ...]:
    """Undecided pairs before those the tool is sure of, and the nearest call before the clear one."""
    relation = card.hint["relation"]
    detail = card.hint["registration"].get("detail", 1.0 if relation in _COPIES else 0.0)
    return (relation != "undecided", -detail if relation not in _COPIES else detail)


def _stakes(cards: Sequence[Card]) -> list[int]:
    """0: may turn a claim over. 1: may change how many pictures leaked. 2: changes no number."""
    copies: Counter[tuple[str, str]] = Counter()
    for card in cards:
        if card.hint["relation"] in _COPIES:
            copies.update(card.decides)
    leaked: dict[str, set[str]] = defaultdict(set)
    for corpus, picture in copies:
        leaked[corpus].add(picture)
    return [_stake(card, copies, leaked) for card in cards]


def _stake(card: Card, copies: Counter[tuple[str, str]], leaked: dict[str, set[str]]) -> int:
    is_copy = card.hint["relation"] in _COPIES
    stake = 2
    for corpus, picture in card.decides:
        others = copies[corpus, picture] - is_copy
        if others == 0:
            stake = min(stake, 0 if not leaked[corpus] - {picture} else 1)
    return stake
