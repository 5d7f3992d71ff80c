"""Policies: which leaked items a clean split leaves out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heldout.evidence import PICTURED, PROVEN, UNPROVEN_WORDS, ItemLeaks, Leak, Rung
from heldout.settings import Settings

_REMOVES: Mapping[str, frozenset[Rung]] = {
    "proven": PROVEN,
    "same-image": PICTURED,
    "soft": PROVEN | {Rung.LOOK_ALIKE, Rung.UNDECIDED},
    "full": frozenset({Rung.FULL}),
    "down-weight": frozenset(),
}
DOUBTFUL = 0.5  # the weight of a doubtful item: a convention, not an estimate


class PolicyName(StrEnum):
    """Which leaked items a clean split leaves out."""

    PROVEN = "proven"
    SAME_IMAGE = "same-image"
    SOFT = "soft"
    FULL = "full"
    DOWN_WEIGHT = "down-weight"


class SanitizeSettings(Settings):
    """Settings of ``heldout sanitize``."""

    policy: PolicyName = PolicyName.PROVEN
    """``proven``: remove what is confirmed: items with a copy of their image, or with question and answer
    word for word. ``same-image``: only items whose image leaked. ``soft``: what is proven, look-alikes
    within the encoder's degrees and undecided images. ``full``: only items that leaked with image, question and answer,
    the question in other words, too, or possibly. ``down-weight``: remove nothing, write weights."""
    strict: bool = False
    """Undecided matches count as copies."""
    whole_clusters: bool = False
    """Remove all items that share an image or patient with a removed one."""
    text: bool = False
    """Also remove items whose words leaked without their answer; with ``soft``, reworded and short ones,
    too."""
    weight: Annotated[float, Field(ge=0, le=1)] | None = None
    """Weight of doubtful items under ``down-weight``; default: 0.5."""
    stratify: str | None = None
    """Column whose shares every new split keeps."""
    seed: int = 0
    """Another seed makes other new splits."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.weight is not None and self.policy is not PolicyName.DOWN_WEIGHT:
            raise ValueError(
                f"weight {self.weight:g}: the policy {self.policy} removes items whole; choose "
                f"down-weight with the setting policy, or leave weight out"
            )
        return self

    @property
    def removal(self) -> Policy:
        weight = DOUBTFUL if self.weight is None else self.weight
        return Policy(self.policy.value, self.strict, self.whole_clusters, self.text, weight)


SHARES_CLUSTER = "shares its image or patient with a removed item"
SHARES_ENTRY = "stands in one entry of the file with a removed item"


@dataclass(frozen=True)
class Policy:
    name: str = "proven"
    strict: bool = False  # undecided matches count as copies
    # items that share an image or a patient with a removed one are removed, too
    whole_clusters: bool = False
    text: bool = False  # words that leaked without their answer count, too
    weight: float = DOUBTFUL  # of a doubtful item, when down-weighting

    @property
    def removes(self) -> frozenset[Rung]:
        removed = set(_REMOVES[self.name])
        if self.name != "down-weight":
            removed |= {Rung.UNDECIDED} if self.strict else set()
            removed |= {Rung.TEXT, Rung.WORDING} if self.text else set()
            removed |= UNPROVEN_WORDS if self.text and self.name == "soft" else set()
        return frozenset(removed)


POSSIBLY_REWORDED = "image and answer leaked, the question possibly in other words"
NOT_COMPARED = "kept: its picture could not be compared"


@dataclass(frozen=True)
class Decision:
    """What happens to one item, and why; ``leak`` is the gravest match behind it."""

    benchmark_id: str
    action: Literal["keep", "list", "remove"]
    reason: str = ""
    leak: Leak | None = None
    matches: int = 0
    because_of: str = ""  # the item it goes with, where it has no match of its own
    weight: float = 1.0


def decide(
    ids: Sequence[str],
    clusters: Sequence[str],
    entries: Sequence[object],
    leaks: Mapping[str, ItemLeaks],
    policy: Policy,
    *,
    unread: Collection[str] = (),
) -> list[Decision]:
    """One decision per item. ``entries``: which items cannot be separated in the file.

    ``unread`` items show a picture that could not be compared: they are kept unless something else removes
    them, and listed.
    """
    decisions = [
        Decision(identifier, "list", NOT_COMPARED)
        if identifier in unread and identifier not in leaks
        else _alone(identifier, leaks.get(identifier), policy)
        for identifier in ids
    ]
    if policy.whole_clusters:
        decisions = _together(decisions, clusters, SHARES_CLUSTER)
    return _together(decisions, entries, SHARES_ENTRY)


def _alone(identifier: str, item_leaks: ItemLeaks | None, policy: Policy) -> Decision:
    if item_leaks is None:
        return Decision(identifier, "keep")
    removed = [leak for leak in item_leaks.leaks if leak.rung in policy.removes and leak.graded]
    possible = item_leaks.possible_rewordings if policy.name == "full" and not removed else []
    if possible:  # an item too many costs a clean split less than one that a model has seen
        leak = ItemLeaks(possible).gravest
        return Decision(identifier, "remove", POSSIBLY_REWORDED, leak, item_leaks.matches)
    action: Literal["list", "remove"] = "remove" if removed else "list"
    leak = ItemLeaks(removed).gravest if removed else item_leaks.gravest
    reason = f"kept: {leak.reason}" if not removed and leak.rung in UNPROVEN_WORDS else leak.reason
    weight = 1.0
    if policy.name == "down-weight":
        proven = any(leak.rung in PROVEN for leak in item_leaks.leaks)
        innocent = leak.rung in UNPROVEN_WORDS or not leak.graded
        weight = 0.0 if proven else 1.0 if innocent else policy.weight
    return Decision(identifier, action, reason, leak, item_leaks.matches, weight=weight)


def _together(
    decisions: Sequence[Decision], groups: Sequence[object], reason: str
) -> list[Decision]:
    """Items of a group with a removed item are removed with it."""
    first: dict[object, str] = {}
    for decision, group in zip(decisions, groups, strict=True):
        if decision.action == "remove":
            first.setdefault(group, decision.benchmark_id)
    return [
        Decision(
            decision.benchmark_id,
            "remove",
            reason,
            decision.leak,
            decision.matches,
            because_of=first[group],
        )
        if group in first and decision.action != "remove"
        else decision
        for decision, group in zip(decisions, groups, strict=True)
    ]
