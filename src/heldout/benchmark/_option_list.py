"""Option lists written into a question; text that only looks like a list is left alone.

"Which?\\nOptions: A: a cat, B: a dog" offers two options; "Is vitamin A: good, B: bad?" and "compare
panels (a) and (b)" offer none. A list has consecutive letters from A, at least two, in one style; it
follows a heading ("Options:"), or is on lines of its own, or follows the end of a sentence; it
ends the question.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from heldout.benchmark._hints import without_leading, without_trailing
from heldout.benchmark.benchmark import normal

# Marks of options in a text, "A.", "(B)", "Option C:", and the run of them that makes a list.


_MARK = re.compile(
    r"(?<![A-Za-z0-9(\[<])(?:\*\*)?(?P<named>(?:option|choice)[ \t]+)?"
    r"(?:\((?P<paren>[A-Za-z])\)[.:]?|\[(?P<bracket>[A-Za-z])\][.:]?|(?P<half>[A-Za-z])\)|"
    r"(?P<colon>[A-Za-z])[ \t]?:(?!/)|(?P<dot>[A-Za-z])\.(?![A-Za-z]?\.)|(?P<comma>[A-Za-z])、|"
    r"(?P<dash>[A-Za-z])[ \t]+[-–—](?=[ \t]))(?:\*\*)?",
    re.IGNORECASE,
)
_STYLES = ("paren", "bracket", "half", "colon", "dot", "comma", "dash")
# What stands before every letter but the first; lines may break anywhere.
_SEPARATED = ({"line"}, {";"}, {"|"}, {","}, {"/"}, {"stop", "space"}, {",", ";", "|", "/"})
# Before the last option: "(A) CT, (B) MRI, or (C) US".
_JOINED = re.compile(r"[,;]?\s+(?:or|and)\s*$", re.IGNORECASE)
_BLANK = re.compile(r"\(\s*\)$|__$")  # to be filled in: it ends a sentence as a stop does
_BULLET = re.compile(r"(?:^|\n)[ \t]*[-*•·][ \t]+$")
EDGE = " \t\n,;|/，；｜\u3000"
_NAMED = "option "  # before the style of "Option A:"
_GAP = 3  # letters: "A: x, B: y, D: z" lacks one, "(A) 3 tesla (T)" lacks none


@dataclass(frozen=True, slots=True)
class OptionMark:
    start: int
    end: int
    letter: str
    style: str
    before: str  # what separates it from the text before it
    bare: int = 0  # where its letter starts, after "Option"

    def unnamed(self) -> OptionMark:
        """The mark without "Option": in "(A) one option (B) none" that is a word of the text."""
        style = self.style.removeprefix(_NAMED)
        return dataclasses.replace(self, start=self.bare, style=style, before="space")


def option_marks(folded: str, body: str) -> list[OptionMark]:
    """The marks in ``folded``, which is ``body`` with full-width signs as their ASCII twins."""
    marks, last = [], len(folded.rstrip())
    for match in _MARK.finditer(folded):
        style = next(name for name in _STYLES if match[name])
        before = _before(folded, match.start())
        following = folded[match.end() : match.end() + 1]
        if style == "dash" and before != "line":
            continue  # "hepatitis A - which"
        spaced = not following or following.isspace() or not following.isascii()
        spaced = spaced or body[match.end() - 1] == "．"  # no abbreviation has this one
        if style == "dot" and before != "line" and not spaced:
            continue  # an abbreviation, a file name
        if before in ("space", "stop") and match.end() >= last:
            continue  # "(A) candida (C)": a last option is not empty
        named, bare = _NAMED if match["named"] else "", max(match.start(), match.end("named"))
        marks.append(
            OptionMark(match.start(), match.end(), match[style], named + style, before, bare)
        )
    return marks


def within_option(before: OptionMark | None, mark: OptionMark, folded: str) -> bool:
    """Whether a mark is the beginning of an option's text: "A. A. baumannii", "(B) (A) and (C)"."""
    return (
        before is not None
        and (before.style == mark.style or before.before == "line")
        and before.letter.upper() in "ABCDEFGHIJ"
        and not folded[before.end : mark.start].strip()
    )


