"""Policies: which leaked items a clean split is made without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from heldout.cure.leaks import REASONS, Grade, ItemLeaks, Leak

POLICIES = ("same-image", "soft", "full", "down-weight")
_COPIES = frozenset({Grade.COPY, Grade.FULL})
_SOFT = frozenset({Grade.NEAR, Grade.UNDECIDED})
_REMOVES: Mapping[str, frozenset[Grade]] = {
    "same-image": _COPIES,
    "soft": _COPIES | _SOFT,
    "full": frozenset({Grade.FULL}),
    "down-weight": frozenset(),
}
SHARES_CLUSTER = "shares its image or patient with a removed item"
SHARES_ENTRY = "stands in one entry of the file with a removed item"


@dataclass(frozen=True)
class Policy:
    name: str = "same-image"
    strict: bool = False  # undecided matches count as copies
    whole_clusters: bool = False  # an item takes those along that share its image or patient
    text: bool = False  # text that leaked without its image counts, too
    weight: float = 0.5  # of a doubtful item, when down-weighting

    @property
    def removes(self) -> frozenset[Grade]:
        strict = {Grade.UNDECIDED} if self.strict and self.name != "down-weight" else set()
        text = {Grade.TEXT} if self.text and self.name != "down-weight" else set()
        return _REMOVES[self.name] | strict | text


@dataclass(frozen=True)
class Decision:
    """What happens to one item, and why; ``leak`` is the gravest match that speaks for it."""

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
) -> list[Decision]:
    """One decision per item. ``entries`` tells which items cannot be parted in the file."""
    decisions = [_alone(identifier, leaks.get(identifier), policy) for identifier in ids]
    if policy.whole_clusters:
        decisions = _together(decisions, clusters, SHARES_CLUSTER)
    return _together(decisions, entries, SHARES_ENTRY)


def _alone(identifier: str, found: ItemLeaks | None, policy: Policy) -> Decision:
    if found is None:
        return Decision(identifier, "keep")
    leak = found.gravest
    removed = [one for one in found.leaks if one.grade in policy.removes]
    action: Literal["list", "remove"] = "remove" if removed else "list"
    weight = 1.0
    if policy.name == "down-weight":
        weight = 0.0 if leak.grade in _COPIES else policy.weight if leak.grade > Grade.TEXT else 1.0
    return Decision(identifier, action, REASONS[leak.grade], leak, len(found.leaks), weight=weight)


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
