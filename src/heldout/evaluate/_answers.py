"""One model on one benchmark of a suite: every item asked once, graded, kept in a run folder."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from heldout.benchmark import prepare_run
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.evaluate.opening import OpenedBenchmark
from heldout.evaluate.table import RECORDED
from heldout.model import (
    STAGE,
    Asker,
    Journal,
    Prompt,
    Question,
    RecordedAnswers,
    Reply,
    ReplyOutcome,
    answer_row,
    ask_prompts,
    by_picture,
    claim_model,
    note_named,
    open_model,
    original,
    own_grades_of,
    picture_digest,
    recorded_remarks,
    replace_left_out,
    replace_variants,
    stage_folder,
    unread_of,
)
from heldout.store import Dropped, Run

ORIGINAL = "original"
_VARIANTS = frozenset({ORIGINAL})


@dataclass(frozen=True)
class CellAnswers:
    """The result of one model on one benchmark. ``fresh`` replies were asked for by this command."""

    model: str
    benchmark: str
    answered: int
    fresh: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def ask_model(
    opened: OpenedBenchmark,
    asker: Asker,
    run: Run,
    model: str,
    *,
    limit: int | None = None,
    tolerance: float = 0.0,
    quiet: bool = False,
) -> CellAnswers:
    """Ask a model; replies of an earlier, perhaps killed, command are taken from the journal."""
    prepare_run(opened.benchmark, run)
    claim_model(run, model, asker.identity)
    benchmark = opened.benchmark
    questions: list[Question] = []
    dropped: list[Dropped] = []
    prompts: dict[str, Prompt] = {}
    chosen = benchmark.examples[:limit]
    for example in (example for group in by_picture(benchmark, chosen) for example in group):
        shown = original(example)
        if isinstance(shown, Dropped):
            dropped.append(shown)
            continue
        questions.append(shown)
        prompts[shown.id] = Prompt(opened.prompt.request(shown, example), len(shown.options))
    if not questions:
        first = dropped[0]
        raise InputError(
            f"{opened.name}: nothing can be asked: item {first.id}: {first.reason} ({first.detail})"
        )
    journal = Journal(run.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl")
    answered = ask_prompts(
        asker,
        prompts,
        journal,
        picture_digest(benchmark),
        stage=STAGE,
        title=f"{model} on {opened.name}",
        quiet=quiet,
    )
    place = {example.id: number for number, example in enumerate(benchmark)}
    rows = [
        answer_row(
            question, answered.replies[question.id], model, opened.prompt.name(question), tolerance
        )
        for question in sorted(questions, key=lambda asked: place[asked.benchmark_id])
        if question.id in answered.replies
    ]
    dropped += [
        Dropped(STAGE, question.benchmark_id, lost.reason, f"{question.variant}: {lost.detail}")
        for question in questions
        if (lost := answered.lost.get(question.id)) is not None
    ]
    _keep(run, model, rows, dropped)
    if (
        answered.ended is not None
    ):  # tables are written from what there is; the error is raised all the same
        raise answered.ended
    named = note_named(
        run, model, "answers", Counter(reply.model for reply in answered.replies.values())
    )
    fresh = len(answered.fresh)
    return CellAnswers(model, opened.name, len(rows), fresh, _reasons(dropped), tuple(named))


def keep_recorded(
    opened: OpenedBenchmark,
    answers: RecordedAnswers,
    run: Run,
    model: str,
    *,
    tolerance: float = 0.0,
) -> CellAnswers:
    """Answers made elsewhere, graded by the same rules; the file's own grades are compared with ours."""
    prepare_run(opened.benchmark, run)
    claim_model(run, model, {"backend": RECORDED})
    pairs = [(question, reply) for question, reply in answers.pairs if question.variant == ORIGINAL]
    rows = [answer_row(question, reply, model, RECORDED, tolerance) for question, reply in pairs]
    others = Counter(
        question.variant for question, _ in answers.pairs if question.variant != ORIGINAL
    )
    dropped = [
        *answers.dropped,
        *(
            Dropped(
                STAGE,
                question.benchmark_id,
                "not as released",
                f"{ORIGINAL}: shown as {question.variant}",
            )
            for question, _ in answers.pairs
            if question.variant != ORIGINAL
        ),
    ]
    if not rows:
        why = f"all {sum(others.values()):,} were shown in another order" if others else "none"
        raise InputError(f"{opened.name}: no answer of {model} is to an item as released ({why})")
    _keep(run, model, rows, dropped)
    kept = RecordedAnswers(pairs, [], answers.graded_by, answers.own_grades, answers.empty)
    unread = unread_of(
        ReplyOutcome(row["benchmark_id"], row["reply"], row["outcome"], len(row["options"]))
        for row in rows
    )
    remarks = [
        *unread.remarks(tell_empty=False),
        *recorded_remarks(own_grades_of(kept, rows), answers.empty),
    ]
    return CellAnswers(model, opened.name, len(rows), 0, _reasons(dropped), tuple(remarks))


