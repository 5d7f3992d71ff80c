"""Rungs: how much a match, or the strongest match of an item, proves."""

from __future__ import annotations

from enum import StrEnum


class Rung(StrEnum):
    """From what proves least up. The values stand in tables and files; comparisons go by the order here."""

    SIMILAR = "similar words"  # reworded, short or in part: people must read them
    WORDING = "question without its answer"  # anybody may ask the same
    NEAR = "look-alike"  # within the encoder's degrees, and registration finds no common view
    SOURCE_OVERLAP = "source overlap"  # registration: same view, other subject
    BESIDE_ANOTHER = "question and answer beside another picture"
    UNCOMPARED = "question and answer, pictures that could not be compared"
    UNDECIDED = "undecided near-duplicate"  # neither registration nor people decided
    TEXT = "question and answer without the image"
    COPY = "same image"  # or a transformed copy of it
    FULL = "same image and answer"  # and its question

    @property
    def height(self) -> int:
        return _HEIGHT[self]

    def __lt__(self, other: str) -> bool:
        return self.height < Rung(other).height

    def __le__(self, other: str) -> bool:
        return self.height <= Rung(other).height

    def __gt__(self, other: str) -> bool:
        return self.height > Rung(other).height

    def __ge__(self, other: str) -> bool:
        return self.height >= Rung(other).height

    def __neg__(self) -> int:
        """A key that sorts the highest rung first."""
        return -self.height


_HEIGHT = {rung: place for place, rung in enumerate(Rung)}
#: what a claim calls *survives*: nobody has to look again
PROVEN = frozenset({Rung.TEXT, Rung.COPY, Rung.FULL})
#: nobody knows whether these leaked, so they are neither leaked nor clean
OPEN = frozenset({Rung.UNCOMPARED, Rung.UNDECIDED})
#: the item's picture is in the corpus
PICTURED = frozenset({Rung.COPY, Rung.FULL})
#: a similar picture that is no proven copy
LOOK_ALIKES = frozenset({Rung.SOURCE_OVERLAP, Rung.NEAR})
#: words that prove nothing
UNPROVEN_WORDS = frozenset({Rung.SIMILAR, Rung.WORDING, Rung.BESIDE_ANOTHER, Rung.UNCOMPARED})
