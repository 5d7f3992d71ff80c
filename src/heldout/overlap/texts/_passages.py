"""Questions within longer texts: a page about many things is near to none of them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from heldout.overlap.texts._fields import Document, answer_keys
from heldout.overlap.texts._labelled import answer_after
from heldout.overlap.texts._questions import asks, is_program
from heldout.overlap.texts.normalise import loose

_PARAGRAPHS = re.compile(r"\n\s*\n")
# A colon ends no sentence: "Add up the passengers: 12 in the first coach, …".
_SENTENCES = re.compile(
    r"(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])\s*|\s*\n\s*(?:[-*•]|\(?\d{1,3}[.)])\s+"
)
_BEFORE = (0, 1, 2, 3, 5)  # sentences that are read with a question
_MOST = 0.67  # of a text's words: what is longer is the text itself, which is read anyway
_FEWEST = 3  # words of a question
_FOLLOWING = 500  # characters after a question in which its answer is looked for
_WORD = 20  # characters, generously: a "sentence" of more is a table or a heap of code
_SPACELESS = 12  # characters a word from which on a script has no spaces
_READ = 1000  # characters that show whether a text is a program


def questions_within(document: Document, longest: int) -> Iterator[Document]:
    """Every question of a free text by itself, and with one to five sentences before it, in words of its paragraph.

    ``longest``: words of a passage, about as many as the benchmark's questions have. What follows a question may
    be its answer.
    """
    text = document.text
    size = _size(text)
    if size <= _FEWEST or is_program(text[:_READ]):
        return
    limit = min(float(longest), _MOST * size)
    for begin, end in _stretches(text, _PARAGRAPHS, 0, len(text)):
        sentences = list(_stretches(text, _SENTENCES, begin, end))
        for place, (start, stop) in enumerate(sentences):
            question = text[start:stop].strip()
            if len(question) > _WORD * longest or not asks(question):
                continue
            following = text[stop : stop + _FOLLOWING]
            answers = answer_keys(answer_after(question, following))
            seen = set()
            for before in _BEFORE:
                passage = text[sentences[max(0, place - before)][0] : stop]
                words = len(loose(passage).split())
                if words > limit:
                    break
                if words >= _FEWEST and passage not in seen:
                    seen.add(passage)
                    yield dataclasses.replace(document, text=passage, answers=answers, options="")


def _size(text: str) -> int:
    """Words, or characters where there are no spaces between them."""
    words = len(text.split())
    return len(text) if len(text) > _SPACELESS * words else words


def _stretches(
    text: str, parted: re.Pattern[str], begin: int, end: int
) -> Iterator[tuple[int, int]]:
    """Begin and end of what stands between the matches, without what is empty."""
    for match in parted.finditer(text, begin, end):
        if text[begin : match.start()].strip():
            yield begin, match.start()
        begin = match.end()
    if text[begin:end].strip():
        yield begin, end
