"""Dropped: one thing that was left out, and why. Nothing is ever left out without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from heldout.store.schema import make_table

OUT_OF_MEMORY = "out of memory"
WORKER_DIED = "killed its worker"
FAILED = "cannot be processed"  # an error that no reader or decoder expects
# Reasons that may be gone when the same command is given again: its shard is then done anew.
MAY_PASS = frozenset({"missing image", OUT_OF_MEMORY, WORKER_DIED})


@dataclass(frozen=True, slots=True)
class Dropped:
    stage: str  # where it was left out: benchmark, corpus, overlap, …
    id: str  # what a person would search for: an item id, a file, a row
    reason: str  # few, stable words, so that reasons can be counted
    detail: str  # the facts of this case
    #: what is lost: one item, nobody knows how many (a cut archive), or words beside a kept image
    scope: Literal["item", "many", "words"] = "item"


def dropped_table(dropped: Iterable[Dropped]) -> Any:
    return make_table(
        "dropped",
        [{"stage": d.stage, "id": d.id, "reason": d.reason, "detail": d.detail} for d in dropped],
    )
