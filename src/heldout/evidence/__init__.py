"""One vocabulary of what leaked: relations of pictures, rungs of evidence, one table of leaks."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.evidence.leak_labels import (
        CLEAN,
        NOT_VERIFIED,
        LeakLabels,
        keep_leak_labels,
        kept_leak_labels,
        read_leak_labels,
    )
    from heldout.evidence.leaks import (
        LABEL_CONFLICTS,
        PEOPLE,
        REGISTRATION,
        ItemLeaks,
        Leak,
        copies_with_answer,
        evidence_of,
        join_leaks,
        leak_batches,
        leaks,
        leaks_of,
        undecided_because,
        undecided_words,
    )
    from heldout.evidence.rungs import OPEN, PICTURED, PROVEN, TO_READ, UNPROVEN_WORDS, Rung
    from heldout.evidence.text_kinds import KINDS, QUESTION_OTHER_IMAGE, count_kinds, text_kinds
    from heldout.evidence.unread import UNREAD, UnreadFiles, reading_of
    from heldout.overlap import (
        BY_DIGEST,
        CHANGED,
        COPIES,
        GRAVEST,
        IN_PART,
        POSSIBLE_COPIES,
        RECOLOURED,
        SUREST,
        TOO_PLAIN,
        TOO_SMALL,
        UNDECIDED_WORDS,
        Modality,
        Relation,
    )

__all__ = [
    "BY_DIGEST",
    "CHANGED",
    "CLEAN",
    "COPIES",
    "GRAVEST",
    "IN_PART",
    "KINDS",
    "LABEL_CONFLICTS",
    "NOT_VERIFIED",
    "OPEN",
    "PEOPLE",
    "PICTURED",
    "POSSIBLE_COPIES",
    "PROVEN",
    "QUESTION_OTHER_IMAGE",
    "RECOLOURED",
    "REGISTRATION",
    "SUREST",
    "TOO_PLAIN",
    "TOO_SMALL",
    "TO_READ",
    "UNDECIDED_WORDS",
    "UNPROVEN_WORDS",
    "UNREAD",
    "ItemLeaks",
    "Leak",
    "LeakLabels",
    "Modality",
    "Relation",
    "Rung",
    "UnreadFiles",
    "copies_with_answer",
    "count_kinds",
    "evidence_of",
    "join_leaks",
    "keep_leak_labels",
    "kept_leak_labels",
    "leak_batches",
    "leaks",
    "leaks_of",
    "read_leak_labels",
    "reading_of",
    "text_kinds",
    "undecided_because",
    "undecided_words",
]

__getattr__ = load_on_first_use(__name__, __file__)
