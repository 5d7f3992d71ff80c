"""Fingerprints of many pictures: what one worker of an engine does."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeVar

from heldout.image import ImageError, ImageRef
from heldout.overlap.fingerprints.fingerprint import Fingerprint, fingerprint
from heldout.overlap.fingerprints.screening import Screened, screen

Found = TypeVar("Found")


def fingerprint_all(
    refs: Sequence[ImageRef], *, sizes: Container[tuple[int, int]] | None = None
) -> list[Fingerprint | ImageError]:
    """One result per picture, in order; a picture that cannot be read gives the reason instead."""
    return _each(refs, lambda data: fingerprint(data, sizes=sizes))


def screen_all(
    refs: Sequence[ImageRef], *, sizes: Container[tuple[int, int]] = ()
) -> list[Screened | ImageError]:
    """The same for ``screen``."""
    return _each(refs, lambda data: screen(data, sizes=sizes))


def _each(refs: Sequence[ImageRef], look: Callable[[bytes], Found]) -> list[Found | ImageError]:
    found: list[Found | ImageError] = []
    for ref in refs:
        try:
            found.append(look(ref.read()))
        except ImageError as error:
            found.append(error)
    return found
