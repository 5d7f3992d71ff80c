"""Every kind of planted leak and every decoy, with what should be found and how often it is planted.

The shares add up to one, so that each picture of a benchmark leaks once, in one way.
"""

from __future__ import annotations

from heldout.scenes import leaked_pictures as pictures
from heldout.scenes import leaked_words as words
from heldout.scenes.leaks import BYTES, EXACT, NEAR, PIXELS, REWORDED, LeakKind, Make

LEAK, BLIND, DECOY = "leak", "blind spot", "decoy"
_PICTURE, _WORD = 1 / 20, 1 / 30


def _exact(name: str, by: str, words: str | None, label: str | None, make: Make) -> LeakKind:
    return LeakKind(name, LEAK, by, words, label, _PICTURE, make)


def _near(name: str, make: Make) -> LeakKind:
    return LeakKind(name, BLIND, NEAR, None, None, _PICTURE, make)


def _words(name: str, by: str, make: Make) -> LeakKind:
    return LeakKind(name, BLIND, None, by, "same", _WORD, make)


def _decoy(name: str, share: float, make: Make) -> LeakKind:
    return LeakKind(name, DECOY, None, None, None, share, make)


# fmt: off
KINDS: tuple[LeakKind, ...] = (
    _exact("exact bytes with its question and answer", BYTES, EXACT, "same", pictures.exact_full),
    _exact("exact bytes with a caption only", BYTES, None, None, pictures.exact_captioned),
    _exact("exact bytes with another answer", BYTES, EXACT, "different", pictures.exact_relabelled),
    _exact("same pixels in another file format", PIXELS, None, None, pictures.pixels),
    _exact("same pixels, question and answer", PIXELS, EXACT, "same", pictures.pixels_full),
    _near("JPEG re-encoded", pictures.jpeg),
    _near("resized", pictures.changed_by(pictures.resized)),
    _near("flipped", pictures.changed_by(pictures.flipped)),
    _near("rotated by quarter turns", pictures.changed_by(pictures.quarter_turned)),
    _near("rotated by a few degrees", pictures.changed_by(pictures.tilted)),
    _near("cropped", pictures.changed_by(pictures.cropped)),
    _near("recoloured", pictures.changed_by(pictures.recoloured)),
    _near("watermarked", pictures.changed_by(pictures.marked)),
    _near("inside a compound figure", pictures.compound),
    LeakKind("exact bytes, question reworded", LEAK, BYTES, REWORDED, "same", _WORD, words.reworded_exact),
    _words("question and answer alone", EXACT, words.alone),
    _words("question and answer beside another picture", EXACT, words.beside_another),
    _words("question reworded, alone", REWORDED, words.reworded_alone),
    _decoy("one attribute changed", _PICTURE, pictures.changed),
    _decoy("same view of another subject", _PICTURE, pictures.other_subject),
    _decoy("same question of another picture", _WORD, words.asked_of_another),
    _decoy("another question in like words", _WORD, words.alike),
)
# fmt: on