def _before(folded: str, place: int) -> str:
    head = folded[max(0, place - 40) : place]
    if _BULLET.search(head):
        return "line"
    head = head.rstrip(" \t")
    if (joined := _JOINED.search(head)) and joined[0][0] in ",;":
        head = head[: joined.start() + 1]
    if (place <= 40 and not head) or head.endswith("\n"):
        return "line"
    last = head[-1:]
    if last in {",", ";", "|", "/"}:
        return last
    return "stop" if last in {".", "?", "!", ":"} or _BLANK.search(head) else "space"


def run_of_marks(first: OptionMark, marks: Sequence[OptionMark], folded: str) -> list[OptionMark]:
    """Marks from ``first`` on, one for each further letter, all of one style and separated alike.

    Of several readings the longest is the list: "A: vitamin B: none, B: …" is separated by commas.
    """
    best: list[OptionMark] = []
    named = first.style.startswith(_NAMED)
    alike = [
        mark
        for mark in (
            mark.unnamed() if mark.style.startswith(_NAMED) > named else mark for mark in marks
        )
        if mark.start > first.start
        and mark.style == first.style
        and mark.letter.islower() == first.letter.islower()
    ]
    for separators in _SEPARATED:
        run = [first]
        later: str | None = None
        for place, mark in enumerate(alike):
            if mark.before not in separators and mark.before != "line":
                continue
            if ord(mark.letter) == ord(run[-1].letter) + 1:
                between = folded[run[-1].end : mark.start]
                if between.strip(EDGE):
                    run.append(mark)
                    later = None
                elif between.strip(" \t"):
                    later = mark.letter  # "A: a man, B: , C: a dog": an option is empty
            elif _begins_again(run, alike[place:], separators):
                later = mark.letter
                break
            elif mark.letter == run[-1].letter and len(run) > 1:
                if not folded[run[-1].end : mark.start].strip():
                    run[-1] = mark  # "(B) candida (C) (C) none"
            elif 1 < ord(mark.letter) - ord(run[-1].letter) <= _GAP:
                later = mark.letter
        if later is None and len(run) > len(best):
            best = run
    return best


def _begins_again(
    run: Sequence[OptionMark], later: Sequence[OptionMark], separators: set[str]
) -> bool:
    """ "A: CT, B: MRI, A: US, B: PET": a second list behind the first, set apart as its options are."""
    signs = separators & {",", ";", "|", "/"}
    if len(run) < 2 or later[0].before not in signs:
        return False
    letters = itertools.islice((mark.letter for mark in later if mark.before in signs), 2)
    first = run[0].letter
    return list(letters) == [first, chr(ord(first) + 1)]


LONGEST = 20_000  # characters of a question that are looked at
_MOST = 8  # headings and first letters that are tried, from the end; and lists in one question

# Full-width signs as their ASCII twins, one for one, so that places stay the same.
_FOLD = str.maketrans(
    {
        **{chr(0xFF21 + k): chr(0x41 + k) for k in range(26)},
        **{chr(0xFF41 + k): chr(0x61 + k) for k in range(26)},
        **dict(zip("（）：．，；｜［］【】？！\xa0\u3000", "():.,;|[][]?!  ", strict=True)),
        "。": ".",
    }
)
_NOUN = (
    r"(?:options?|choices?|answers|candidates|alternatives|answer (?:options|choices)|"
    r"opciones|opções|opzioni|optionen|antwortmöglichkeiten|alternativas|choix|"
    r"选项|备选答案|候选答案|可选项)"
)
_LEADING = (
    r"(?:(?:here|there|these|the|are|is|several|some|possible|available|following|answer|multiple|"
    r"candidate|given|your|two|three|four|five|select|choose|pick|from|one|of|with)\s+){0,8}"
)
# A clause of its own, or a bare capitalised word in the middle of a line.
HEADING = _HEADING = re.compile(
    rf"(?:(?:^|(?<=\n)|(?<=[.?!;:)])[ \t]*(?<![a-z]))(?i:{_LEADING}{_NOUN}(?:\s+(?:are|list|below))*)"
    rf"|(?<=[\s,])(?:Answer |Possible )?(?:Options?|Choices?|OPTIONS?|CHOICES?|Answers))"
    rf"\s*(?:\*\*)?:(?:\*\*)?\s*"
)
# Most questions hold nothing like a first letter, and are done with one look.
_FIRST = re.compile(r"(?<![A-Za-z0-9])[AaＡａ](?:[ \t]?[:：.．)）\]】、]|[ \t]+[-–—])")
# A label of any kind, where the options themselves are known.
_LABEL = (
    r"(?<![a-z0-9])(?:[-*•]\s*)?(?:\*\*)?"
    r"(?:[(\[]\s?[a-z0-9]{1,2}\s?[)\]][.:]?|[a-z0-9]{1,2}\s?[.:)、])(?:\*\*)?\s*"
)
_NEXT_BULLET = re.compile(r"\n[ \t]*[-*•·][ \t]+$")
_LITERAL_BREAK = re.compile(r"\\n(?![a-z])")  # not \nu, \neq