def _keep(
    run: Run, model: str, rows: Sequence[Mapping[str, Any]], dropped: Sequence[Dropped]
) -> None:
    replace_variants(run, model, rows)
    replace_left_out(run, model, _VARIANTS, dropped)


def _reasons(dropped: Sequence[Dropped]) -> dict[str, int]:
    return dict(Counter(item.reason for item in dropped).most_common())


# A local model on the workers of an engine: prompts go out in chunks, replies come back to one journal.


CHUNK = 32  # prompts per task: at most so many are lost with a worker
FAILURES = 3  # chunks in a row: the model is broken, not the items


@dataclass(frozen=True)
class LocalModelSpec:
    """What is needed to open a model on a worker: name, options of ``open_model``, length of replies."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    max_new_tokens: int = 64

    def open(self) -> Asker:
        return open_model(self.name, **dict(self.options)).asker(self.max_new_tokens)


_OPENED: dict[LocalModelSpec, Asker] = {}


def _opened(spec: LocalModelSpec) -> Asker:
    """A worker keeps one model; the next one replaces it in memory."""
    if spec not in _OPENED:
        _OPENED.clear()
        _OPENED[spec] = spec.open()
    return _OPENED[spec]


def identity_on_worker(spec: LocalModelSpec) -> dict[str, str]:
    return dict(_opened(spec).identity)


def ask_on_worker(spec: LocalModelSpec, prompts: tuple[Prompt, ...]) -> list[Reply | Dropped]:
    return list(_opened(spec).ask(iter(prompts), lambda _: None))


class EngineAsker:
    """An Asker whose model runs on the workers of ``engine``."""

    def __init__(self, engine: Engine, spec: LocalModelSpec) -> None:
        self._engine, self._spec = engine, spec
        (outcome,) = engine.map(identity_on_worker, [spec])
        if outcome.value is None:
            raise InputError(f"{spec.name}: no worker can open it: {outcome.error}")
        self._identity = outcome.value

    @property
    def identity(self) -> Mapping[str, str]:
        return self._identity

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        waiting = iter(prompts)
        chunks = iter(lambda: tuple(itertools.islice(waiting, CHUNK)), ())
        failed = 0
        for outcome in self._engine.map(partial(ask_on_worker, self._spec), chunks):
            if outcome.value is None:
                failed += 1
                if failed >= FAILURES:
                    raise InputError(
                        f"{self._spec.name}: {FAILURES} chunks in a row failed on the workers, the last: "
                        f"{outcome.error}"
                    )
                detail = str(outcome.error)[:300]
                for prompt in outcome.task:
                    yield Dropped(STAGE, prompt.request.id, "a worker failed", detail)
                continue
            failed = 0
            for result in outcome.value:
                if isinstance(result, Reply):
                    keep(result)
                yield result
