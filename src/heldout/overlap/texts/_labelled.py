"""Questions and answers that stand in one text under labels, as dumps of chats and pages write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ASKING = "question|q|user|human|instruction|prompt|problem|exercise|task"
_FURTHER = "input|context"  # goes on with what is asked
_ANSWERING = "answer|a|assistant|response|solution|output|completion|reply|gpt"
_OTHER = "system|explanation|rationale|reasoning|note"
# At the beginning of a line or after a sentence: "Question 3:", "### Response:", "**A:**".
_LABEL = re.compile(
    rf"(?:^|\n|(?<=[.?!])[ \t])[ \t]*(?:#{{1,6}}[ \t]*|\*\*)?"
    rf"(?:(?P<asking>{_ASKING})|(?P<further>{_FURTHER})|(?P<answering>{_ANSWERING})|(?P<other>{_OTHER}))"
    r"(?:[ \t]*\d{1,4})?[ \t]*(?:\*\*)?[ \t]*[:：](?:\*\*)?",
    re.IGNORECASE,
)
_SECOND = re.compile(r"(?:^|\s)\(?b[ \t]*[.):]", re.IGNORECASE)  # option, after "A: …"
_OPTION = re.compile(r"\(?[A-J][.):]\s+(?=\S)")


class LabelledTexts(NamedTuple):
    """``pairs`` of question and answer, and what else the text says."""

    pairs: tuple[tuple[str, str], ...]
    rest: str


def labelled_texts(text: str) -> LabelledTexts:
    """``text`` in questions and answers; no pairs where no question is labelled that a labelled answer follows."""
    pairs: list[tuple[str, str]] = []
    rest: list[str] = []
    question = ""
    for role, words in _segments(text):
        if role == "asking":
            rest.append(question)
            question = words
        elif role == "further" and question:
            question = f"{question}\n{words}".strip()
        elif role == "answering" and question and words:
            pairs.append((question, _OPTION.sub("", words, count=1)))
            question = ""
        else:
            rest.append(words)
    return LabelledTexts(tuple(pairs), " ".join([*rest, question]).strip())


def _segments(text: str) -> Iterator[tuple[str, str]]:
    role, begin = "other", 0
    for match in _LABEL.finditer(text) if ":" in text or "：" in text else ():
        kind = match.lastgroup or "other"
        label = match[kind].casefold()
        if kind == "answering" and label == "a" and _lists_options(text, match.end()):
            continue  # "A: left B: right"
        yield role, text[begin : match.start()].strip()
        role, begin = kind, match.end()
    yield role, text[begin:].strip()


def _lists_options(text: str, begin: int) -> bool:
    """Does "B: …" follow on this line or at the beginning of the next?"""
    line, _, after = text[begin : begin + 500].partition("\n")
    return bool(_SECOND.search(line) or _SECOND.match(after.lstrip()))
