"""Two nearly equal texts: the same question edited, or the same template about another subject.

"Is there a fracture of the left femur?" and "… right femur?" are 93 % the same characters and two
different questions. What differs decides: a slip of the pen and an ending are edits; a word for
another one, a number, a "not" is another question.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from rapidfuzz.distance import OSA, Levenshtein

from heldout.overlap.text.normalise import loose, same_numbers

SAME, EDITED, RENUMBERED, OTHER = (
    "same wording",
    "edited",
    "renumbered",
    "same template, other subject",
)
# Words that come and go without changing what is asked. "no", "not", "without" are not among them.
_LITTLE = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "of", "in", "on", "at", "to", "for", "from",
    "by", "with", "and", "is", "are", "was", "were", "be", "been", "there", "here", "it", "its", "any",
    "do", "does", "did", "can", "could", "please", "what", "which", "shown", "seen", "see", "image",
    "picture", "question", "answer", "following", "given", "their", "s",
})  # fmt: skip
_NEGATIONS = frozenset({"no", "not", "non", "none", "never", "neither", "nor", "without", "except"})
_OFTEN = 1000  # characters of a pair below which it is worth remembering
_ALIGNED = 2000 * 2000  # pairs of words that are aligned
_ENDING = 3  # letters an ending may have: -s, -es, -ed, -ing


def compare_wording(one: str, other: str) -> str:
    """One of SAME, EDITED, RENUMBERED, OTHER."""
    if len(one) + len(other) < _OFTEN:
        return _remembered(one, other)
    return _compare(one, other)


@functools.lru_cache(maxsize=2**14)
def _remembered(one: str, other: str) -> str:
    return _compare(one, other)


def _compare(one: str, other: str) -> str:
    if one == other:
        return SAME
    ours, theirs = loose(one).split(), loose(other).split()
    if ours == theirs:
        return SAME if same_numbers(one, other) else RENUMBERED
    if not same_words(ours, theirs):
        return OTHER
    return EDITED if same_numbers(one, other) else RENUMBERED


def same_words(ours: Sequence[str], theirs: Sequence[str], *, open_ended: bool = False) -> bool:
    """Are all differences harmless? ``open_ended``: what ``theirs`` has before and after is none."""
    if len(ours) * len(theirs) > _ALIGNED:
        # An alignment needs memory for every pair of words: pages are one text or another.
        inside = open_ended and f" {' '.join(ours)} " in f" {' '.join(theirs)} "
        return inside or list(ours) == list(theirs)
    blocks: list[tuple[list[str], list[str]]] = []
    joined = False  # neighbouring edits are one block: "in the" for "inthe" is a change and a loss
    for step in Levenshtein.opcodes(ours, theirs):
        gone, new = ours[step.src_start : step.src_end], theirs[step.dest_start : step.dest_end]
        outside = step.src_start == step.src_end and step.src_end in (0, len(ours))
        if step.tag == "equal" or (open_ended and outside):
            joined = False
            continue
        if joined:
            blocks[-1][0].extend(gone)
            blocks[-1][1].extend(new)
        else:
            blocks.append((list(gone), list(new)))
        joined = True
    return all(_harmless(gone, new) for gone, new in blocks)


def _harmless(gone: list[str], new: list[str]) -> bool:
    if _NEGATIONS.intersection(gone) != _NEGATIONS.intersection(new):
        return False
    if _one_word("".join(gone), "".join(new)):  # also "x ray" for "xray"
        return True
    kept = [word for word in gone if word not in _LITTLE]
    put = [word for word in new if word not in _LITTLE]
    if len(kept) == len(put):
        return all(_one_word(a, b) for a, b in zip(kept, put, strict=True))
    return len(gone) == len(new) and all(_slip(a, b) for a, b in zip(gone, new, strict=True))


def _one_word(one: str, other: str) -> bool:
    """An ending apart, or one slip after the first letter: "asymptomatic" is not "symptomatic"."""
    if one == other:
        return True
    if min(len(one), len(other)) < 4:
        return False
    shared = _shared_start(one, other)
    if shared >= 4 and max(len(one), len(other)) - shared <= _ENDING:
        return True
    swapped = one[:2] == other[1::-1]
    return (one[0] == other[0] or swapped) and OSA.distance(one, other) <= 1


def _slip(one: str, other: str) -> bool:
    """One word, or a little one of which a slip left a word that means nothing: "te" for "the"."""
    little = one in _LITTLE or other in _LITTLE
    short = min(len(one), len(other)) >= 2 and max(len(one), len(other)) <= 3
    return _one_word(one, other) or (little and short and OSA.distance(one, other) <= 1)


def _shared_start(one: str, other: str) -> int:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return length
