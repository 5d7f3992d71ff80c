"""Questions and answers that stand in one text, mostly under labels, as dumps of chats and pages write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from heldout.overlap.texts.normalise import loose

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
_LISTED = re.compile(r"(?:^|\s)\s*\(?(?P<letter>[A-Ja-j])[.):]\s+(?=\S)")
_POINTER = re.compile(r"\s*\(?(?P<letter>[A-Ja-j])(?:[.):]+(?P<words>\s+\S.*)?)?\s*$", re.DOTALL)
_OPTION = re.compile(r"\(?[A-J][.):]\s+(?=\S)")

# "Sure! The correct answer here is Athens.", "It was Athens, of course."
_STATED = re.compile(
    r"\s*(?:(?:sure|certainly|of course|absolutely|yes|well|ok|okay|good question)\b[^.!,:\n]{0,40}[.!,:]\s*)?"
    r"(?:(?:the |my |your )?(?:(?:correct|right|final|best) )?(?:answer|solution|result)"
    r"(?: here| to (?:this|that|the|your) (?:question|problem))?(?: is| was| would be| should be|:)|"
    r"(?:it|that|this|they|these|he|she)(?:['’](?:s|re)| is| was| are| were| would be))"
    r":?\s+(?P<answer>\S[^\n]{0,80}?)\s*(?:[.!;](?=\s|$)|\n|$)",
    re.IGNORECASE,
)

# What follows a question mark and answers nothing: what to do, a hint, a choice.
_REMARK = re.compile(
    r"(?:please|answer|respond|reply|choose|select|pick|tick|give|provide|explain|describe|write|use|show|justify|state|name|list|"
    r"round|express|assume|suppose|consider|think|look|refer|see|note|hint|options?|choices?|be|do|if|you|your|and|or|but)\b|"
    r"\(?[A-J][.):]\s",
    re.IGNORECASE,
)
_MORE = re.compile(r"\bor\b|/|[.!;]\s", re.IGNORECASE)  # a choice, or another sentence
#: how worked solutions mark their result
MARKED = r"####\s*([^\n#]{1,60})|\\boxed\{([^{}]{1,60})\}"
# An answer told later on: "… so the answer is 12.", "#### 12".
_TOLD = re.compile(
    r"\banswer(?: here)?(?:,[^,.?!\n]{1,30},)?(?: is| was|:)\s+(\S[^\n]{0,80}?)\s*(?:[.!;](?=\s|$)|\n|$)|"
    + MARKED,
    re.IGNORECASE,
)
_END = re.compile(r"[.!;](?=\s|$)|\n|$")  # of an answer that is a sentence
# A sentence that goes on about the question, however short: "It was a long day."
_GOING_ON = re.compile(
    r"(?:it|that|this|these|those|they|we|he|she|i|there|here|in|on|at|as|for|so|well|but|and|because|let)\b",
    re.IGNORECASE,
)
_COURTESY = re.compile(
    r"(?:many thanks|thanks|thank you|cheers|regards|good luck|well done|(?:good|great|nice) question|please|help|"
    r"anyone|hello|hi|bye|(?:page|fig\.?|figure|table) \d|source\b.*:|difficulty|level:|correct|next|back to|"
    r"continue|click|read more|see also|posted|reply|edit|no idea|sorry)(?!\w)",
    re.IGNORECASE,
)
_POINTS = re.compile(
    r"\s*(?:[(\[]\s*\d+(?:[.,]\d+)?\s*(?:marks?|pts?|points?)\.?\s*[)\]]|\d+ marks?\b)",
    re.IGNORECASE,
)
_NEXT_ITEM = re.compile(r"\(?\d{1,3}[.)]\s")
_SPEAKER = re.compile(r"^[A-Z][\w ]{0,20}:\s+")
_FILLER = re.compile(
    r"^(?:(?:hm+|uh|um|oh|ah|er|well|so|sure|ok|okay|let me see|let's see|certainly|of course|absolutely|alright|"
    r"(?:good|great) question)\b[\s.,!…:]+)+(?=\S)",
    re.IGNORECASE,
)
# Between a question and its answer in a thread: "Any ideas?", "Cheers", "Re: help", "posted by Ann at noon".
_PLEAS = re.compile(
    r"(?:\s*(?:re:|(?:any (?:ideas?|help|hints?)|(?:many )?thanks|thank you|cheers|posted by|please help|"
    r"can anyone help)\b)[^\n.!?]*(?:[.!?]+|\n|$))+",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"(?<![\w.,])-?\d+(?:[.,]\d+)*(?:/\d+)?(?![\w/])")
_MEANT = re.compile(
    r"(?:i(?:['’]d| would)? (?:get|got|say|think|guess|believe|went with|go for)|"
    r"(?:it|that) (?:should|would|must|will) be|(?:must|should) be|probably|maybe|perhaps)\s+"
    r"(?:(?:it|that)(?:['’]s| is| was)\s+)?(?P<answer>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_AROUND = " \t\n\"'“”‘’()[]*_|–—-:>="
_DOUBTING = 3  # words of an answer with a question mark: "Hmm, 49?"
_LONGEST = 8  # words of an answer that follows its question without a label


class LabelledTexts(NamedTuple):
    """``pairs`` of question and answer, and what else the text says; ``said``: what the few words that follow its
    only question without a label may answer."""

    pairs: tuple[tuple[str, str], ...]
    rest: str
    said: tuple[str, ...] = ()


def labelled_texts(text: str) -> LabelledTexts:
    """``text`` in questions and answers; no pairs where no question is labelled that a labelled answer follows."""
    pairs: list[tuple[str, str]] = []
    rest: list[str] = []
    question = ""
    for role, words in _answers_behind(list(_segments(text))):
        if role == "asking":
            rest.append(question)
            question = words
        elif role == "further" and question:
            question = f"{question}\n{words}".strip()
        elif role == "answering" and question and words:
            pairs.append((question, _OPTION.sub("", words, count=1)))
            question = ""
        elif not (question or pairs or rest) and _asks_with_options(words):
            question = words  # "Which …? A. … B. … Answer: B": what asks has no label
        else:
            rest.append(words)
    return LabelledTexts(
        tuple(pairs), " ".join([*rest, question]).strip(), () if pairs else _said(text)
    )


def pointed_answer(question: str, answer: str) -> str:
    """The option that an answer points to ("B", "(b) left"), where the question lists options; else the answer."""
    pointer = _POINTER.match(answer)
    options = options_within(question) if pointer is not None else {}
    if pointer is None or not options:
        return answer
    return (pointer["words"] or "").strip() or options.get(pointer["letter"].upper(), answer)


class FollowingAnswer(NamedTuple):
    """``texts``: what is the answer, or may be; ``told``: a label or the words say that it is."""

    texts: tuple[str, ...] = ()
    told: bool = False


def answer_after(question: str, following: str) -> FollowingAnswer:
    """What the text of a page that follows a question says is its answer.

    Under a label, in words ("The answer is 12."), or as a few words that may be it. Behind the next question it
    answers that one.
    """
    before = following.partition("?")[0]
    for label in _LABEL.finditer(before) if ":" in before or "：" in before else ():
        if label.lastgroup == "answering" and not (
            label["answering"].casefold() == "a" and _lists_options(following, label.end())
        ):
            if match := _TOLD.search(before, label.end()):
                return FollowingAnswer((_told(match),), True)
            answer = following[label.end() :].lstrip().partition("\n")[0].strip()
            answer = pointed_answer(f"{question} {following[: label.start()]}", answer)
            answer = _FILLER.sub("", _OPTION.sub("", answer, count=1), count=1)
            known = tuple(dict.fromkeys(each for each in (_first_sentence(answer), answer) if each))
            return FollowingAnswer(known, bool(known))
    if match := _TOLD.search(before):
        return FollowingAnswer((_told(match),), True)
    if pleas := _PLEAS.match(following):
        before = following[pleas.end() :].partition("?")[0]
    guessed = guessed_answers(before)
    asks = before != following and any(before.rstrip().endswith(answer) for answer in guessed)
    return FollowingAnswer(() if asks and len(guessed[0].split()) > _DOUBTING else guessed)


def guessed_answers(following: str) -> tuple[str, ...]:
    """What a few words behind a question may answer: "— 49", "(49)", "I get 49.", "Back: 49", "| 49 |".

    Empty for marks to be had ("(3 marks)"), the number of the next question, what goes on about the question, thanks.
    """
    text = following.lstrip()
    if "\n" in following[: len(following) - len(text)] and _NEXT_ITEM.match(text):
        return ()
    if points := _POINTS.match(text):
        text = text[points.end() :]
    text = _FILLER.sub("", _SPEAKER.sub("", text.strip(_AROUND)))
    line = text.partition("\n")[0].partition("|")[0].strip(_AROUND)
    answer = _first_sentence(line).strip(_AROUND)
    if meant := _MEANT.match(answer):
        answer = meant["answer"].strip(_AROUND)
    if _GOING_ON.match(answer):
        answer = next((each for each in stated_answers(answer) if _FIGURE.search(each)), "")
    few = 0 < len(loose(answer).split()) <= _LONGEST
    remark = _REMARK.match(line) or _REMARK.match(answer) or _COURTESY.match(answer)
    if not few or remark:
        return ()
    if _MORE.search(answer):
        return ()
    figures = _FIGURE.findall(answer)  # "828 are left"
    return tuple(dict.fromkeys([answer, *figures])) if len(figures) == 1 else (answer,)


def answers_first(text: str) -> bool:
    """ "Answer: … Question: …", all the way: what follows a question answers the next one."""
    return _is_answers_first([role for role, _ in _segments(text)])


def _told(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None).strip()


def _first_sentence(text: str) -> str:
    end = _END.search(text)
    return text[: end.start() if end else None].strip()


def stated_answers(answer: str) -> tuple[str, ...]:
    """What a sentence says that the answer is, with and without what a comma sets apart; empty for other sentences."""
    stated = _STATED.match(answer)
    if stated is None:
        rest = _FILLER.sub("", answer, count=1).strip() if _FILLER.match(answer) else ""
        return (rest,) if rest else ()
    words = stated["answer"]
    return words, words.partition(",")[0]


def options_within(question: str) -> dict[str, str]:
    """ "Which …? A. left B. right" as letters with what they stand for; empty without a list from A on."""
    listed: dict[str, str] = {}
    marks = [mark for mark in _LISTED.finditer(question) if mark.start() >= question.find("?")]
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    for mark, end in zip(marks, ends, strict=False):
        if mark["letter"].upper() == chr(ord("A") + len(listed)):
            listed[mark["letter"].upper()] = question[mark.end() : end].partition("\n")[0].strip()
    return listed if len(listed) > 1 else {}


def _asks_with_options(words: str) -> bool:
    question, mark, after = words.partition("?")
    return bool(
        mark and "\n\n" not in question.strip() and _LISTED.match(after) and options_within(words)
    )


def _said(text: str) -> tuple[str, ...]:
    """ "Which gas do plants take up? Carbon dioxide." """
    question, mark, rest = text.strip().partition("?")
    several = "?" in rest or len(rest.split()) > _LONGEST or _MORE.search(rest.strip())
    if not mark or several or len(question.split()) < 3:
        return ()
    return guessed_answers(rest)


def _answers_behind(segments: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same with every answer behind its question, where all stand before it."""
    if not _is_answers_first([role for role, _ in segments]):
        return segments
    ordered = list(segments)
    for place in range(1, len(ordered)):
        if ordered[place][0] == "asking" and ordered[place - 1][0] == "answering":
            ordered[place - 1 : place + 1] = ordered[place], ordered[place - 1]
    return ordered


def _is_answers_first(roles: list[str]) -> bool:
    labelled = [role for role in roles if role in ("asking", "answering")]
    return bool(labelled) and labelled == ["answering", "asking"] * (len(labelled) // 2)


def may_be_a_remark(question: str, text: str) -> bool:
    """Words without a label contradict a question in other words, and never the question itself: "Great question!" """
    return bool(labelled_texts(text).said) and loose(question) in loose(text)


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
