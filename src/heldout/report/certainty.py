"""How sure the copies are that a report counts: proven, verified with a measured precision, or believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from heldout.evidence import PICTURED
from heldout.report.environment import percent
from heldout.stats import binomial_interval

PRECISION_FILE = "registration-precision.json"


class Precision(BaseModel):
    """Of what registration alone calls a copy, on corpora whose leaks were planted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    command: str  # that counted it
    said: int  # pairs it called copies
    right: int  # those that were
    altered: int  # pictures of which one attribute was changed: no copies
    passed: int  # those that it called copies


def published() -> Precision:
    """What docs/leak-recall.md shows; its command makes the file again."""
    text = resources.files("heldout.report").joinpath("measured", PRECISION_FILE).read_text("utf-8")
    return Precision.model_validate_json(text)


def certainty(cells: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Digests prove, registration verifies, people are believed; and how often registration is right."""
    pictures = registered = believed = 0
    for cell in cells:
        here = sum(cell["evidence"].get(rung, 0) for rung in PICTURED)
        by_people = cell.get("by_people", 0)
        pictures += here
        believed += by_people
        # A verdict.json of an earlier version does not say it: then nothing is called proven.
        registered += cell.get("by_registration", here - by_people)
    proven = pictures - registered - believed
    if not registered and not believed:
        return f"Certain: every copy counted is proven by equal bytes or equal pixels. {_MORE}", ""
    kinds = (
        (proven, "proven (equal bytes or pixels)"),
        (registered, "verified (aligned detail agrees)"),
        (believed, "by people's word"),
    )
    message = ", ".join(f"{count:,} {how}" for count, how in kinds if count)
    return f"Items by their picture: {message}. {_MORE}", _measured(
        published()
    ) if registered else ""


def _measured(precision: Precision) -> str:
    interval = binomial_interval(precision.right, precision.said)
    around = f"{percent(interval.low)} – {percent(interval.high)}"
    return (
        f"What “verified” is worth (heldout lab leaks, rendered pictures): {precision.right:,} of {precision.said:,} "
        f"such pairs were copies (95 % interval {around}); of pictures with one attribute changed, "
        f"{precision.passed:,} of {precision.altered:,} passed for one."
    )


_MORE = "More may be there than were found."
