"""One text under three profiles: strict (as people read it), published, and loose (its words alone).

*Published* is what Appendix F of the protocol prescribes: lower case, white space, every number as
``<NUM>``, options as ``A. …``. It makes "T1" and "T2" one text, and so does *loose*; whoever finds
two texts equal there asks ``same_numbers`` before calling them identical.
"""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from heldout.overlap.text.characters import loose_line

Profile = Literal["strict", "published", "loose"]
PROFILES: tuple[Profile, ...] = ("strict", "published", "loose")

# A tag opens with a letter and is short: "p < 0.05 and q > 2" is text, whatever a browser thinks.
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>|<!--[^<>]{0,300}-->")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
_OFTEN = 500  # characters below which a text is worth remembering
_LETTER = re.compile(r"\s*\(?([A-Za-z])\s*[.):]\s+")


class _Visible(dict[int, str | None]):
    """Control and formatting characters (bidirectional marks, zero widths) are not text."""

    def __missing__(self, code: int) -> str | None:
        character: str | None = chr(code)
        if chr(code).isspace():
            character = " "
        elif unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co"):
            character = None
        self[code] = character  # str.translate asks once for every character there is
        return character


_VISIBLE = _Visible()


def strict(text: str | None) -> str:
    """Tags, entities, control characters and spacing removed; letters, case and numbers stay."""
    if not text:
        return ""
    text = without_markup(text)
    if not (text.isascii() and text.isprintable()):
        text = unicodedata.normalize("NFC", text.translate(_VISIBLE))
    return " ".join(text.split())


def without_markup(text: str) -> str:
    if "<" in text:
        text = _TAG.sub(" ", text)
    return html.unescape(text) if "&" in text else text


def published(text: str | None) -> str:
    return mask(strict(text))


def mask(clean: str) -> str:
    """The published profile of a text that is ``strict`` already."""
    return _DIGITS.sub("<NUM>", clean.lower())


def loose(text: str | None) -> str:
    """The words alone: no case, no punctuation, every number alike, full-width letters folded."""
    if text and len(text) < _OFTEN:
        return _loose_often(text)
    return loose_line(strict(text))


@functools.lru_cache(maxsize=2**14)
def _loose_often(text: str) -> str:
    """Short texts come again and again: templates are asked of thousands of pictures."""
    return loose_line(strict(text))


def profiled(text: str | None, profile: Profile) -> str:
    return {"strict": strict, "published": published, "loose": loose}[profile](text)


def same_numbers(one: str, other: str) -> bool:
    """Do both texts name the same numbers in the same order? "T1" and "T2" do not."""
    return numbers(one) == numbers(other)


def numbers(text: str) -> tuple[str, ...]:
    return tuple(_DIGITS.findall(without_markup(text)))


def options_text(options: Sequence[str]) -> str:
    """Options as ``A. … B. …``, whatever letters they came with."""
    return " ".join(f"{letter(k)}. {option}" for k, option in enumerate(bare_options(options)))


def options_key(options: Sequence[str]) -> str:
    """The same for every order of the same options."""
    return " | ".join(sorted(strict(option).casefold() for option in bare_options(options)))


def bare_options(options: Sequence[str]) -> list[str]:
    """Options without the letters they came with; "A. fib" loses nothing where others have none."""
    clean = [strict(option) for option in options]
    found = [_LETTER.match(option) for option in clean]
    if all(m is not None and m[1].upper() == letter(k) for k, m in enumerate(found)):
        return [option[m.end() :] for option, m in zip(clean, found, strict=True) if m is not None]
    return clean


def letter(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else str(position + 1)
