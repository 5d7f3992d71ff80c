"""Recorded answers, matched to the benchmark's items and to what was shown to the model."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import (
    RELEASED,
    Benchmark,
    Example,
    FileRow,
    canonical_text,
    grade,
    letter,
    read_whole,
    same,
)
from heldout.errors import InputError
from heldout.model.asking.forms import STAGE, Question, original, reordered
from heldout.model.asking.variants import WORDINGS
from heldout.model.prediction_files import Columns, as_text, as_truth, open_predictions
from heldout.model.request import Reply
from heldout.store import Dropped

# Recorded predictions as rows of answers: what was shown, the reply, and the file's own grade.


_LETTER = re.compile(r"[A-Z]")
_FAILED = "Failed to obtain answer"  # what VLMEvalKit writes where a request brought no reply


@dataclass(frozen=True)
class RecordedRow:
    """``position``: the item's position in its dataset according to lmms-eval, None elsewhere. ``own_grade``:
    how right the file calls the reply, 1 for right; None where it does not say."""

    where: str
    id: str | None
    reply: str | None
    model: str | None
    variant: str | None
    draw: int
    options: tuple[str, ...]
    gold: str | None
    question: str | None
    #: what was asked, with the words around the question
    prompt: str | None = None
    position: int | None = None
    own_grade: float | None = None
    #: which of several benchmarks the row is about, where one file holds answers to several
    benchmark: str | None = None
    prompt_tokens: int | None = None
    reply_tokens: int | None = None
    #: of every option shown, None where it is not known; empty where none are recorded
    choice_logprobs: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class RecordedFile:
    """``graded_by``: the column with the file's own grades, None where it has none."""

    rows: list[RecordedRow]
    columns: Columns
    graded_by: str | None
    dropped: list[Dropped] = field(default_factory=list)


def read_recorded_rows(
    path: Path, mapping: Mapping[str, str], known: Collection[str] = ()
) -> RecordedFile:
    """``known``: the benchmark's ids, which distinguish a column of ids from a column of row numbers."""
    rows, columns, dropped = open_predictions(path, mapping, known)
    own = columns.of("correct") or columns.of("score")
    listed = [_flat(path, row, columns, own) for row in rows]
    return RecordedFile(listed, columns, own, dropped)


def _flat(path: Path, row: FileRow, columns: Columns, own: str | None) -> RecordedRow:
    values = row.values
    where = f"{path.name} row {row.number}"
    draw = canonical_text(columns.cell(values, "draw")) or "0"
    if not draw.isdecimal():
        raise InputError(f"{where}: 'draw' is {draw!r:.40}; expected 0, 1, 2 …")
    place = canonical_text(columns.cell(values, "position")) or ""
    texts = {
        name: canonical_text(columns.cell(values, name))
        for name in ("id", "model", "variant", "answer", "question", "prompt")
    }
    reply = as_text(columns.cell(values, "prediction"))
    if reply is None and columns.holds(values, "prediction"):
        reply = ""  # null in JSON, an empty cell elsewhere: an empty reply
    elif reply is not None and reply.startswith(_FAILED):
        reply = None
    return RecordedRow(
        where,
        texts["id"],
        reply,
        texts["model"],
        texts["variant"],
        int(draw),
        _options(values, columns.cell(values, "options")),
        texts["answer"],
        texts["question"],
        texts["prompt"],
        int(place) if place.isdecimal() else None,
        own_grade(values.get(own)) if own is not None else None,
        canonical_text(columns.cell(values, "benchmark")),
        *_tokens(values, columns),
        _logprobs(where, columns.cell(values, "choice_logprobs")),
    )


def _logprobs(where: str, cell: Any) -> tuple[float | None, ...]:
    """A list of numbers, or the same as JSON in a cell of a table."""
    values = cell
    if isinstance(cell, str):
        try:
            values = json.loads(cell) if cell.strip() else None
        except ValueError:
            values = cell
    if values is None:
        return ()
    listed = values if isinstance(values, list | tuple) else [values]
    for value in listed:
        if not (value is None or (type(value) in (int, float) and value <= 0)):
            raise InputError(
                f"{where}: 'choice_logprobs' is {cell!r:.60}; expected a list of the log-probabilities of "
                f"the options as shown, none above 0, null where one is not known"
            )
    return tuple(None if value is None else float(value) for value in listed)


