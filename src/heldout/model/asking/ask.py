"""ask: a model's answers to a benchmark in variants, graded, into a run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from heldout.benchmark import Benchmark, open_verb_run, prepare_run
from heldout.errors import InputError, counted, html_table, percent
from heldout.model.asking.forms import picture_digest
from heldout.model.asking.prompts import Journal, write_paraphrases
from heldout.model.asking.recorded import read_answers
from heldout.model.asking.stage import (
    TABLE,
    answer_row,
    ask_questions,
    replace_left_out,
    replace_variants,
    template_name,
)
from heldout.model.asking.summary import (
    OwnGrades,
    ReplyOutcome,
    Summary,
    Unread,
    own_grades_of,
    recorded_remarks,
    summarise,
    unread_of,
)
from heldout.model.asking.twins import note_twins, read_twins
from heldout.model.asking.variants import PARAPHRASE, Variant, expand, parse_variants
from heldout.model.endpoint.chat import ChatEndpoint
from heldout.model.endpoint.settings import ModelServer
from heldout.model.item_scores import by_picture
from heldout.model.request import Asker
from heldout.model.score import check_run, opened_benchmark
from heldout.model.scoring import claim_model, note_named, stage_folder
from heldout.model.settings import SENTENCE_TOKENS, AskSettings
from heldout.store import Dropped, Run


@dataclass(frozen=True)
class Asking:
    """The result of asking. Tokens are those of this command's requests; ``reused`` were asked before."""

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
    #: what to say where the server named several models in its replies
    named: Sequence[str] = ()

    def remarks(self) -> list[str]:
        """Remarks on a recorded file, or on unreadable replies, as sentences."""
        return [
            *self.named,
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
            "named": list(self.named),
            "remarks": self.remarks(),
        }


def default_variants(benchmark: Benchmark) -> list[Variant]:
    """The original and all rotations if items have options, which gives vanilla and circular accuracy."""
    some = any(len(example.options) > 1 for example in benchmark)
    return parse_variants("rotation-all" if some else "original")


def needs_paraphraser(variants: Sequence[Variant]) -> bool:
    return any(variant.name.endswith(PARAPHRASE) and not variant.source for variant in variants)


