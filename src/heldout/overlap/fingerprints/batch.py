"""Fingerprints of many pictures: what one worker of an engine does."""

from __future__ import annotations

from collections.abc import Container, Sequence

from heldout.image import ImageError, ImageRef
from heldout.overlap.fingerprints.fingerprint import Fingerprint, fingerprint


def fingerprint_all(
    refs: Sequence[ImageRef], *, sizes: Container[tuple[int, int]] | None = None
) -> list[Fingerprint | ImageError]:
    """One result per picture, in order; a picture that cannot be read gives the reason instead."""
    found: list[Fingerprint | ImageError] = []
    for ref in refs:
        try:
            found.append(fingerprint(ref.read(), sizes=sizes))
        except ImageError as error:
            found.append(error)
    return found