def _tokens(values: Mapping[str, Any], columns: Columns) -> tuple[int | None, int | None]:
    counts = [columns.cell(values, name) for name in ("prompt_tokens", "reply_tokens")]
    read, written = (
        int(count) if isinstance(count, int | float) and 0 <= count < 2**40 else None
        for count in counts
    )
    return read, written


def own_grade(cell: Any) -> float | None:
    """A file's grade as a number, 1 for right; None where there is none that can be read."""
    truth = as_truth(cell)
    if truth is not None:
        return float(truth)
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _options(values: Mapping[str, Any], listed: Any) -> tuple[str, ...]:
    if isinstance(listed, str):
        for parse in (json.loads, ast.literal_eval):
            try:
                listed = parse(listed)
                break
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
    if isinstance(listed, list | tuple):
        return tuple(text for value in listed if (text := canonical_text(value)))
    columns = sorted(name for name in values if isinstance(name, str) and _LETTER.fullmatch(name))
    texts = [canonical_text(values[name]) for name in columns]
    return tuple(text for text in texts if text and text.lower() != "nan")


_CIRCULAR = 1_000_000  # VLMEvalKit numbers the k-th rotation of item i as i + k million
_HOW = "with the setting {setting}; in an audit file: map: {{id: COLUMN, prediction: COLUMN}}"
_OTHER_GOLD = (
    "twin",
    *WORDINGS,
    "confused-choices",
)  # variants in which the row holds the right answer


@dataclass
class RecordedAnswers:
    """The questions to one model and its replies.

    ``own_grades``: how right the file calls a reply, by the question's id, from the column
    ``graded_by``. ``empty``: items whose reply holds nothing; it is graded like any other.
    """

    pairs: list[tuple[Question, Reply]] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    graded_by: str | None = None
    own_grades: dict[str, float] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)


def read_answers(
    source: Path,
    benchmark: Benchmark,
    *,
    file: RecordedFile | None = None,
    model: str | None = None,
    mapping: Mapping[str, str] | None = None,
    variant: str | None = None,
    belongs: Callable[[RecordedRow], bool] | None = None,
    setting: str = "columns",
) -> dict[str, RecordedAnswers]:
    """By model: the one the row names, else ``model``, else the file's own name.

    ``file``: the content of ``source``, if it was already read. ``variant``: what was shown in
    rows that do not say so. ``belongs``: which rows are about this benchmark, where a file holds answers
    to several. ``setting``: what the verb calls ``mapping``, for its errors.
    """
    how = _HOW.format(setting=setting)
    if file is None:
        file = read_recorded_rows(source, mapping or {}, {example.id for example in benchmark})
    if file.rows and file.columns.of("prediction") is None:
        raise InputError(_no_predictions(source, file, how))
    answers: dict[str, RecordedAnswers] = defaultdict(
        lambda: RecordedAnswers(graded_by=file.graded_by)
    )
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    unreadable = [dataclasses.replace(drop, stage=STAGE) for drop in file.dropped]
    items = _Items(benchmark, how)
    # A failed request names no model: if the others name one, it belongs to that model.
    named = {row.model for row in file.rows if row.model}
    default = model or (named.pop() if len(named) == 1 else source.stem)
    for row in file.rows:
        if belongs is not None and not belongs(row):
            continue
        row = dataclasses.replace(row, variant=row.variant or variant)
        name = row.model or default
        shown = items.shown(row)
        if isinstance(shown, Dropped):
            answers[name].dropped.append(shown)
            continue
        if row.reply is None:
            answers[name].dropped.append(_left(row, "no recorded answer", shown.variant))
            continue
        known = seen.setdefault((name, shown.id), (row.reply, row.where))
        if known[1] != row.where:  # lmms-eval writes a line per filter: the same reply again
            if known[0] != row.reply:
                raise InputError(
                    f"{row.where}: item {shown.benchmark_id} ({shown.variant}) has another answer at "
                    f"{known[1]}; several models need a column 'model', several draws a column 'draw'"
                )
            continue
        if row.choice_logprobs and len(row.choice_logprobs) != len(shown.options):
            raise InputError(
                f"{row.where}: {len(row.choice_logprobs)} choice_logprobs for the {len(shown.options)} "
                f"options of item {shown.benchmark_id} ({shown.variant}); expected one for each"
            )
        reply = Reply(
            shown.id,
            row.reply,
            prompt_tokens=row.prompt_tokens,
            reply_tokens=row.reply_tokens,
            choice_logprobs=row.choice_logprobs,
        )
        answers[name].pairs.append((shown, reply))
        if row.own_grade is not None:
            answers[name].own_grades[shown.id] = row.own_grade
        if not row.reply.strip():
            answers[name].empty.append(shown.benchmark_id)
    if not any(recorded_answers.pairs for recorded_answers in answers.values()):
        raise InputError(_nothing(source, benchmark, answers, unreadable, how))
    for recorded_answers in answers.values():
        recorded_answers.dropped += unreadable
        answered = {question.benchmark_id for question, _ in recorded_answers.pairs}
        messages = {drop.id for drop in recorded_answers.dropped}
        recorded_answers.dropped += [
            Dropped(
                STAGE,
                example.id,
                "no recorded answer",
                f"{variant or 'original'}: not in {source.name}",
            )
            for example in benchmark
            if example.id not in answered and example.id not in messages
        ]
    return dict(answers)


