"""Closed questions as choices: yes or no, and "is it left or right?" where the answer is one of the two."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from heldout.benchmark import Benchmark, Example, same
from heldout.store import Dropped

STAGE = "questions"
_POLES = {"yes": 0, "no": 1}
_TYPE = "answer_type"
_CLOSED = "closed"
_SPACES = re.compile(r"\s+")
_OR = re.compile(r"\s+or\s+", re.IGNORECASE)
_BETWEEN = re.compile(r"\s*,\s*or\s+|\s*,\s*|\s+or\s+", re.IGNORECASE)
_WHICH = re.compile(r"(?:which|what|where)\b", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:an?|the|just)\s+", re.IGNORECASE)
_LONGEST = 4  # words of an alternative


def only_choices(benchmark: Benchmark) -> Benchmark:
    """Items that have options; the others are dropped with the reason."""
    return _kept(benchmark, lambda example: example if example.options else "no options")


def closed_as_choices(benchmark: Benchmark) -> Benchmark:
    """Closed questions with options, in the released order; open ones are dropped with the reason.

    A question is closed if the benchmark says so (``answer_type``), if its answer is yes or no, or if it
    has options already.
    """
    return _kept(benchmark, _closed)


def _closed(example: Example) -> Example | str:
    if example.options:
        return example
    answer = same(example.answer or "")
    kind = str(example.metadata.get(_TYPE) or "").strip().lower()
    if kind and kind != _CLOSED:
        return "open question"
    if answer in _POLES:
        return replace(
            example,
            options=("Yes", "No"),
            answer=("Yes", "No")[_POLES[answer]],
            answer_index=_POLES[answer],
        )
    if not kind:
        return "open question"
    options = alternatives(example.question or "", example.answer or "")
    if options is None:
        return "closed question without readable alternatives"
    place = [same(option) for option in options].index(answer)
    return replace(example, options=options, answer=options[place], answer_index=place)


def alternatives(question: str, answer: str) -> tuple[str, ...] | None:
    """The alternatives that a question names, in the question's words; None where it is not among them.

    "Which is bigger, liver or spleen?" lists them after the clause; "Is it on the left or right side?"
    names them around "or", as many words on either side as the answer has.
    """
    text = _SPACES.sub(" ", question.strip().rstrip("?. "))
    wanted, size = same(answer), len(answer.split())
    if not wanted or size > _LONGEST or not _OR.search(text):
        return None
    clause, comma, tail = text.partition(",")
    if comma and _WHICH.match(clause) and _OR.search(f" {tail}"):
        listed = [part for part in _BETWEEN.split(tail) if part.strip()]
    else:
        listed = _around(text, size)
    listed = [_ARTICLE.sub("", part.strip()) for part in listed]
    matching = [n for n, phrase in enumerate(listed) if same(phrase) == wanted]
    if (
        len(matching) != 1
        or len({same(option) for option in listed}) != len(listed)
        or len(listed) < 2
    ):
        return None
    # All in the question's words: the answer's own capitals would give it away.
    return tuple(f"{option[:1].upper()}{option[1:]}" for option in listed)


def _around(text: str, size: int) -> list[str]:
    before, after = _OR.split(text, maxsplit=1)
    first, *middle = [part.split() for part in before.rstrip(", ").split(",")]
    words = _ARTICLE.sub("", after).split()
    shared = words.index(first[-1]) if not middle and first[-1] in words else 0
    if shared:  # "T1 weighted or T2 weighted": a word that both have belongs to neither
        return [" ".join(first[-1 - shared : -1]), " ".join(words[:shared])]
    own = len(middle[0]) if middle else size
    return [" ".join(span) for span in (first[-own:], *middle, words[:size])]


def _kept(benchmark: Benchmark, choose: Callable[[Example], Example | str]) -> Benchmark:
    kept: list[Example] = []
    dropped: list[Dropped] = list(benchmark.dropped)
    for example in benchmark:
        choice = choose(example)
        if isinstance(choice, Example):
            kept.append(choice)
        else:
            detail = f"{example.question or '':.80} | {example.answer or '':.40}"
            dropped.append(Dropped(STAGE, example.id, choice, detail))
    return replace(benchmark, examples=tuple(kept), dropped=tuple(dropped))
