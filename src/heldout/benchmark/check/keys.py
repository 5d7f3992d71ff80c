"""Rules about keys: how the file writes the right option, and whether that can be read two ways."""

from __future__ import annotations

import re
from collections.abc import Iterator

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.example import Example
from heldout.benchmark.normal import normal

_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")
_MOST = 0.8  # of the keys that make a column one of letters, or one of texts


def key_rules(benchmark: Benchmark) -> Iterator[Problem]:
    keyed = [e for e in benchmark if e.options and e.key and e.answer_index is not None]
    yield from _mixed(keyed)
    yield from _ambiguous(keyed)


def _mixed(keyed: list[Example]) -> Iterator[Problem]:
    """Some keys are texts among letters, or letters among texts."""
    letters, texts = [], []
    for example in keyed:
        if _text_place(example) is not None:
            # A letter that is also an option's text fits both: the next rule is about those.
            if _letter_place(example) is None:
                texts.append(example)
        elif _letter_place(example) is not None:
            letters.append(example)
    n = len(letters) + len(texts)
    if not letters or not texts or max(len(letters), len(texts)) < _MOST * n:
        return
    few, kind, others = (
        (texts, "the text of an option", "letters")
        if len(texts) < len(letters)
        else (letters, "a letter", "texts of options")
    )
    yield problem(
        "mixed-keys",
        "warning",
        f"{len(few):,} of {len(keyed):,} keys are {kind} where the others are {others}",
        "write all keys alike: a grader that expects one kind counts every answer to these items "
        "as wrong",
        [f"{e.id}: '{e.key}' (option {_name(e.answer_index)})" for e in few],
        len(keyed),
    )


def _ambiguous(keyed: list[Example]) -> Iterator[Problem]:
    """The key is the letter (or the position) of one option and the text of another."""
    affected = []
    for example in keyed:
        text, place = _text_place(example), _letter_place(example)
        if place is None and example.key == str(example.answer_index):
            place = example.answer_index  # read as a position
        if text is not None and place is not None and text != place:
            read = _name(example.answer_index)
            affected.append(
                f"{example.id}: '{example.key}' is option {_name(place)} "
                f"('{example.options[place]:.40}') or the text of option {_name(text)}; read as {read}"
            )
    if affected:
        yield problem(
            "ambiguous-key",
            "warning",
            f"{len(affected):,} of {len(keyed):,} keys are the letter of one option and the text of "
            f"another",
            "rename these options or grade by position: a reply that is only this letter can mean "
            "either option",
            affected,
            len(keyed),
        )


def _letter_place(example: Example) -> int | None:
    match = _LETTER.fullmatch((example.key or "").strip())
    place = ord(match[1].upper()) - ord("A") if match else -1
    return place if 0 <= place < len(example.options) else None


def _text_place(example: Example) -> int | None:
    """Which option has the key as its text."""
    texts = [normal(option) for option in example.options]
    key = normal(example.key)
    return texts.index(key) if key in texts else None


def _name(place: int | None) -> str:
    return chr(ord("A") + (place or 0))
