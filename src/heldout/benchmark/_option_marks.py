"""Marks of options in a text, "A.", "(B)", "Option C:", and the run of them that makes a list."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

_MARK = re.compile(
    r"(?<![A-Za-z0-9(\[<])(?:\*\*)?(?P<named>(?:option|choice)[ \t]+)?"
    r"(?:\((?P<paren>[A-Za-z])\)[.:]?|\[(?P<bracket>[A-Za-z])\][.:]?|(?P<half>[A-Za-z])\)|"
    r"(?P<colon>[A-Za-z])[ \t]?:(?!/)|(?P<dot>[A-Za-z])\.(?![A-Za-z]?\.)|(?P<comma>[A-Za-z])、|"
    r"(?P<dash>[A-Za-z])[ \t]+[-–—](?=[ \t]))(?:\*\*)?",
    re.IGNORECASE,
)
_STYLES = ("paren", "bracket", "half", "colon", "dot", "comma", "dash")
# What stands before every letter but the first; lines may break anywhere.
_SEPARATED = ({"line"}, {";"}, {"|"}, {","}, {"/"}, {"stop", "space"})
_BULLET = re.compile(r"(?:^|\n)[ \t]*[-*•·][ \t]+$")
EDGE = " \t\n,;|/"
_NAMED = "option "  # before the style of "Option A:"
_GAP = 3  # letters: "A: x, B: y, D: z" lacks one, "(A) 3 tesla (T)" lacks none


@dataclass(frozen=True, slots=True)
class OptionMark:
    start: int
    end: int
    letter: str
    style: str
    before: str  # what separates it from the text before it
    bare: int = 0  # where its letter starts, after "Option"

    def unnamed(self) -> OptionMark:
        """The mark without "Option": in "(A) one option (B) none" that is a word of the text."""
        style = self.style.removeprefix(_NAMED)
        return dataclasses.replace(self, start=self.bare, style=style, before="space")


def option_marks(folded: str) -> list[OptionMark]:
    marks, last = [], len(folded.rstrip())
    for match in _MARK.finditer(folded):
        style = next(name for name in _STYLES if match[name])
        before = _before(folded, match.start())
        following = folded[match.end() : match.end() + 1]
        if style == "dash" and before != "line":
            continue  # "hepatitis A - which"
        spaced = not following or following.isspace() or not following.isascii()
        if style == "dot" and before != "line" and not spaced:
            continue  # an abbreviation, a file name
        if before in ("space", "stop") and match.end() >= last:
            continue  # "(A) candida (C)": a last option is not empty
        named, bare = _NAMED if match["named"] else "", max(match.start(), match.end("named"))
        marks.append(
            OptionMark(match.start(), match.end(), match[style], named + style, before, bare)
        )
    return marks


def within_option(before: OptionMark | None, mark: OptionMark, folded: str) -> bool:
    """Whether a mark is the beginning of an option's text: "A. A. baumannii", "(B) (A) and (C)"."""
    return (
        before is not None
        and (before.style == mark.style or before.before == "line")
        and before.letter.upper() in "ABCDEFGHIJ"
        and not folded[before.end : mark.start].strip()
    )


def _before(folded: str, place: int) -> str:
    head = folded[max(0, place - 40) : place]
    if _BULLET.search(head):
        return "line"
    head = head.rstrip(" \t")
    if (place <= 40 and not head) or head.endswith("\n"):
        return "line"
    last = head[-1:]
    if last in {",", ";", "|", "/"}:
        return last
    return "stop" if last in {".", "?", "!", ":"} else "space"


def run_of_marks(first: OptionMark, marks: Sequence[OptionMark], folded: str) -> list[OptionMark]:
    """Marks from ``first`` on, one for each further letter, all of one style and separated alike.

    Of several readings the longest is the list: "A: vitamin B: none, B: …" is separated by commas.
    """
    best: list[OptionMark] = []
    named = first.style.startswith(_NAMED)
    alike = [
        mark
        for mark in (
            mark.unnamed() if mark.style.startswith(_NAMED) > named else mark for mark in marks
        )
        if mark.start > first.start
        and mark.style == first.style
        and mark.letter.islower() == first.letter.islower()
    ]
    for separators in _SEPARATED:
        run = [first]
        later: str | None = None
        for place, mark in enumerate(alike):
            if mark.before not in separators and mark.before != "line":
                continue
            if ord(mark.letter) == ord(run[-1].letter) + 1:
                between = folded[run[-1].end : mark.start]
                if between.strip(EDGE):
                    run.append(mark)
                    later = None
                elif between.strip(" \t"):
                    later = mark.letter  # "A: a man, B: , C: a dog": an option is empty
            elif _begins_again(run, alike[place:], separators):
                later = mark.letter
                break
            elif mark.letter == run[-1].letter and len(run) > 1:
                if not folded[run[-1].end : mark.start].strip():
                    run[-1] = mark  # "(B) candida (C) (C) none"
            elif 1 < ord(mark.letter) - ord(run[-1].letter) <= _GAP:
                later = mark.letter
        if later is None and len(run) > len(best):
            best = run
    return best


def _begins_again(
    run: Sequence[OptionMark], later: Sequence[OptionMark], separators: set[str]
) -> bool:
    """ "A: CT, B: MRI, A: US, B: PET": a second list behind the first, set apart as its options are."""
    signs = separators & {",", ";", "|", "/"}
    letters = [mark.letter for mark in later if mark.before in signs]
    first = run[0].letter
    return len(run) > 1 and later[0].before in signs and letters[:2] == [first, chr(ord(first) + 1)]
