"""Questions within longer texts: a page about many things is near to none of them."""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterator

from heldout.overlap.texts._fields import Document, answer_keys
from heldout.overlap.texts._labelled import FollowingAnswer, answer_after, answers_first
from heldout.overlap.texts._questions import asks, is_program
from heldout.overlap.texts.normalise import loose, without_markup

# What a browser sets apart is a paragraph of its own.
_BLOCKS = re.compile(
    r"</?(?:p|div|h[1-6]|[uod]l|li|d[td]|table|t[rdh]|section|article|blockquote)\b[^<>]{0,300}>",
    re.IGNORECASE,
)
_BREAKS = re.compile(r"<br\s*/?>", re.IGNORECASE)
_SPACES = re.compile(r"[^\S\n]+")
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

# A key at the end: "Answers: 1. 49 2. 90", and the numbers of the questions.
_KEY = re.compile(
    r"(?:^|\n)[ #*]{0,9}(?:answers?(?: key)?|key|solutions?)[ #*]{0,9}[:：]?[ #*]{0,9}"
    r"(?=\n|\(?\d{1,3}[.):])",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"(?<![\w.,])\(?(\d{1,3})[.):] ?(\S.{0,80}?)(?=[\s,;]{1,3}\(?\d{1,3}[.):]\s|\n|$)"
)
_NUMBERED = re.compile(r"(?:^|\n)[ #*]{0,9}(?:q(?:uestion)?\s*)?\(?(\d{1,3})[.):]\s", re.IGNORECASE)


def questions_within(document: Document, longest: int) -> Iterator[Document]:
    """Every question of a free text by itself, and with one to five sentences before it, in words of its paragraph.

    ``longest``: words of a passage, about as many as the benchmark's questions have. What follows a question may
    be its answer, and so may what a key at the end has under its number.
    """
    text = _plain(document.text)
    size = _size(text)
    if size <= _FEWEST or is_program(text[:_READ]):
        return
    limit = min(float(longest), _MOST * size)
    key = _key(text)
    numbered = list(_NUMBERED.finditer(text)) if key else []
    places = [match.start() for match in numbered]
    ahead = answers_first(text)
    for begin, end in _stretches(text, _PARAGRAPHS, 0, len(text)):
        sentences = list(_stretches(text, _SENTENCES, begin, end))
        for place, (start, stop) in enumerate(sentences):
            question = text[start:stop].strip()
            if len(question) > _WORD * longest or not asks(question):
                continue
            answer = FollowingAnswer()
            if not ahead:
                answer = answer_after(question, text[stop : stop + _FOLLOWING])
            if key and not answer.told:
                at = bisect.bisect_right(places, start) - 1
                number = numbered[at][1] if at >= 0 else ""
                answer = FollowingAnswer((key[number],)) if number in key else answer
            keys = dict.fromkeys(name for each in answer.texts for name in answer_keys(each))
            seen = set()
            for before in _BEFORE:
                passage = text[sentences[max(0, place - before)][0] : stop]
                words = len(loose(passage).split())
                if words > limit:
                    break
                if words >= _FEWEST and passage not in seen:
                    seen.add(passage)
                    yield dataclasses.replace(
                        document,
                        text=passage,
                        answers=tuple(keys),
                        options="",
                        guessed=not answer.told,
                    )


def _plain(text: str) -> str:
    """Without markup, with line feeds where a browser has them."""
    if "<" in text:
        text = _BREAKS.sub("\n", _BLOCKS.sub("\n\n", text))
    return _SPACES.sub(" ", without_markup(text))  # long runs would cost their square below


def _key(text: str) -> dict[str, str]:
    """Answers by the number of their question."""
    headings = list(_KEY.finditer(text))
    if not headings or "?" in text[headings[-1].end() :]:
        return {}
    return {match[1]: match[2] for match in _KEYED.finditer(text, headings[-1].end())}


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