def ask_benchmark(
    benchmark: Benchmark,
    asker: Asker,
    run: Run,
    model: str,
    settings: AskSettings,
    variants: Sequence[Variant],
    twins: Mapping[str, Benchmark],
    *,
    paraphraser: Asker | None = None,
    quiet: bool = False,
) -> Asking:
    """Call inside run.writing(). ``variants`` and ``twins`` are those of the settings or of an audit;
    ``paraphraser`` rewords questions for paraphrases without a column."""
    prepare_run(benchmark, run)
    claim_model(run, model, asker.identity)
    note_twins(run, benchmark, twins)
    chosen = benchmark.examples[: settings.limit]
    examples = [example for group in by_picture(benchmark, chosen) for example in group]
    rewordings = None
    if needs_paraphraser(variants):
        if paraphraser is None:
            raise InputError(
                "a paraphrase needs a column (slot-paraphrase=COLUMN) or the setting paraphraser"
            )
        rewordings = write_paraphrases(examples, paraphraser, run, quiet=quiet)
    questions = expand(
        benchmark,
        examples,
        variants,
        twins=twins,
        seed=settings.seed,
        paraphrases=rewordings.texts if rewordings else None,
    )
    if rewordings:
        questions.dropped = [rewordings.explain(dropped) for dropped in questions.dropped]
    if not questions.questions:
        why = questions.dropped[0]
        raise InputError(f"nothing can be asked: item {why.id}: {why.reason} ({why.detail})")
    journal = Journal(run.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl")
    answered = ask_questions(
        asker,
        questions.questions,
        journal,
        picture_digest(benchmark, *twins.values()),
        thought=settings.chain_of_thought,
        title=f"asking {model}",
        quiet=quiet,
    )
    place = {example.id: number for number, example in enumerate(benchmark)}
    rows = [
        answer_row(
            question,
            answered.replies[question.id],
            model,
            template_name(question, thought=settings.chain_of_thought),
            settings.tolerance,
        )
        for question in sorted(
            questions.questions, key=lambda question: place[question.benchmark_id]
        )
        if question.id in answered.replies
    ]
    replace_variants(run, model, rows)
    dropped = [*questions.dropped, *answered.dropped]
    asked = {variant.name for variant in variants} | {row["variant"] for row in rows}
    replace_left_out(run, model, asked, dropped)
    if (
        answered.ended is not None
    ):  # tables are written from what there is; the error is raised all the same
        raise answered.ended
    if not answered.replies:
        first = answered.dropped[0]
        raise InputError(
            f"{model} answered none of {counted(len(questions.questions), 'question', 'questions')}: "
            f"{first.reason} ({first.detail}); every question and its reason is in "
            f"{run.path / 'tables' / 'dropped.parquet'}"
        )
    fresh = answered.fresh
    unread = _unread(rows)
    named = note_named(
        run, model, TABLE, Counter(reply.model for reply in answered.replies.values())
    )
    known = run.manifest()["models"][model]
    run.update("models", {model: {**known, "remarks": [*named, *unread.remarks()]}})
    return Asking(
        model,
        summarise_model(benchmark, run, model),
        len(fresh),
        len(answered.replies) - len(fresh),
        _reasons(dropped),
        sum(reply.prompt_tokens or 0 for reply in fresh),
        sum(reply.reply_tokens or 0 for reply in fresh),
        unread=unread,
        named=named,
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
    """Answers recorded elsewhere, graded by the same rules; ``variant``: of rows that name none."""
    recorded = read_answers(source, benchmark, model=model, mapping=mapping or {}, variant=variant)
    prepare_run(benchmark, run)
    askings = []
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
        askings.append(
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
    return askings


def summarise_model(benchmark: Benchmark, run: Run, model: str) -> Summary:
    rows = run.frame("answers").filter(pl.col("model") == model).to_dicts()
    clusters = dict(zip((example.id for example in benchmark), benchmark.clusters, strict=True))
    return summarise(rows, clusters)


def _unread(rows: Iterable[Mapping[str, Any]]) -> Unread:
    return unread_of(
        ReplyOutcome(row["benchmark_id"], row["reply"], row["outcome"], len(row["options"]))
        for row in rows
    )


def _reasons(dropped: Iterable[Dropped]) -> dict[str, int]:
    return dict(Counter(entry.reason for entry in dropped).most_common())


@dataclass(frozen=True)
class AskResult:
    """What ``heldout.ask`` returns: the run, and its tables as data frames."""

    run: Run
    models: Sequence[Asking]

    @property
    def answers(self) -> pl.DataFrame:
        """One row per item and variant, of these models: reply, choice, whether it is correct."""
        names = [asking.model for asking in self.models]
        return self.run.frame("answers").filter(pl.col("model").is_in(names))

    @property
    def accuracy(self) -> pl.DataFrame:
        """One row per model and variant, with a 95 % interval by cluster."""
        rows = [
            {
                "model": asking.model,
                "variant": accuracy.name,
                "accuracy": accuracy.rate,
                "low": accuracy.interval.low,
                "high": accuracy.interval.high,
                "items": accuracy.n,
                "clusters": accuracy.clusters,
            }
            for asking in self.models
            for accuracy in asking.summary.variants
        ]
        return pl.DataFrame(rows)

    def as_json(self) -> dict[str, Any]:
        models = [asking.as_json() for asking in self.models]
        return {"run": str(self.run.path), "models": models}

    def __repr__(self) -> str:
        asked = ", ".join(
            f"{asking.model} {percent(accuracy.rate)} {accuracy.name}"
            for asking in self.models
            for accuracy in asking.summary.variants[:1]
        )
        return f"<Answers of {asked}, run {self.run.path}>"

    def _repr_html_(self) -> str:
        rows = (
            (
                asking.model,
                accuracy.name,
                percent(accuracy.rate),
                f"{percent(accuracy.interval.low)} – {percent(accuracy.interval.high)}",
                accuracy.n,
            )
            for asking in self.models
            for accuracy in asking.summary.variants
        )
        names = ("model", "variant", "accuracy", "95 % interval", "items")
        return html_table(names, rows, f"run: {self.run.path}")


def ask(
    benchmark: Benchmark | str | Path,
    settings: AskSettings | None = None,
    *,
    run: Run | str | Path | None = None,
    quiet: bool = False,
    command: Sequence[str] | None = None,
    **values: Any,
) -> AskResult:
    """Ask a model every item of a benchmark, as released and in variants, and grade strictly.

    A killed call, or one whose endpoint died, continues where it was when it is made again with the
    same ``run``: no reply that arrived is lost or asked for twice.

    Args:
        benchmark: What is asked: a benchmark, or where one is read from.
        settings: All settings; or give them by name as further arguments.
        run: Run folder, new or of the same benchmark; default: a new one below ``heldout-runs``.
        quiet: Show no progress.
        command: What the run records as its command; default: this call.
        **values: Fields of ``heldout.AskSettings``.

    Returns:
        The run, with answers and accuracy as data frames.
    """
    chosen = AskSettings.choose(settings, values)
    chosen.require_source(chosen.recorded)
    benchmark = opened_benchmark(benchmark, quiet=quiet)
    open_here = partial(
        open_verb_run, "ask", benchmark, chosen, run, seed=chosen.seed, command=command
    )
    if chosen.recorded is not None:
        run = open_here()
        with run.writing():
            askings = import_answers(
                benchmark,
                chosen.recorded,
                run,
                model=chosen.name or chosen.model,
                mapping=chosen.columns,
                tolerance=chosen.tolerance,
                variant=chosen.recorded_variant,
            )
        return AskResult(run, askings)
    variants = chosen.parsed_variants or default_variants(benchmark)
    twins = read_twins(variants, benchmark, run)
    if needs_paraphraser(variants) and chosen.paraphraser is None:
        raise InputError(
            "variants: who rewords the questions of a paraphrase? Give the setting paraphraser, or "
            "slot-paraphrase=COLUMN where the benchmark has rewordings"
        )
    check_run(run, chosen.seed)
    paraphraser = None
    if needs_paraphraser(variants) and chosen.paraphraser is not None:
        paraphraser = open_chat(chosen.paraphraser, "paraphraser", max_tokens=SENTENCE_TOKENS)
    asker, name = open_asker(chosen)
    run = open_here()
    with run.writing():
        asking = ask_benchmark(
            benchmark,
            asker,
            run,
            name,
            chosen,
            variants,
            twins,
            paraphraser=paraphraser,
            quiet=quiet,
        )
    return AskResult(run, [asking])


def open_asker(settings: AskSettings) -> tuple[Asker, str]:
    """The model of the settings, and what the run calls it."""
    if settings.endpoint is None:
        local = settings.open_local()
        asker = local.asker(settings.reply_tokens, logprobs=settings.choice_logprobs)
        return asker, settings.local_name
    server = open_chat(
        settings.endpoint,
        "endpoint",
        settings.served,
        max_tokens=settings.reply_tokens,
        dtype=settings.served_dtype,
        logprobs=settings.choice_logprobs,
    )
    return server, settings.name or server.model


def open_chat(server: ModelServer, role: str, model: str | None = None, **how: Any) -> ChatEndpoint:
    """A server that is asked for replies. ``role``: whose settings error messages name."""
    return ChatEndpoint.open(
        server.connect(role),
        model or server.model,
        concurrency=server.concurrency,
        token_field=server.token_field,
        **how,
    )
