"""Ask one model about one benchmark into a run folder: answers by variant, and how good they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from heldout.audit.twin_sets import note_twins
from heldout.benchmark import Benchmark, prepare_run, read_benchmark
from heldout.errors import InputError, counted
from heldout.model import (
    Asker,
    Journal,
    OwnGrades,
    Reading,
    Summary,
    Unread,
    Variant,
    answer_row,
    ask_questions,
    by_picture,
    claim_model,
    expand,
    own_grades_of,
    parse_variants,
    picture_digest,
    read_answers,
    recorded_remarks,
    replace_left_out,
    replace_variants,
    stage_folder,
    summarise,
    template_name,
    unread_of,
    write_paraphrases,
)
from heldout.store import Dropped, Run


@dataclass(frozen=True)
class AskingPlan:
    """``tolerance``: relative error that a number may have. ``limit``: only the first items."""

    variants: Sequence[Variant]
    thought: bool = False
    tolerance: float = 0.0
    limit: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Asking:
    """What came of it. Tokens are of what this command asked; ``reused`` were asked before."""

    model: str
    summary: Summary
    asked: int
    reused: int
    dropped: Mapping[str, int]  # how many questions were left out, by reason
    prompt_tokens: int = 0
    reply_tokens: int = 0
    #: of a recorded file: its own grades beside ours, and items whose prediction is empty
    own_grades: OwnGrades | None = None
    empty: Sequence[str] = ()
    unread: Unread = field(default_factory=Unread)

    def remarks(self) -> list[str]:
        """What is to be known of a recorded file, or of replies that say nothing, as sentences."""
        return [
            *self.unread.remarks(tell_empty=not self.empty),
            *recorded_remarks(self.own_grades, self.empty),
        ]

    def as_json(self) -> dict[str, Any]:
        own = self.own_grades.as_json() if self.own_grades is not None else None
        return {
            **vars(self),
            "summary": self.summary.as_json(),
            "own_grades": own,
            "empty": list(self.empty),
            "unread": asdict(self.unread),
            "remarks": self.remarks(),
        }


def default_variants(benchmark: Benchmark) -> list[Variant]:
    """Vanilla and circular accuracy together, where there is something to rotate."""
    some = any(len(example.options) > 1 for example in benchmark)
    return parse_variants("rotation-all" if some else "original")


def needs_paraphraser(variants: Sequence[Variant]) -> bool:
    return any(variant.name == "slot-paraphrase" and not variant.source for variant in variants)


def read_twins(variants: Sequence[Variant], benchmark: Benchmark) -> dict[str, Benchmark]:
    found = {}
    for variant in variants:
        if variant.name.startswith("twin"):
            found[variant.name] = read_benchmark(variant.source)
            mine = {example.id for example in benchmark}
            if not any(example.id in mine for example in found[variant.name]):
                theirs = ", ".join(example.id for example in found[variant.name].examples[:3])
                raise InputError(
                    f"--variants {variant.name}={variant.source}: no item has the id of an item of "
                    f"{benchmark.name}. Twins are paired by id; theirs are like {theirs}"
                )
    return found


def ask_benchmark(
    benchmark: Benchmark,
    asker: Asker,
    run: Run,
    model: str,
    plan: AskingPlan,
    twins: Mapping[str, Benchmark],
    *,
    paraphraser: Asker | None = None,
    quiet: bool = False,
) -> Asking:
    """Call inside run.writing(). ``paraphraser`` writes what slot-paraphrase shows without a column."""
    prepare_run(benchmark, run)
    claim_model(run, model, asker.identity)
    note_twins(run, benchmark, twins)
    chosen = benchmark.examples[: plan.limit]
    examples = [example for group in by_picture(benchmark, chosen) for example in group]
    rewordings = None
    if needs_paraphraser(plan.variants):
        if paraphraser is None:
            raise InputError(
                "slot-paraphrase needs a column (slot-paraphrase=COLUMN) or --paraphraser URL"
            )
        rewordings = write_paraphrases(examples, paraphraser, run, quiet=quiet)
    made = expand(
        benchmark,
        examples,
        plan.variants,
        twins=twins,
        seed=plan.seed,
        paraphrases=rewordings.texts if rewordings else None,
    )
    if rewordings:
        made.dropped = [rewordings.explain(dropped) for dropped in made.dropped]
    if not made.questions:
        why = made.dropped[0]
        raise InputError(f"nothing can be asked: item {why.id}: {why.reason} ({why.detail})")
    journal = Journal(run.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl")
    answered = ask_questions(
        asker,
        made.questions,
        journal,
        picture_digest(benchmark, *twins.values()),
        thought=plan.thought,
        title=f"asking {model}",
        quiet=quiet,
    )
    place = {example.id: number for number, example in enumerate(benchmark)}
    rows = [
        answer_row(
            question,
            answered.replies[question.id],
            model,
            template_name(question, thought=plan.thought),
            plan.tolerance,
        )
        for question in sorted(made.questions, key=lambda question: place[question.benchmark_id])
        if question.id in answered.replies
    ]
    replace_variants(run, model, rows)
    dropped = [*made.dropped, *answered.dropped]
    asked = {variant.name for variant in plan.variants} | {row["variant"] for row in rows}
    replace_left_out(run, model, asked, dropped)
    if (
        answered.ended is not None
    ):  # the tables hold what there is; the command still says why it failed
        raise answered.ended
    if not answered.replies:
        first = answered.dropped[0]
        raise InputError(
            f"{model} answered none of {counted(len(made.questions), 'question', 'questions')}: "
            f"{first.reason} ({first.detail}); every question and its reason is in "
            f"{run.path / 'tables' / 'dropped.parquet'}"
        )
    fresh = answered.fresh
    unread = _unread(rows)
    known = run.manifest()["models"][model]
    run.update("models", {model: {**known, "remarks": unread.remarks()}})
    return Asking(
        model,
        summarise_model(benchmark, run, model),
        len(fresh),
        len(answered.replies) - len(fresh),
        _reasons(dropped),
        sum(reply.prompt_tokens or 0 for reply in fresh),
        sum(reply.reply_tokens or 0 for reply in fresh),
        unread=unread,
    )


def import_answers(
    benchmark: Benchmark,
    source: Path,
    run: Run,
    *,
    model: str | None = None,
    mapping: Mapping[str, str] | None = None,
    tolerance: float = 0.0,
    variant: str | None = None,
) -> list[Asking]:
    """Answers somebody else recorded, graded by the same rules; ``variant``: of rows that name none."""
    recorded = read_answers(source, benchmark, model=model, mapping=mapping or {}, variant=variant)
    prepare_run(benchmark, run)
    made = []
    for name, answers in recorded.items():
        claim_model(run, name, {"backend": "recorded"})
        rows = [
            answer_row(question, reply, name, "recorded", tolerance)
            for question, reply in answers.pairs
        ]
        replace_variants(run, name, rows)
        replace_left_out(run, name, {row["variant"] for row in rows}, answers.dropped)
        own = own_grades_of(answers, rows)
        unread = _unread(rows)
        remarks = [*unread.remarks(tell_empty=False), *recorded_remarks(own, answers.empty)]
        known = run.manifest()["models"][name]
        run.update(
            "models",
            {
                name: {
                    **known,
                    "remarks": remarks,
                    "own_grades": own.as_json() if own is not None else None,
                    "empty_predictions": answers.empty,
                }
            },
        )
        summary = summarise_model(benchmark, run, name)
        made.append(
            Asking(
                name,
                summary,
                0,
                len(rows),
                _reasons(answers.dropped),
                own_grades=own,
                empty=answers.empty,
                unread=unread,
            )
        )
    return made


def summarise_model(benchmark: Benchmark, run: Run, model: str) -> Summary:
    rows = run.frame("answers").filter(pl.col("model") == model).to_dicts()
    clusters = dict(zip((example.id for example in benchmark), benchmark.clusters, strict=True))
    return summarise(rows, clusters)


def _unread(rows: Iterable[Mapping[str, Any]]) -> Unread:
    return unread_of(
        Reading(row["benchmark_id"], row["reply"], row["outcome"], len(row["options"]))
        for row in rows
    )


def _reasons(dropped: Iterable[Dropped]) -> dict[str, int]:
    return dict(Counter(one.reason for one in dropped).most_common())