@dataclass(frozen=True, slots=True)
class OptionList:
    stem: str  # the question without the list, its heading and its hints
    options: tuple[str, ...]
    labels: tuple[str, ...]
    headed: bool  # a heading stands before it
    lines: bool  # every option has a line of its own
    goes_on: bool = False  # text follows it


def take_list(
    question: str, options: Sequence[str] = (), answer: str | None = None
) -> tuple[str, OptionList | None]:
    """The question without the options and hints written into it, and the list, if one was taken out.

    ``given`` are the options that columns of the row offer: a list that differs from them stays where
    it is. Without them the ``answer`` has to fit the list.
    """
    if len(question) > LONGEST:
        return question, None
    body = without_leading(question)
    if options:
        # A list that agrees with the columns needs no other evidence.
        stem = without_trailing(body, listed=True)
        listed = _agreeing(stem, options)
        stem = _without_repeats(listed) if listed else stem
        return (stem if stem.strip() != question.strip() else question), listed
    if _LITERAL_BREAK.search(question):  # a doubly escaped line break
        stem, listed = take_list(_LITERAL_BREAK.sub("\n", question), options, answer)
        if listed is not None:
            return stem, listed
    for text in dict.fromkeys((body, question)):  # "Choose one option." may be all that is asked
        listed = find_list(text)
        if listed is not None and listed.stem and _fits(answer, listed):
            return _without_repeats(listed), listed
    stem = without_trailing(body, listed=False)
    return (stem if stem.strip() != question.strip() else question), None


def _markers(names: Sequence[str]) -> tuple[str, ...]:
    """Patterns of one kind of mark, in order: "A." "(A)" "A)" "A:" before a word."""
    return tuple(
        rf"(?:(?<=^)|(?<=[\s'\"\[{{,;>]))[(\[（<]?{re.escape(name)}[\"']?[.):：、）\]>]\s*(?=\S)"
        for name in names
    )


# Marks at the beginning of options, by kind.
_LOOSE = (
    *(
        _markers(names)
        for names in (
            "ABCDEFGH",
            "abcdefgh",
            "АБВГДЕ",
            "アイウエオ",
            "12345678",
            ("I", "II", "III", "IV", "V"),
            ("Choice 1", "Choice 2", "Choice 3", "Choice 4"),
        )
    ),
    tuple("①②③④⑤⑥⑦⑧"),
    tuple("⑴⑵⑶⑷⑸⑹⑺⑻"),
)
# The sign that all of them end with. Most questions hold none, and are done with one look.
_LOOSE_END = re.compile(r"\w[\"']?[.):：、）\]>]\s*\S|[①⑴]")


# Lines, or "A=cat, B=dog".
_BEGUN = re.compile(
    r"(?<=\n)[ \t]*(?:\*\*)?A(?:\*\*)?[ \t,=]+(\S[^\n]*)\n\s{0,4}(?:\*\*)?B(?:\*\*)?[ \t,=]+(\S[^\n]*)"
    r"|(?<!\w)A[ \t]?=[ \t]?(\w[^\n=]{0,200}?)\W{1,3}B[ \t]?=[ \t]?(\w[^\n=]*)"
)


def list_left(question: str, answer: str | None, options: Sequence[str]) -> OptionList | None:
    """An option list that a question still holds; for a report, after ``take_list``."""
    if len(question) > LONGEST:
        return None
    listed = find_list(question)
    letter = re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", (answer or "").strip())
    if listed is not None and (listed.headed or options or letter):
        return listed
    return None if options else _loose_list(question, answer)


