"""A request as the numbers a model reads, and the pictures' part that its group shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """``scored``: places in ``ids`` (or in ``reply``, which an encoder–decoder writes after reading
    ``ids``) whose tokens are scored. ``instruction`` is the prompt as a Q-Former reads it."""

    ids: tuple[int, ...]
    scored: tuple[int, ...]
    tokens: tuple[str, ...]
    span_ok: bool
    reply: tuple[int, ...] = ()
    instruction: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.ids) + len(self.reply)

    @property
    def targets(self) -> list[int]:
        source = self.reply or self.ids
        return [source[place] for place in self.scored]


@dataclass(frozen=True)
class Features:
    """The pictures of a group as tensors; ``types`` names the input that marks the places they take,
    ``marked`` the tokens at those places."""

    tensors: Mapping[str, Any] = field(default_factory=dict)
    types: str | None = None
    marked: frozenset[int] = frozenset()
