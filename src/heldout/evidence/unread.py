"""What a search did not read: one ledger by kind, for summaries, claims and gates alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from heldout.errors import counted
from heldout.store import UNREAD as FILES

# Above this share of the benchmark's size, what was not read may hold more of it than the eye passes over.
UNREAD = 0.01
ITEMS = "items"  # the kind of single rows and pictures that are damaged


@dataclass(frozen=True)
class UnreadFiles:
    """``kinds``: files that no reader took, or that were read in part, by their ending or what they are; ``items``:
    single rows and pictures that could not be read; ``of``: items of the benchmark."""

    kinds: Mapping[str, int]
    items: int
    of: int

    @classmethod
    def of_scan(cls, scanned: Mapping[str, Any], lost: str = "lost_items") -> UnreadFiles:
        """Of a manifest's record of one corpus, less the kinds that the user allowed. ``lost``: what counts items."""
        counts, allowed = scanned["counts"], scanned.get("allow_unread", ())
        kinds = {
            key.removeprefix(FILES): int(count)
            for key, count in sorted(counts.items())
            if key.startswith(FILES) and count
        }
        kept = {kind: count for kind, count in kinds.items() if kind not in allowed}
        items = 0 if ITEMS in allowed else int(counts.get(lost, 0))
        return cls(kept, items, int(scanned.get("benchmark_items", 0)))

    @property
    def matters(self) -> bool:
        """May the benchmark lie in it?"""
        return bool(self.kinds) or self.items > UNREAD * self.of

    def sentence(self) -> str:
        """What was not read, for people; empty where all was."""
        parts = []
        if self.kinds:
            files = counted(sum(self.kinds.values()), "file", "files")
            listed = ", ".join(f"{count:,} {kind}" for kind, count in self.kinds.items())
            parts.append(f"{files} could not be read, or not in whole: {listed}")
        if self.items:
            parts.append(f"{counted(self.items, 'item', 'items')} could not be read")
        return "; ".join(parts)

    def advice(self) -> str:
        """What to do about it."""
        kinds = (*self.kinds, *([ITEMS] if self.items else []))
        allowed = " ".join(f"the setting allow_unread {_quoted(kind)}" for kind in kinds)
        return f"convert or remove what could not be read, or accept it: {allowed}"


def reading_of(manifest: Mapping[str, Any], allowed: Collection[str] = ()) -> dict[str, Any]:
    """What every record of a scan needs to be read as UnreadFiles."""
    known = manifest["inputs"].get("benchmark") or {}
    return {
        "benchmark_items": known.get("items", 0),
        "allow_unread": [*manifest.get("reading", {}).get("allow_unread", ()), *allowed],
    }


def _quoted(kind: str) -> str:
    return f"'{kind}'" if " " in kind else kind
