"""Which of a server's tokens spell a text: servers tell tokens as words, each in its own way.

Spaces are not told alike (" yes", "▁yes", "Ġyes", or "yes" where a decoder eats the space), so tokens
and text are compared without them. A character cut into bytes comes as U+FFFD, piece by piece; such
pieces stand for the characters between what is readable on either side.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CUT = "\N{REPLACEMENT CHARACTER}"
LONGEST_TAIL = 16  # tokens a template may put behind an answer
_SPACES = str.maketrans({"▁": " ", "Ġ": " ", "Ċ": "\n", "ĉ": "\t"})
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_WIDEST = 4  # a piece of a character stands for part of one; a run of n for at most n of them


def bare(text: str) -> str:
    """A text without its spaces, as they are told by nobody alike."""
    return "".join(text.translate(_SPACES).split())


def bare_token(token: str) -> str:
    return bare(CUT if _BYTE.fullmatch(token) else token)


def spell(tokens: Sequence[str], text: str) -> list[tuple[int, int]] | None:
    """Per token the characters of ``bare(text)`` it spells; None if they do not spell just this text."""
    wanted, at = bare(text), 0
    spans: list[tuple[int, int]] = []
    index = 0
    pieces = [bare_token(token) for token in tokens]
    while index < len(pieces):
        if CUT not in pieces[index]:
            if not wanted.startswith(pieces[index], at):
                return None
            spans.append((at, at + len(pieces[index])))
            at += len(pieces[index])
            index += 1
            continue
        last = index
        while last < len(pieces) and (CUT in pieces[last] or not pieces[last]):
            last += 1
        following = pieces[last] if last < len(pieces) else None
        reach = sum(max(len(piece), 1) for piece in pieces[index:last])
        end = _end_of_run(wanted, at, reach, following)
        if end is None:
            return None
        spans += [(at, end)] * (last - index)
        at, index = end, last
    return spans if at == len(wanted) else None


def ending(tokens: Sequence[str], text: str) -> tuple[int, int] | None:
    """The last tokens that spell ``text``, as a slice; a template's own end may follow them."""
    for tail in range(min(LONGEST_TAIL, len(tokens) - 1) + 1):
        end = len(tokens) - tail
        start = _start(tokens, end, text)
        if start is not None:
            return start, end
    return None


def _start(tokens: Sequence[str], end: int, text: str) -> int | None:
    wanted = bare(text)
    if not wanted or not bare_token(tokens[end - 1]):
        return None
    found, readable = None, 0
    for start in range(end - 1, -1, -1):
        piece = bare_token(tokens[start])
        readable += len(piece.replace(CUT, ""))
        if readable > len(wanted) or end - start > _WIDEST * len(wanted) + LONGEST_TAIL:
            break
        # The longest that fits, so that a character's first byte is not left outside; never a space.
        if piece and spell(tokens[start:end], text) is not None:
            found = start
    return found


def _end_of_run(text: str, at: int, reach: int, following: str | None) -> int | None:
    """Where a run of unreadable pieces ends: the nearest place from which the readable goes on."""
    if following is None:
        return len(text) if at < len(text) <= at + reach else None
    for end in range(at + 1, min(len(text), at + reach) + 1):
        if text.startswith(following, end):
            return end
    return None
