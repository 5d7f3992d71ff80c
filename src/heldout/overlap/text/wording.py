"""Two nearly equal texts: the same question edited, or the same template about another subject.

"Is there a fracture of the left femur?" and "… right femur?" are 93 % the same characters and two
different questions. What differs decides: a slip of the pen and an ending are edits; a word for
another one, a number, a "not" is another question.
"""

from __future__ import annotations

import functools

from rapidfuzz.distance import Levenshtein

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
_OFTEN = 1000  # characters of a pair below which it is worth remembering
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
    for step in Levenshtein.opcodes(ours, theirs):
        gone = ours[step.src_start : step.src_end]
        new = theirs[step.dest_start : step.dest_end]
        if step.tag != "equal" and not _harmless(gone, new):
            return OTHER
    return EDITED if same_numbers(one, other) else RENUMBERED


def _harmless(gone: list[str], new: list[str]) -> bool:
    if "".join(gone) == "".join(new):  # "x-ray" and "xray", once the hyphen is a space
        return True
    kept = [word for word in gone if word not in _LITTLE]
    put = [word for word in new if word not in _LITTLE]
    return len(kept) == len(put) and all(_one_word(a, b) for a, b in zip(kept, put, strict=True))


def _one_word(one: str, other: str) -> bool:
    """An ending apart, or one letter apart after the first: "asymptomatic" is not "symptomatic"."""
    if one == other:
        return True
    if min(len(one), len(other)) < 4 or one[0] != other[0]:
        return False
    shared = len(one) - len(one.removeprefix(_prefix(one, other)))
    if shared >= 4 and max(len(one), len(other)) - shared <= _ENDING:
        return True
    return Levenshtein.distance(one, other) <= 1


def _prefix(one: str, other: str) -> str:
    length = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        length += 1
    return one[:length]
