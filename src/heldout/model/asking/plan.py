"""Which variants to ask: what a person writes, ``original,rotation-all,shuffle-3,twin=OTHER``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heldout.errors import InputError

PLAIN = ("original", "no-image", "no-question", "confused-choices", "slot")
KNOWN = (
    *PLAIN, "rotation-K", "rotation-all", "shuffle-K", "twin=BENCH", "twin-NAME=BENCH",
    "slot-paraphrase", "slot-paraphrase=COLUMN",
)  # fmt: skip
_NUMBERED = re.compile(r"(rotation|shuffle)-(\d{1,3})(?:\.\.(\d{1,3}))?")
_TWIN = re.compile(r"(twin(?:-[\w.-]+)?)=(.+)")


@dataclass(frozen=True)
class Variant:
    """``name`` as it stands in the table, but for ``rotation-all``; ``source``: a twin's benchmark, or the
    column of a paraphrase, empty where a provider writes it."""

    name: str
    number: int | None = None
    source: str = ""


def parse_variants(text: str) -> list[Variant]:
    """The original always comes first: every variant is compared with it."""
    found: list[Variant] = [Variant("original")]
    for part in _parts(text):
        found += _one(part)
    made = list(dict.fromkeys(found))
    names = [variant.name for variant in made]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--variants: {name} is given twice; call one of them {name}-NAME=…")
    return made


def _parts(text: str) -> list[str]:
    """Split at commas, less those of a twin's own selection: twin=path#split=test,lang=en."""
    parts: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        own = "=" in part and not part.startswith(("twin", "slot"))
        if own and parts and "#" in parts[-1]:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _one(part: str) -> Sequence[Variant]:
    numbered, twin = _NUMBERED.fullmatch(part), _TWIN.fullmatch(part)
    if numbered is not None:
        first, last = int(numbered[2]), int(numbered[3] or numbered[2])
        if 1 <= first <= last:
            return [Variant(f"{numbered[1]}-{n}", n) for n in range(first, last + 1)]
    elif part in PLAIN or part == "rotation-all":
        return [Variant(part)]
    elif twin is not None:
        return [Variant(twin[1], source=twin[2])]
    elif part == "slot-paraphrase" or part.startswith("slot-paraphrase="):
        return [Variant("slot"), Variant("slot-paraphrase", source=part.partition("=")[2])]
    raise InputError(
        f"--variants: there is no variant '{part:.60}'; there are {', '.join(KNOWN)} (K counts from 1; "
        f"shuffle-1..3 are three shuffles)"
    )
