"""One model on one benchmark of a suite: every item asked once, graded, kept in a run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heldout.benchmark import prepare_run
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
    ReplyOutcome,
    answer_row,
    ask_prompts,
    by_picture,
    claim_model,
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
    return CellAnswers(model, opened.name, len(rows), len(answered.fresh), _reasons(dropped))


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
