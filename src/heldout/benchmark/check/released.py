"""Rules about how a benchmark was released: options that were not read, and what a copy lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from heldout.benchmark._option_list import OptionList, list_left, take_list
from heldout.benchmark._option_values import find_unlettered
from heldout.benchmark.benchmark import RELEASED, Benchmark, Example, canonical_value, normal
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.columns import OPTION_NAMES
from heldout.benchmark.presets import find_preset
from heldout.errors import counted
from heldout.image import ImageError

_LETTER = re.compile(r"\(?[A-Ja-j]\)?[.:]?")
_ENOUGH = 12  # keys: that many without a 0 happen by chance in 3 % of columns of four options


def released_rules(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _lists_left(benchmark)
    yield from _unread_options(benchmark)
    yield from _positions(benchmark)
    yield from _limits(benchmark)
    yield from _taken_for(benchmark)


def _positions(benchmark: Benchmark) -> Iterator[Problem]:
    """Keys that are positions, none of them 0 or the last: it is not clear whether they count from 0 or 1."""
    keyed = [
        example
        for example in benchmark
        if example.options
        and (example.key or "").strip().isdecimal()
        and example.answer_index == int(str(example.key))
        and example.answer not in (example.key, None)
    ]
    if len(keyed) < _ENOUGH or any(int(str(example.key)) == 0 for example in keyed):
        return
    yield problem(
        "positions-without-zero",
        "error",
        f"{len(keyed):,} keys are positions, and none of them is 0: they were read as counted from 0 "
        f"and may be counted from 1, which would make every key wrong",
        "look at some items; if they count from 1, write letters or the options' texts",
        [example.id for example in keyed],
        len(benchmark),
    )


def _lists_left(benchmark: Benchmark) -> Iterator[Problem]:
    """Option lists that reading did not take out: they contradict the options once those move."""
    against: list[str] = []
    unfit: list[str] = []
    unread: list[str] = []
    for example in benchmark:
        listed = list_left(example.question or "", example.answer, example.options)
        if listed is None and not example.options and example.answer:
            listed = find_unlettered(example.question or "")
        if listed is not None and not _taken_out(example):
            affected = against if example.options else unread if _points(example, listed) else unfit
            affected.append(example.id)
    if not against and not unfit and not unread:
        return
    n = len(against) + len(unfit) + len(unread)
    parts = []
    if against:
        parts.append(f"{len(against):,} differ from the item's options")
    if unfit:
        parts.append(f"{len(unfit):,} do not fit the item's answer")
    if unread:
        parts.append(
            f"{len(unread):,} fit the item's answer but are written, or stand, where reading them would be "
            f"a guess"
        )
    yield problem(
        "option-list-in-question",
        "error",
        f"{counted(n, 'question holds', 'questions hold')} an option list that was not taken out: "
        + ", ".join(parts),
        "correct the options, the list or the key, or write the list into a column of options: shown "
        "beside reordered options, the list contradicts them, and a score of the answer reads it in the "
        "question",
        [*against, *unfit, *unread],
        len(benchmark),
    )


def _points(example: Example, listed: OptionList) -> bool:
    """Whether the answer is one of the list's entries, or the letter or number of one."""
    key = (example.answer or "").strip()
    if normal(key) in map(normal, listed.options):
        return True
    bare = key.strip("().: ")
    if bare.isdecimal() and len(bare) < 3:
        return 0 < int(bare) <= len(listed.options)
    return len(bare) == 1 and 0 <= ord(bare.upper()) - ord("A") < len(listed.options)


def _taken_out(example: Example) -> bool:
    """Whether the item's options came out of its question: what is left there are statements to judge."""
    released = example.metadata.get(RELEASED)
    return (
        isinstance(released, str)
        and take_list(released, example.options, example.key)[1] is not None
    )


def _unread_options(benchmark: Benchmark) -> Iterator[Problem]:
    named = str(benchmark.settings.get("mapping", {}).get("options", "")).split("+")
    columns = {*OPTION_NAMES, *(name.strip().lower() for name in named if name.strip())}
    unread = [
        example.id
        for example in benchmark
        if not example.options
        and any(
            key.lower() in columns and canonical_value(value) is not None
            for key, value in example.metadata.items()
        )
    ]
    if unread:
        # An open question cannot be answered by a letter: its options were meant to be read.
        keys = {example.id: example.key or example.answer or "" for example in benchmark}
        lettered = any(_LETTER.fullmatch(keys[name].strip()) for name in unread)
        yield problem(
            "unread-options",
            "error" if lettered else "warning",
            f"{counted(len(unread), 'item has', 'items have')} something in the column of options that "
            f"is no list, and {'is' if len(unread) == 1 else 'are'} read as open "
            f"{'question' if len(unread) == 1 else 'questions'}"
            + (", with a letter as the answer" if lettered else ""),
            "expected a list, a mapping by letter, either as JSON or Python text, or 'A. …' by lines",
            unread,
            len(benchmark),
        )


def _taken_for(benchmark: Benchmark) -> Iterator[Problem]:
    if benchmark.taken_for:
        named = benchmark.settings.get("mapping", {})
        yield problem(
            "columns-without-names",
            "note",
            "no line names the columns; taken for, by what they hold: "
            + "; ".join(benchmark.taken_for[:3])
            + (
                f"; and the setting mapping {', '.join(f'{k}={v}' for k, v in named.items())}"
                if named
                else ""
            ),
            "where that is wrong, name them by their places: the setting mapping 'question=column 3'",
            list(benchmark.taken_for),
            len(benchmark.taken_for),
            "files",
        )


def _limits(benchmark: Benchmark) -> Iterator[Problem]:
    """Limits of this copy according to its preset."""
    name = benchmark.settings.get("preset") or benchmark.source.partition("#")[0]
    preset = find_preset(str(name))
    if preset is None:
        return
    columns = {key for example in benchmark for key in example.metadata}
    missing = any(isinstance(digest, ImageError) for digest in benchmark.digests.values())
    for limit in preset.limits(columns, missing or not benchmark.images):
        yield problem(
            "preset-limit",
            "note",
            f"{preset.name}: {limit}",
            f"{preset.about}; hub: {preset.hub}",
            [preset.name],
            1,
            "preset",
        )