class _Items:
    def __init__(self, benchmark: Benchmark, how: str) -> None:
        self._how = how  # columns are named
        self._examples = benchmark.examples
        self._by_id = {example.id: example for example in benchmark}
        self._shuffles: dict[str, list[tuple[int, ...]]] = defaultdict(list)

    def shown(self, row: RecordedRow) -> Question | Dropped:
        example = self._example(row)
        if isinstance(example, Dropped):
            return example
        base = original(example)
        variant = row.variant or ""
        if variant.startswith(_OTHER_GOLD):
            return self._question_of(example, row)
        if isinstance(base, Dropped):
            return base
        question = base
        if row.options and base.options:
            order = _order(base.options, row.options)
            if order is None:
                return _left(row, "other options", variant or "original", example.id)
            if order != base.order:
                question = reordered(base, self._name(base, order), order)
        problem = _disagreement(question, row)
        if problem:
            return _left(row, problem, question.variant, example.id)
        return dataclasses.replace(question, variant=variant or question.variant, draw=row.draw)

    def _example(self, row: RecordedRow) -> Example | Dropped:
        if row.id is not None and row.id in self._by_id:
            return self._by_id[row.id]
        if row.id is not None and row.id.isdecimal() and len(row.id) < 16:
            turned = str(int(row.id) % _CIRCULAR)
            if int(row.id) >= _CIRCULAR and turned in self._by_id:
                return self._by_id[turned]
        if row.position is not None and row.position < len(self._examples):
            example = self._examples[row.position]
            # A position alone is not enough: the item there has to ask the same question.
            released = example.metadata.get(RELEASED) or example.question
            asked = {same(example.question or ""), same(released or "")}
            if row.question is not None and same(row.question) in asked:
                return example
            if row.prompt is not None and any(text and text in same(row.prompt) for text in asked):
                return example
        question = row.question if row.question is not None else row.prompt
        if row.id is None and row.position is not None and question is None:
            detail = (
                f"{row.where}: no question confirms that the item there is meant; where doc_id is the "
                f"item's id, name it: id=doc_id ({self._how})"
            )
            return Dropped(STAGE, f"position {row.position}", "unknown item", detail)
        named = row.id if row.id is not None else f"position {row.position}"
        return Dropped(STAGE, named, "unknown item", f"{row.where}: the benchmark has no such item")

    def _name(self, base: Question, order: tuple[int, ...]) -> str:
        count = len(order)
        if all(place == (order[0] + n) % count for n, place in enumerate(order)):
            return f"rotation-{order[0]}"
        known = self._shuffles[base.benchmark_id]
        if order not in known:
            known.append(order)
        return f"shuffle-{known.index(order) + 1}"

    def _question_of(self, example: Example, row: RecordedRow) -> Question | Dropped:
        """A twin or a slot has another right answer: the row has to name it."""
        assert row.variant is not None
        if row.gold is None:
            return _left(row, "no gold", row.variant, example.id)
        # A twin has another answer among the same options, unless the row names others.
        options = row.options or (example.options if row.variant.startswith("twin") else ())
        if not options:
            kind = next((name for name in WORDINGS if row.variant.startswith(name)), "open")
            return Question(
                example.id,
                row.variant,
                row.question or "",
                (),
                gold=row.gold,
                draw=row.draw,
                kind=kind,
            )
        right = read_whole(row.gold, options)
        if right is None or right.place is None:
            return _left(row, "answer not among the options", row.variant, example.id)
        released = [same(option) for option in example.options]
        order = [released.index(same(o)) if same(o) in released else -1 for o in options]
        return Question(
            example.id,
            row.variant,
            row.question or "",
            (),
            options,
            tuple(order),
            letter(right.place),
            row.draw,
            "choice",
        )


