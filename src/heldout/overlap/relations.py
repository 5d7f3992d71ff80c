"""How two pictures relate: the words that the column ``relation`` of the table matches holds."""

from __future__ import annotations

from enum import StrEnum


class Relation(StrEnum):
    """From the surest copy down."""

    SAME_IMAGE = "same image"
    TRANSFORMED_COPY = "transformed copy"
    UNDECIDED = "undecided"
    OTHER_SUBJECT = "same view, other subject"
    OTHER_VIEW = "same source, other view"  # only people say this
    UNRELATED = "unrelated"


#: relations that make a picture a leaked one
COPIES = frozenset({Relation.SAME_IMAGE, Relation.TRANSFORMED_COPY})
#: relations of a picture that is, or may be, a copy
POSSIBLE_COPIES = COPIES | {Relation.UNDECIDED}
#: methods that prove a copy: an eye that sees none is mistaken
BY_DIGEST = ("bytes", "pixels")
#: for sorting: the surest first
SUREST: dict[str, int] = {relation: place for place, relation in enumerate(Relation)}
