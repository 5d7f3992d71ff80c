"""How sure the copies are that a report counts: proven, verified with a measured precision, or believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from heldout.errors import percent
from heldout.evidence import PICTURED
from heldout.stats import binomial_interval

PRECISION_FILE = "registration-precision.json"
_MORE = "There may be more copies than were found."
_VERIFIED = "verified (aligned detail agrees)"
_NOT_MEASURED = (
    "How often “verified” is right was not measured on pictures like these: look at some of the pairs below, "
    "or have two people judge them (heldout review)."
)


class CopyPrecision(BaseModel):
    """Of what registration alone calls a copy, on corpora whose leaks were planted.

    It holds for pictures like those, and is quoted for no others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    command: str  # that counted it
    said: int  # pairs it called copies
    right: int  # those that were
    altered: int  # pictures of which one attribute was changed: no copies
    passed: int  # those that it called copies


def published() -> CopyPrecision:
    """What docs/measured/transforms.md shows; its command makes the file again."""
    text = resources.files("heldout.report").joinpath("measured", PRECISION_FILE).read_text("utf-8")
    return CopyPrecision.model_validate_json(text)


def certainty(cells: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """How sure the counted copies are: proven by digests, verified by registration, or by people's word; and
    the measured precision of registration, if it was measured on such pictures (those that heldout renders)."""
    kinds = kinds_of_proof(cells)
    _, registered, believed = kinds.values()
    # A rate that was measured on rendered pictures holds for no others.
    rendered = all(
        cell.get("rendered", False) or not kinds_of_proof([cell])[_VERIFIED] for cell in cells
    )
    if not registered and not believed:
        return f"Certain: every copy counted is proven by equal bytes or equal pixels. {_MORE}", ""
    hit = [cell for cell in cells if sum(kinds_of_proof([cell]).values())]
    message = _counted(kinds)
    if len(hit) > 1:
        # One item can be in several corpora: its kinds of proof are not added up.
        message = "; ".join(
            f"{_counted(kinds_of_proof([cell]))} in {cell['corpus']}" for cell in hit
        )
    if not registered:
        return f"Items by their picture: {message}. {_MORE}", ""
    measured = _measured(published()) if rendered else _NOT_MEASURED
    return f"Items by their picture: {message}. {_MORE}", measured


def _counted(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {how}" for how, count in kinds.items() if count)


def _measured(precision: CopyPrecision) -> str:
    interval = binomial_interval(precision.right, precision.said)
    around = f"{percent(interval.low)} – {percent(interval.high)}"
    return (
        f"What “verified” is worth (heldout lab leaks, rendered pictures): {precision.right:,} of {precision.said:,} "
        f"such pairs were copies (95 % interval {around}); false matches on near-identical decoys: "
        f"{precision.passed:,} of {precision.altered:,}."
    )


def kinds_of_proof(cells: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Leaked items by what shows that their picture is a copy."""
    pictures = registered = believed = 0
    for cell in cells:
        here = sum(cell["evidence"].get(rung, 0) for rung in PICTURED)
        pictures += here
        believed += cell.get("by_people", 0)
        # A verdict.json of an earlier version does not have it: then nothing is called proven.
        registered += cell.get("by_registration", here - cell.get("by_people", 0))
    return {
        "proven (equal bytes or pixels)": pictures - registered - believed,
        _VERIFIED: registered,
        "by people's word": believed,
    }


def false_alarms(controls: Sequence[Mapping[str, Any]]) -> str:
    """How often the tests that speak against a model fired on clean ones, by their lab controls."""
    reasons = dict.fromkeys(control["reason"] for control in controls)
    return "; ".join(reasons) or "how often they fire on clean models was not measured"


def false_alarms_in_brief(controls: Sequence[Mapping[str, Any]]) -> str:
    """The same for a card, which has few words: the lower end of the interval stands with the claim."""
    measured = [control.get("false_alarms") for control in controls]
    counts = dict.fromkeys(
        f"{alarms['detector']} {alarms['clean']['fired']} of {alarms['clean']['n']} "
        f"(rate up to {percent(alarms['clean']['high'], 0)})"
        for alarms in measured
        if alarms is not None
    )
    if not counts:
        return false_alarms(controls)
    return f"false alarms on small models trained without it: {', '.join(counts)}"
