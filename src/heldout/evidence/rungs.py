"""Rungs: how much a match, or the strongest match of an item, proves."""

from __future__ import annotations

from enum import StrEnum


class Rung(StrEnum):
    """From the weakest proof up. The values are written to tables and files; comparisons use the order here."""

    SIMILAR = "similar words"  # reworded, short or in part: people must read them
    WORDING = "question without its answer"  # many people may ask the same
    LOOK_ALIKE = "look-alike"  # a similar picture that is no proven copy: it may still be one
    SOURCE_OVERLAP = "source overlap"  # a source with a name: article, study, patient, file
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
#: proven: these make a claim *survive*
PROVEN = frozenset({Rung.TEXT, Rung.COPY, Rung.FULL})
#: not known whether these leaked, so they are neither leaked nor clean
OPEN = frozenset({Rung.UNCOMPARED, Rung.UNDECIDED})
#: the item's picture is in the corpus
PICTURED = frozenset({Rung.COPY, Rung.FULL})
#: words like the item's own: whether they are, people have to read
TO_READ = frozenset({Rung.SIMILAR, Rung.WORDING})
#: words that prove nothing
UNPROVEN_WORDS = TO_READ | {Rung.BESIDE_ANOTHER, Rung.UNCOMPARED}