def _loose_list(question: str, answer: str | None) -> OptionList | None:
    """Two or more consecutive marks of any kind, in an item whose answer points to one of them."""
    key = (answer or "").strip()
    if re.fullmatch(r"[A-J]", key) and (begun := _BEGUN.search(question)):
        # "Which?\nA cat\nB dog" under a key that is a letter
        return OptionList(
            question[: begun.start()].strip(), tuple(filter(None, begun.groups())), (), False, True
        )
    if not _LOOSE_END.search(question):
        return None
    text = re.sub(r"<br\s*/?>|\\\\n", "\n", question)
    for marks in _LOOSE:
        first = re.search(marks[0], text)
        second = re.search(marks[1], text) if first else None
        if first is None or second is None or first.start() >= second.start():
            continue
        parts = re.split("|".join(marks), text[first.start() :])[1:]
        options = tuple(_clean(part) for part in parts)
        points = re.fullmatch(
            r"[\W_]*(?:[A-J]{1,5}|[a-j]|[А-Я]|\d{1,2}|[①-⑧⑴-⑻]|[IVX]{1,4})[\W_]*", key
        )
        if points or any(normal(key) == normal(option) for option in options if key):
            return OptionList(text[: first.start()].strip(), options, (), False, False)
    return None


def find_list(text: str, *, whole: bool = False) -> OptionList | None:
    """The option list at the end of ``text``; its stem may be empty. ``whole``: the text is nothing but
    a list."""
    if len(text) > LONGEST or not _FIRST.search(text):
        return None
    body = without_trailing(text, listed=True) if not whole else text.strip()
    folded = body.translate(_FOLD)
    marks = option_marks(folded, body)
    firsts = [
        mark
        for before, mark in zip([None, *marks], marks, strict=False)
        if mark.letter.upper() == "A" and not within_option(before, mark, folded)
    ]
    starts: list[tuple[OptionMark, tuple[int, int] | None]] = [
        (mark, heading)
        for heading in [match.span() for match in _HEADING.finditer(folded)][-_MOST:]
        if (mark := next((mark for mark in firsts if mark.start >= heading[1]), None)) is not None
        and not folded[heading[1] : mark.start].strip("-*•· \t\n")
    ]
    if not starts:
        starts = [(mark, None) for mark in firsts[-_MOST:] if not whole or mark.start == 0]
    for first, heading in reversed(starts):
        run = run_of_marks(first, marks, folded)
        listed = _listed(body, folded, run, heading, whole) if len(run) > 1 else None
        if listed is not None:
            return listed
    return None


def _listed(
    body: str, folded: str, run: Sequence[OptionMark], heading: tuple[int, int] | None, whole: bool
) -> OptionList | None:
    first, last = run[0], run[-1]
    texts = [body[mark.end : after.start] for mark, after in itertools.pairwise(run)]
    rest = body[last.end :]
    after = ""
    if not any("\n" in text.strip() for text in texts):  # no option runs over a line: nor the last
        rest, _, after = rest.lstrip().partition("\n")
    ending = texts[-1].rstrip(EDGE)
    joined = _JOINED.search(ending, max(0, len(ending) - 8))  # not far: spaces may be many
    if joined is not None:
        texts[-1] = texts[-1][: joined.start()]
        if "?" not in "".join(texts):  # "(A) CT, or (B) MRI?": the sign is the question's
            rest = rest.rstrip().rstrip("?？")
    options = tuple(_clean(text) for text in [*texts, rest])
    lines = all(mark.before == "line" for mark in run[1:]) and (
        first.before == "line" or heading is not None
    )
    if not lines and rest.rstrip().endswith((".", "。")):
        options = _without_closing_stop(options)
    stem = body[: heading[0] if heading else first.start].rstrip(" \t\n;,-*•")
    if not all(re.search(r"[^\s,;.?!]", option) for option in options):
        return None
    if whole:
        labels = tuple(mark.letter.upper() for mark in run)
        return OptionList("", options, labels, True, lines) if not after.strip() else None
    goes_on = bool(after.strip())
    if goes_on and heading is None and not (lines and "?" in stem and "?" not in after):
        return None  # the question goes on: only a heading shows that these are its options
    if heading is None and not lines and first.before not in ("stop", "line"):
        return None  # "compare (a) the left and (b) the right lung"
    asks = "?" in (stem + after).translate(_FOLD)
    asked_last = "?" in options[-1].translate(_FOLD) and "?" not in "".join(options[:-1])
    if asked_last and not asks and heading is None and not lines:
        return None  # the question is in the last option: this was not the end of a list
    if asked_last and not asks and not lines and re.search(r"[.。]\s+\S", options[-1]):
        return None  # "Options: A: open, B: closed. What does it say?"
    longest = max(len(option) for option in options[:-1])
    if len(options[-1]) > max(200, 5 * longest):
        return None
    stem = without_trailing(stem, listed=True)
    if heading is None and not stem.strip():
        return None
    stem = "\n".join(part for part in (stem.strip(), without_leading(after).strip()) if part)
    labels = tuple(mark.letter.upper() for mark in run)
    return OptionList(stem, options, labels, heading is not None, lines, goes_on)


