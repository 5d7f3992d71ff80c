"""Rules about the text of items, empty, constant, repeated or contradictory, and about how it was released."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator

from heldout.benchmark._option_list import OptionList, list_left, take_list
from heldout.benchmark._option_values import find_unlettered
from heldout.benchmark.benchmark import RELEASED, Benchmark, Example, canonical_value, normal
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.fields import OPTION_NAMES
from heldout.benchmark.presets import find_preset
from heldout.errors import counted
from heldout.image import Digests, ImageError

_CONSTANT_FROM = 20  # fewer items may agree by chance
# Names of columns with a model's reply beside the answer.
_PREDICTIONS = frozenset(
    {
        "prediction",
        "pred",
        "predicted",
        "predicted_answer",
        "reply",
        "response",
        "model_answer",
        "model_output",
        "model_response",
        "output",
    }
)


def text_rules(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _empty(benchmark, "question", lambda example: example.question)
    yield from _empty(benchmark, "answer", lambda example: example.answer)
    yield from _constant(benchmark)
    yield from _line_breaks(benchmark)
    yield from _options(benchmark)
    yield from _ids(benchmark)
    yield from _predictions(benchmark)


def label_rules(benchmark: Benchmark) -> Iterator[Problem]:
    """Rules that compare items which show the same picture."""
    yield from _repeats_and_contradictions(benchmark)


def picture_key(benchmark: Benchmark, example: Example) -> tuple[str, ...] | None:
    """The pixels an item shows, or None if any of its pictures cannot be read."""
    if not example.images:
        return None
    pixels = []
    for ref in example.images:
        digests = benchmark.digests[ref]
        if not isinstance(digests, Digests):
            return None
        pixels.append(digests.pixels)
    return tuple(pixels)


def _empty(
    benchmark: Benchmark, field: str, get: Callable[[Example], str | None]
) -> Iterator[Problem]:
    empty = [example.id for example in benchmark if not (get(example) or "").strip()]
    if not empty:
        return
    n = len(benchmark)
    if len(empty) == n:
        yield problem(
            f"no-{field}s",
            "warning",
            f"no item has {'an' if field == 'answer' else 'a'} {field}",
            f"fine for an image-only benchmark; otherwise name the column: the setting mapping {field}=COLUMN",
            empty,
            n,
        )
    else:
        yield problem(
            f"empty-{field}",
            "error",
            f"{len(empty):,} of {n:,} items have an empty {field}",
            f"fill or remove them: a score over an empty {field} measures nothing",
            empty,
            n,
        )


def _constant(benchmark: Benchmark) -> Iterator[Problem]:
    n = len(benchmark)
    answers = [example.answer for example in benchmark if example.answer]
    if len(answers) < _CONSTANT_FROM:
        return
    everyone = [example.id for example in benchmark]
    if len({normal(answer) for answer in answers}) == 1:
        yield problem(
            "constant-answer",
            "error",
            f"every answer is '{answers[0]:.40}'",
            "check the answer column (the setting mapping answer=COLUMN)",
            everyone,
            n,
        )
    elif len({len(answer) for answer in answers}) == 1:
        yield problem(
            "constant-answer-length",
            "error",
            f"every answer is {len(answers[0])} character(s) long, such as '{answers[0]:.20}'",
            "if these are letters, map the options (the setting mapping options=A+B+C+D) so that answers are text; "
            "likelihoods of constant-length answers and orders by answer length say nothing",
            everyone,
            n,
        )
    questions = [example.question for example in benchmark if example.question]
    if len(questions) >= _CONSTANT_FROM and len({normal(q) for q in questions}) == 1:
        yield problem(
            "constant-question",
            "warning",
            f"every question is '{questions[0]:.60}'",
            "fine for classification with one prompt; otherwise check the setting mapping question=COLUMN",
            everyone,
            n,
        )


def _line_breaks(benchmark: Benchmark) -> Iterator[Problem]:
    broken = [e.id for e in benchmark if e.question and re.search(r"[\r\n]", e.question)]
    if broken:
        yield problem(
            "line-break-in-question",
            "warning",
            f"{len(broken):,} of {len(benchmark):,} questions contain line breaks",
            "look at them for hints, options or a context that were left in the question; prompts "
            "and files of one item a line need them on one line",
            broken,
            len(benchmark),
        )


def _predictions(benchmark: Benchmark) -> Iterator[Problem]:
    """Replies of a model that a file keeps beside the answers, if any."""
    columns = dict.fromkeys(
        key for e in benchmark for key in e.metadata if key.lower() in _PREDICTIONS
    )
    for column in columns:
        empty = [
            e.id for e in benchmark if not (canonical_value(e.metadata.get(column)) or "").strip()
        ]
        if empty:
            yield problem(
                "empty-prediction",
                "warning",
                f"{len(empty):,} of {len(benchmark):,} items have an empty '{column}'",
                "ask the model again or leave these items out and say so: an empty reply is graded "
                "as wrong, and a failed request is no wrong answer",
                empty,
                len(benchmark),
            )


def _options(benchmark: Benchmark) -> Iterator[Problem]:
    choice = [example for example in benchmark if example.options]
    outside = [e.id for e in choice if e.answer is not None and e.answer_index is None]
    if outside:
        yield problem(
            "answer-not-in-options",
            "error",
            f"the answer of {len(outside):,} of {len(choice):,} multiple-choice items is not among "
            f"their options",
            "correct the key: these items cannot be answered right",
            outside,
            len(choice),
        )
    empty = [e.id for e in choice if not all(option.strip() for option in e.options)]
    if empty:
        yield problem(
            "empty-option",
            "error",
            f"{len(empty):,} of {len(choice):,} multiple-choice items offer an empty option between others",
            "fill it or take it out and correct the key: these items are not asked",
            empty,
            len(choice),
        )
    repeated = [
        e.id
        for e in choice
        if len({normal(o) for o in e.options if o.strip()})
        < sum(bool(o.strip()) for o in e.options)
    ]
    if repeated:
        yield problem(
            "repeated-option",
            "warning",
            f"{len(repeated):,} of {len(choice):,} multiple-choice items offer the same option twice",
            "make the options distinct: with two equal options one right answer is graded wrong",
            repeated,
            len(choice),
        )


def _ids(benchmark: Benchmark) -> Iterator[Problem]:
    repeated = list(benchmark.repeated_ids)
    if repeated:
        yield problem(
            "duplicate-id",
            "error",
            f"{counted(len(repeated), 'item repeats', 'items repeat')} the id of an earlier item (read here as id#2, "
            f"id#3, …)",
            "make ids unique: results keyed by id would silently overwrite each other",
            repeated,
            len(benchmark),
        )


def _repeats_and_contradictions(benchmark: Benchmark) -> Iterator[Problem]:
    groups: dict[tuple[object, ...], list[Example]] = defaultdict(list)
    for example in benchmark:
        pixels = picture_key(benchmark, example)
        if pixels is None or not (example.question or example.answer):
            continue
        options = tuple(sorted(normal(option) for option in example.options))
        groups[(pixels, normal(example.question), options)].append(example)
    repeated, against = [], []
    for (_, question, _), members in groups.items():
        if len(members) < 2:
            continue
        answers = {normal(member.answer) for member in members}
        if len(answers) < len(members):
            repeated.append(" = ".join(member.id for member in members))
        # Several captions of one picture are not a contradiction: there is no question to answer.
        if question and len(answers) > 1:
            message = ", ".join(f"{member.id}: {member.answer}" for member in members[:4])
            against.append(f"{members[0].question} ({message})")
    n = len(benchmark)
    if repeated:
        yield problem(
            "duplicate-item",
            "warning",
            f"{len(repeated):,} questions are asked twice of the same picture with the same answer",
            "remove the repeats: they count one item twice",
            repeated,
            n,
        )
    if against:
        yield problem(
            "contradictory-label",
            "error",
            f"{len(against):,} questions have different answers on the same picture",
            "settle the answer, or accept all of them when grading: no model can be right on all",
            against,
            n,
        )


# Rules about how a benchmark was released: options that were not read, and what a copy lacks.


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
    bare = unicodedata.normalize("NFKC", key).strip("().: ")
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
