"""A reply as words: without markup, without what a model thought aloud between tags."""

from __future__ import annotations

import re

from heldout.benchmark.normal import normal

_OPEN_THOUGHT = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_TAG, _END = "<answer>", "</answer>"
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</s>|<eos>|<end_of_turn>")
_ARTICLE = re.compile(r"^(?:the|an|a)\s+(?=\S)")
_MARKS = str.maketrans("", "", "*_`$#")
LONGEST = 20_000  # characters of a reply, from its end, that are looked at: the rest is a runaway


class CutError(Exception):
    """The model was still thinking when its reply ended."""


def without_thoughts(reply: str) -> str:
    """What follows the thinking; some templates open it in the prompt, so only its end is seen."""
    lowered = reply.lower()
    for end in ("</think>", "</thinking>"):
        place = lowered.rfind(end)
        if place >= 0:
            reply = reply[place + len(end) :]
            lowered = reply.lower()
    if _OPEN_THOUGHT.search(reply):
        raise CutError
    return _SPECIAL.sub(" ", reply[-LONGEST:]).strip()


def tagged(reply: str) -> str | None:
    """What stands in the last <answer>, or in the last \\boxed{}; None without either."""
    place = reply.lower().rfind(_TAG)
    if place >= 0:
        inner = reply[place + len(_TAG) :]
        end = inner.lower().find(_END)
        return inner[: end if end >= 0 else None].strip()
    found = _BOXED.findall(reply)
    return found[-1].strip() if found else None


def bare(text: str) -> str:
    """Without emphasis, LaTeX's text commands and quotes around the whole."""
    text = _LATEX_TEXT.sub(r"\1", _BOXED.sub(r"\1", text)).strip()
    if "_" in text and re.fullmatch(r"\w+", text):  # a name such as upper_left keeps its line
        return text
    text = text.translate(_MARKS).strip()
    while len(text) > 1 and (text[0], text[-1]) in {('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’")}:
        text = text[1:-1].strip()
    return text


def same(text: str) -> str:
    """Texts with the same ``same`` are one answer: case, spacing, closing marks and an article aside."""
    folded = normal(bare(text))
    return _ARTICLE.sub("", folded)
