"""Replies that no rule can read: nobody should take the accuracy they leave for the model's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from heldout.errors import counted

SHOWN = 5  # ids that are named
MANY = 0.5  # the share from which on an accuracy says more about the reading than about the model


class Reading(NamedTuple):
    """How one reply was read; ``options`` is how many options the question had."""

    benchmark_id: str
    reply: str
    outcome: str
    options: int


@dataclass(frozen=True)
class Unread:
    """Of ``asked`` replies: those that hold nothing, and those in which no answer was found.

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
        told = (
            f"{len(self.unparsed):,} of {counted(self.asked, _one(word), word)} could not be read as an "
            f"answer and count as not right: {_named(self.unparsed)}"
        )
        if self.places:
            told += (
                "; they are whole numbers from 0 on under keys that are letters: where they count the "
                "options, write 0 as A, 1 as B and so on"
            )
        return told

    def remarks(self, word: str = "replies", *, tell_empty: bool = True) -> list[str]:
        """What is to be known of a model's replies where most of them say nothing; else nothing."""
        if not self.many:
            return []
        told = [self.empty_sentence(word)] if self.empty and tell_empty else []
        return told + ([self.unparsed_sentence(word)] if self.unparsed else [])


def unread_of(readings: Iterable[Reading]) -> Unread:
    listed = list(readings)
    empty = [one.benchmark_id for one in listed if not one.reply.strip()]
    lost = [one for one in listed if one.outcome == "unparsed" and one.reply.strip()]
    places = bool(lost) and all(_is_place(one.reply.strip(), one.options) for one in lost)
    # Several draws or variants of an item are as many replies: an id may stand here more than once.
    return Unread(len(listed), tuple(empty), tuple(one.benchmark_id for one in lost), places)


def _is_place(text: str, options: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 3 and int(text) < options


def _one(word: str) -> str:
    return {"replies": "reply"}.get(word, word.removesuffix("s"))


def _named(ids: tuple[str, ...]) -> str:
    listed = list(dict.fromkeys(ids))
    return ", ".join(listed[:SHOWN]) + (" …" if len(listed) > SHOWN else "")