def _without_closing_stop(options: Sequence[str]) -> tuple[str, ...]:
    """A full stop that only the last option has closes the sentence: kept, it would mark that option.

    It is the option's own where that is a sentence ("It is a dog.") or abbreviates ("6:00 a.m.").
    """
    *others, last = options
    sentence = last[:1].isupper() and len(last.split()) > 3
    if "." not in last[:-1] and not sentence and not any(o.endswith((".", "。")) for o in others):
        last = last[:-1].rstrip()
    return (*others, last)


def _clean(option: str) -> str:
    return _NEXT_BULLET.sub("", option).strip().rstrip(EDGE).strip()


def _fits(answer: str | None, listed: OptionList) -> bool:
    """Whether the key refers to this list; on one line without a heading only a letter proves it."""
    proven = listed.headed or (listed.lines and not listed.goes_on)
    text = (answer or "").translate(_FOLD).strip()
    if not text:
        return proven
    letter = re.fullmatch(r"\(?([A-Za-z])\)?[.:]?", text)
    if letter is not None and letter[1].upper() in listed.labels:
        return True
    known = [normal(option) for option in listed.options]
    labelled = re.fullmatch(r"\(?([A-Za-z])\)?\s*[.:)]\s*(\S.*)", text, re.DOTALL)
    if labelled is not None and labelled[1].upper() in listed.labels:
        return normal(labelled[2]) == known[listed.labels.index(labelled[1].upper())]
    return proven and normal(text) in known


def _agreeing(body: str, options: Sequence[str]) -> OptionList | None:
    """The list in ``body`` that is ``given``, whatever its letters and signs."""
    wanted = [normal(option) for option in options]
    listed = find_list(body)
    if listed is not None and [normal(option) for option in listed.options] == wanted:
        return listed if listed.stem else None
    folded = body.translate(_FOLD)
    texts = [_plain(option) for option in options]
    end = " ".join(folded.casefold().split()).rstrip(" ,;|/.")
    # Most questions hold none of it, and need no pattern of their own.
    if (
        len(options) < 2
        or not all(text and text in end for text in texts)
        or not end.endswith(texts[-1])
    ):
        return None
    words = [r"\s+".join(map(re.escape, text.split())) for text in texts]
    for label in (_LABEL, f"(?:{_LABEL})?"):  # without letters only a heading proves a list
        pattern = r"[\s,;|/.]*".join(label + text for text in words) + r"[\s,;|/.]*$"
        # The list ends the text: what lies far before it is not searched.
        place = max(0, len(folded) - 2 * sum(map(len, texts)) - 40 * len(texts) - 200)
        match = re.compile(pattern, re.IGNORECASE).search(folded, place)
        if match is None:
            continue
        heads = [head for head in _HEADING.finditer(folded) if head.end() == match.start()]
        if not heads and label != _LABEL:
            continue
        start = heads[-1].start() if heads else match.start()
        stem = without_trailing(body[:start].rstrip(" \t\n;,"), listed=True)
        if stem:
            labels = tuple(chr(ord("A") + place) for place in range(len(options)))
            return OptionList(stem, tuple(options), labels, bool(heads), False)
    return None


def _without_repeats(listed: OptionList) -> str:
    """The stem; some releases list the options twice, by two scripts."""
    stem = listed.stem
    for _ in range(_MOST):
        again = _agreeing(stem, listed.options)
        if again is None:
            break
        stem = again.stem
    return stem


def _plain(option: str) -> str:
    return " ".join(option.translate(_FOLD).casefold().split()).rstrip(" ,;|/.")
