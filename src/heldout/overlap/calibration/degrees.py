"""Hard, soft or none: what a similarity is called, for the encoder it was measured with.

A cosine of .95 is a near copy for one encoder and any two radiographs for another. The table holds
what was measured; an encoder outside it gets its degrees from a null of its own, or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from heldout.errors import InputError
from heldout.overlap.calibration.threshold import Threshold

Degree = Literal["hard", "soft", "none"]


class Degrees(NamedTuple):
    """Hard from ``hard`` on, soft from ``soft`` on; ``encoder`` is an identity or its beginning."""

    encoder: str
    hard: float
    soft: float
    basis: str


class Graded(NamedTuple):
    degree: Degree
    reason: str


_FLICKR = (
    "measured for CLIP ViT-B/32 on photographs (Flickr30k: false-positive rate 0 and 2e-7); "
    "other domains, radiographs above all, lie closer together: calibrate there"
)

_RADIOGRAPHS = (
    "measured for pixels on radiographs (bench/degrees.py): no two pictures of different origin of "
    "456,462 pairs reach .52, no two slices of one study .6; blurred and strongly compressed copies "
    "may lie below either"
)

# Encoder identity prefix → degrees. A line is added with the measurement it stands on, never by
# analogy with another encoder.
DEGREES: Mapping[str, Degrees] = MappingProxyType(
    {
        prefix: Degrees(prefix, 0.98, 0.95, _FLICKR)
        for prefix in (
            "transformers:openai/clip-vit-base-patch32",
            "open_clip:ViT-B-32/openai",
            "open_clip:ViT-B-32-quickgelu/openai",
        )
    }
    | {"pixels-2": Degrees("pixels-2", 0.6, 0.52, _RADIOGRAPHS)}
)


def degrees_of(encoder: str, calibrated: Degrees | None = None) -> Degrees | None:
    """The calibrated degrees if there are any, else the table's, else nothing."""
    if calibrated is not None:
        if calibrated.encoder != encoder:
            raise InputError(
                f"degrees calibrated for encoder '{calibrated.encoder}' cannot grade similarities "
                f"of '{encoder}': calibrate on a null of that encoder"
            )
        return calibrated
    known = [prefix for prefix in DEGREES if _begins(encoder, prefix)]
    return DEGREES[max(known, key=len)] if known else None


def degree(similarity: float, encoder: str, *, calibrated: Degrees | None = None) -> Graded:
    """The degree of one match, with the reason it is called so."""
    degrees = degrees_of(encoder, calibrated)
    if degrees is None:
        reason = (
            f"no degrees were measured for encoder '{encoder}' and those of another do not carry "
            f"over: calibrate on a null, or let registration decide"
        )
        return Graded("none", reason)
    if math.isnan(similarity):
        raise InputError("a similarity is not a number: drop pictures without an embedding first")
    for name, bound in (("hard", degrees.hard), ("soft", degrees.soft)):
        if similarity >= bound:
            return Graded("hard" if name == "hard" else "soft", f"≥ {bound:.4g}; {degrees.basis}")
    return Graded("none", f"< {degrees.soft:.4g}; {degrees.basis}")


def calibrated_degrees(hard: Threshold, soft: Threshold) -> Degrees:
    """Degrees from two thresholds of one null, the stricter one for *hard*."""
    if hard.encoder != soft.encoder:
        raise InputError(
            f"hard was calibrated for '{hard.encoder}', soft for '{soft.encoder}': use one encoder"
        )
    if hard.alpha >= soft.alpha:
        raise InputError(
            f"the hard degree needs the smaller alpha, got hard {hard.alpha:g}, soft {soft.alpha:g}"
        )
    basis = (
        f"exceeded by {hard.alpha:g} (hard) and {soft.alpha:g} (soft) of {hard.n:,} different "
        f"pictures: {hard.source}"
    )
    # A threshold is exceeded strictly, a degree is reached: the next number above joins the two.
    return Degrees(
        hard.encoder, math.nextafter(hard.value, 2.0), math.nextafter(soft.value, 2.0), basis
    )


def _begins(encoder: str, prefix: str) -> bool:
    """Whole words only: clip-vit-base-patch32 is not the beginning of clip-vit-base-patch320."""
    rest = encoder.removeprefix(prefix)
    return encoder.startswith(prefix) and (not rest or not (rest[0].isalnum() or rest[0] in "-_"))
