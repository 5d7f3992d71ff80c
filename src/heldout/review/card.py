"""Card: one thing a person judges, split into what everybody may see and what a blinded rater may not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from heldout.overlap import RELATIONS, TEXT_RELATIONS
from heldout.review.pictures import Picture
from heldout.store import ITEM, MATCH, TEXT, TWIN

Kind = Literal["matches", "texts", "twins", "items"]
KINDS: dict[Kind, str] = {"matches": MATCH, "texts": TEXT, "twins": TWIN, "items": ITEM}


@dataclass(frozen=True)
class Card:
    """``subject`` depends on the data alone, so that a judgement outlives the run that asked for it."""

    subject: str
    cluster: str  # cards of one benchmark picture are not independent
    told: Mapping[str, Any]
    hint: Mapping[str, Any]  # what the tool thinks: kept from a blinded rater
    pictures: Mapping[str, Picture] = field(default_factory=dict)  # by side, in the order shown
    decides: tuple[tuple[str, str], ...] = ()  # corpora and pictures whose leak a match decides


@dataclass(frozen=True)
class Verdict:
    value: str  # as it stands in the log
    key: str  # on the keyboard
    label: str
    help: str


@dataclass(frozen=True)
class Scale:
    name: str  # as it stands in the log
    label: str
    help: str


@dataclass(frozen=True)
class Form:
    """What can be said of a card: one of the verdicts, and a number from 1 to 4 on every scale."""

    verdicts: tuple[Verdict, ...]
    scales: tuple[Scale, ...] = ()


_MATCH_HELP = (
    "the same picture: nothing was changed but the file",
    "the same picture, cropped, turned, resized, recoloured or re-compressed",
    "the same subject or study, but another shot, slice or moment",
    "the same kind of view of somebody or something else",
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
            Verdict(value, str(number), value[0].upper() + value[1:], help)
            for number, (value, help) in enumerate(zip(values, messages, strict=True), 1)
        )
    )


MATCH_FORM = _numbered(RELATIONS, _MATCH_HELP)
TEXT_FORM = _numbered(TEXT_RELATIONS, _TEXT_HELP)
TWIN_FORM = Form(
    (
        Verdict(
            "keep", "1", "Keep", "the new picture makes the new answer right and is answerable"
        ),
        Verdict("reject", "2", "Reject", "the new answer is wrong, or the picture is broken"),
    )
)
# The four scales of MedVLSynther (Appendix G.1), worded for any field: 4 is excellent, 1 is poor.
SCALES = (
    Scale(
        "correctness",
        "Correctness",
        "by what is known in its field, is the keyed answer right, and the only right one?",
    ),
    Scale("clarity", "Clarity and wording", "clear, professional, without a hint of the answer?"),
    Scale("grounding", "Image grounding", "does it take the picture to answer?"),
    Scale("options", "Option design", "alike in form, mutually exclusive, plausible?"),
)
ITEM_FORM = Form(
    (
        Verdict("accept", "a", "Accept", "fit for use"),
        Verdict("reject", "r", "Reject", "not fit for use"),
    ),
    SCALES,
)
FORMS: dict[Kind, Form] = {
    "matches": MATCH_FORM,
    "texts": TEXT_FORM,
    "twins": TWIN_FORM,
    "items": ITEM_FORM,
}