def _order(released: Sequence[str], shown: Sequence[str]) -> tuple[int, ...] | None:
    """Which released option each shown one is; None where they are not the same options."""
    left: dict[str, list[int]] = defaultdict(list)
    for place, option in enumerate(released):
        left[same(option)].append(place)
    order = []
    for option in shown:
        places = left.get(same(option))
        if not places:
            return None
        order.append(places.pop(0))
    return tuple(order) if len(order) == len(released) else None


def _disagreement(question: Question, row: RecordedRow) -> str:
    """The file may be of another release: its right answers have to be those of this benchmark."""
    if row.gold is None:
        return ""
    if not question.options:
        agrees = grade(row.gold, question.gold).outcome == "right"
        return "" if agrees or same(row.gold) == same(question.gold) else "another answer"
    right = read_whole(row.gold, question.options)
    agrees = right is not None and right.place is not None and letter(right.place) == question.gold
    return "" if agrees else "another answer"


def _left(row: RecordedRow, reason: str, variant: str, item: str | None = None) -> Dropped:
    detail = f"{variant}: {row.where}"
    if reason == "another answer":
        detail += f": right is {row.gold!r:.60} there"
    return Dropped(STAGE, item or row.id or row.where, reason, detail)


def _no_predictions(source: Path, file: RecordedFile, how: str) -> str:
    message = f"{source}: no column holds predictions. It has: {', '.join(file.columns.present)}"
    gold = file.columns.of("answer")
    if gold is not None:  # as in files of the VQA challenge, and in copies of the benchmark
        return f"{message}. If '{gold}' is what the model said, name it: prediction={gold} ({how})"
    return f"{message}. Name the columns: id=COLUMN and prediction=COLUMN ({how})"


def _nothing(
    source: Path,
    benchmark: Benchmark,
    answers_by_model: Mapping[str, RecordedAnswers],
    unreadable: Sequence[Dropped],
    how: str,
) -> str:
    lost = [
        *unreadable,
        *(
            drop
            for recorded_answers in answers_by_model.values()
            for drop in recorded_answers.dropped
        ),
    ]
    ours = ", ".join(example.id for example in benchmark.examples[:3])
    if not lost:
        return f"{source} holds no row that can be read"
    return (
        f"{source}: no row is an answer to an item of {benchmark.name}. The first: {lost[0].id}: "
        f"{lost[0].reason} ({lost[0].detail}). The benchmark's ids are like {ours}; name the "
        f"columns that hold them: id=COLUMN and prediction=COLUMN ({how})"
    )
