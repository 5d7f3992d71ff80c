"""The verifiable reward: 1 for a reply of the right form with the right answer, else 0.

The whole reply has to be ``<think>…</think>`` followed by ``<answer>…</answer>``, each tag once. The answer
has to equal the letter of the right option, its text, or "letter. text", whatever the case. Nothing is
searched for inside the answer: a list of all options, a hedge or a second answer is worth nothing.

This file needs the standard library alone: ``heldout train --to verl`` ships it as verl's reward function.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NamedTuple

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BLANK = " \t\r\n"
_WHOLE = re.compile(
    r"[ \t\r\n]*<think>(?P<thought>.*?)</think>[ \t\r\n]*<answer>(?P<answer>.*?)</answer>[ \t\r\n]*",
    re.DOTALL,
)
# Anything that looks like one of the tags, however it is spelt: a second tag could hide a second answer.
_TAG = re.compile(r"[<‹〈⟨]\s*[/\\]?\s*(?:think|answer)", re.IGNORECASE)


class Solution(NamedTuple):
    """What is right: a letter and the options it belongs to, or a text alone for an open question."""

    text: str
    letter: str = ""
    options: tuple[str, ...] = ()


class Graded(NamedTuple):
    """``well_formed``: the reply has the form; ``answer`` is what stands between its answer tags."""

    reward: float
    well_formed: bool
    answer: str = ""


def grade(reply: str, solution: Solution) -> Graded:
    """Reward of one reply, and whether it has the form."""
    match = _WHOLE.fullmatch(reply)
    if match is None or len(_TAG.findall(_plain(reply))) != 4:
        return Graded(0.0, False)
    answer = match["answer"].strip(_BLANK)
    return Graded(float(is_right(answer, solution)), True, answer)


def is_right(answer: str, solution: Solution) -> bool:
    """Whether an answer names the right option, and no other."""
    text = solution.text.strip(_BLANK)
    if not text:
        return False
    accepted = [text]
    if solution.letter:
        letter = solution.letter.upper()
        # Where a text is the letter of another option, it does not say which of the two is meant.
        others = [form for form in LETTERS[: len(solution.options)] if form != letter]
        if any(_same(answer, other) for other in others):
            return False
        accepted += [letter, f"{letter}. {text}"]
    return any(_same(answer, form) for form in accepted)


def _same(answer: str, accepted: str) -> bool:
    """Equal except for case and blanks. A similar letter of another alphabet is another letter."""
    ours, theirs = (" ".join(text.split()) for text in (answer, accepted))
    if len(ours) != len(theirs):
        return False
    return all(
        our == other or (our.isascii() == other.isascii() and our.lower() == other.lower())
        for our, other in zip(ours, theirs, strict=True)
    )


def _plain(text: str) -> str:
    """Compatibility forms normalised, and invisible characters removed."""
    flat = unicodedata.normalize("NFKC", text)
    return "".join(letter for letter in flat if unicodedata.category(letter) not in ("Cf", "Mn"))


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, float]:
    """verl's entry point to ``grade``: ``ground_truth`` is the letter, or the text of an open answer."""
    info = extra_info or {}
    listed = info.get("options")  # an array where rows were read by pandas: it has no truth value
    options = () if listed is None else tuple(map(str, listed))
    text = str(info.get("answer") or ground_truth)
    solution = Solution(text, ground_truth if options else "", options)
    # The rollout's end-of-turn token is no part of the reply.
    reply = re.sub(
        r"(?:<\|im_end\|>|<\|endoftext\|>|<\|eot_id\|>|<end_of_turn>|</s>|<eos>)\s*$",
        "",
        solution_str,
    )
    graded = grade(reply, solution)
    return {"score": graded.reward, "format": float(graded.well_formed)}
