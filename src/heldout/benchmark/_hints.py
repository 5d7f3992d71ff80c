"""Sentences around a question that say how to answer, not what: "Answer with the option's letter …".

Evaluation scripts add them, and some releases contain them. A sentence is such a hint only if it opens
with an instruction and every word of it is about the form of an answer.
"""

from __future__ import annotations

import re


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_OPENS = _words(
    """
    answer answers carefully choose directly do end finish give highlight indicate just keep let's
    make note now offer only output pick please print provide put reply respond return select short
    think try write you your
    """
)
_FORM = _words(
    """
    answer brief briefly choice choices concise concisely directly explain explanation explanations
    false integer label letter letters no number option option's options phrase phrases reply short
    step succinctly tags true word words yes
    """
)
_OTHER = _words(
    """
    a above accurate after all an and any applicable appropriate are as at based be before below best
    between box boxed by can capital character correct corresponding don't e.g each eg else end every
    exact exactly extra few final first following for form format from given giving i i.e if image
    images in include into is it its last line listed me more most multi multiple must not nothing of
    on one only or other picture possible process provided question questions read reason reasoning
    require requiring right sentence several should simple simply single so some suitable text than
    that the then there these thinking this those thought thoughts to try uppercase use using value
    very which with within without you
    """
)
_KNOWN = _OPENS | _FORM | _OTHER
_WORD = re.compile(r"[^\W\d_]+(?:[.'’][^\W\d_]+)*")
# Letters after a colon belong to what stands before it: "one of: A, B, C or D".
_BOUNDARY = re.compile(
    r"(?<!e\.g)(?<!i\.e)(?<=[.?!;])\s+|(?<=:)\s+(?!\s*[A-J](?:(?:[\s,;/]|or|and)+[A-J])+\W*$)"
    r"|\n+|(?<=[。？！；])"
)
# "… (D) black Answer with the letter": an instruction may follow the last option on its line.
_COMMAND = r"(?:Please|Answer|Respond|Reply|Select|Choose|Provide|Give|Output) "
_ABRUPT = re.compile(rf"(?<=\s)(?={_COMMAND})")
_INNER = re.compile(rf"[.?!;:。？！；].|\s{_COMMAND}")
# A label before a sentence makes it an option: "B. Write a letter". In "A, B, C, D. Write a letter" the
# letters are a list of their own.
_LABELLED = re.compile(r"\A[(\[]?[A-Ja-j][)\].:、]|[(\[][A-Ja-j][)\]]\s+(?!or\b|and\b)\w")
_LABEL_BEFORE = re.compile(
    r"(?:^|[\n;|/:.?!]\s*|(?<!\b[A-Ja-j]),\s*|,\s*(?=.[:)])|\s(?=[(\[]))"
    r"(?:[(\[][A-Ja-j][)\]][.:]?|[A-Ja-j][.:)、])$"
)
_CLOSING = re.compile(
    r"(?:the\s+)?(?:final\s+|best\s+|correct\s+)?(?:answer|答案)(?:\s+is)?\s*[:：]", re.I
)
_CHINESE = re.compile(r"请.{0,40}(?:选项|选择|字母|单词|短语|是或否|回答|答案|词语).{0,20}")
_LABEL = re.compile(r"\s*(?:question|q|问题)\s*[:：]\s*", re.IGNORECASE)
_HINT = re.compile(r"\s*(?:hint|instruction|提示)\s*[:：]\s*(?P<text>[^\n]*)\n", re.IGNORECASE)
_CONTEXT = re.compile(r"(\s*context\s*[:：][^\n]*\n\s*)question\s*[:：]\s*(?=\S)", re.IGNORECASE)
_MOST = 8  # hints at either end
_LONGEST = 400  # characters; an instruction is short


def is_hint(sentence: str) -> bool:
    """Whether a sentence only says in which form to answer."""
    sentence = sentence.strip()
    if not sentence or len(sentence) > _LONGEST:
        return False
    if _CLOSING.fullmatch(sentence):
        return True
    if _CHINESE.fullmatch(sentence.rstrip("。.！!")):
        return True
    words = [word.replace("’", "'").lower() for word in _WORD.findall(sentence)]
    # Letters name options: "(A, B, C, D)". Latin ones alone; one Chinese character is a word.
    words = [word for word in words if len(word) > 1 or not ("b" <= word <= "j")]
    return (
        bool(words)
        and words[0] in _OPENS
        and not _FORM.isdisjoint(words)
        and _KNOWN.issuperset(words)
    )


def without_trailing(text: str, *, listed: bool) -> str:
    """``text`` without hints at its end. ``listed``: the text offers options.

    Without them a hint goes only from below a question or from a line of its own: "Select the number
    below." may be all that is asked.
    """
    for _ in range(_MOST):
        text = text.rstrip()
        if "\n" not in text and not _INNER.search(text):
            return text  # one sentence
        cuts = [match.end() for match in _BOUNDARY.finditer(text) if match.end() < len(text)]
        start = cuts[-1] if cuts else 0
        if listed and not is_hint(text[start:]):
            start = next((m.end() for m in _ABRUPT.finditer(text, start)), start)
        rest = text[:start].rstrip()
        own_line = "\n" in text[len(rest) : start]
        if not rest or not is_hint(text[start:]) or _LABELLED.search(text[start:]):
            return text
        if not own_line and _LABEL_BEFORE.search(rest[-8:]):
            return text
        if not (listed or own_line or "?" in rest or "？" in rest):
            return text
        text = rest
    return text


def without_leading(text: str) -> str:
    """``text`` without "Question:", and without lines before it that are nothing but hints.

    A "Hint:" that says something about the picture stays: it belongs to the question.
    """
    stripped = text.lstrip()
    for _ in range(_MOST):
        line, newline, rest = stripped.partition("\n")
        hint = _HINT.match(stripped)
        if hint is not None and stripped[hint.end() :].strip() and _all_hints(hint["text"]):
            stripped = stripped[hint.end() :].lstrip()
        elif newline and rest.strip() and _all_hints(line):
            stripped = rest.lstrip()
        elif (label := _LABEL.match(stripped)) is not None and stripped[label.end() :].strip():
            stripped = stripped[label.end() :]
        else:
            break
    return _CONTEXT.sub(r"\1", stripped, count=1) if _CONTEXT.match(stripped) else stripped


def _all_hints(line: str) -> bool:
    sentences = [part for part in _BOUNDARY.split(line) if part.strip()]
    return bool(sentences) and all(is_hint(sentence) for sentence in sentences)
