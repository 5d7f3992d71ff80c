"""Ask every question of a benchmark once; each gets a reply or a reason why it has none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from heldout.benchmark import Benchmark, Grade, grade, letter
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.forms import MASK, NEXT_WORDS, NGRAM, STAGE, Question, continues
from heldout.model.asking.prompts import Journal, ask_prompts
from heldout.model.asking.variants import expand, parse_variants
from heldout.model.request import (
    CUT,
    REFUSED,
    Asker,
    Prompt,
    Reply,
    Request,
    Text,
    placed_with_options,
)
from heldout.model.scoring import replace_dropped
from heldout.store import Dropped, Run, make_table

# What a model reads: versioned templates, chosen by the kind of item and never by the variant.


# Part of every answer's identity. Raise it with any change of what a model reads.
TEMPLATE = "heldout-ask/2"

_GAP = f"One word of this text was replaced by {MASK}."
_BEGINNING = "A text about this begins with the words above."
_DIRECT = {
    "choice": "Answer with the letter of the right option, and nothing else.",
    "open": "Answer with a single word, number or short phrase, and nothing else.",
    "slot": f"{_GAP} Answer with that word, and nothing else.",
    "ngram": f"{_BEGINNING} Answer with the next {NEXT_WORDS} words of that text, and nothing else.",
}
_TAGS = "between <answer> and </answer>."
_THOUGHT = {
    "choice": f"Think step by step. Then give the letter of the right option {_TAGS}",
    "open": f"Think step by step. Then give a single word, number or short phrase {_TAGS}",
    "slot": f"{_GAP} Think step by step. Then give that word {_TAGS}",
    "ngram": f"{_BEGINNING} Think step by step. Then give the next {NEXT_WORDS} words of that text {_TAGS}",
}


def template_name(question: Question, *, thought: bool) -> str:
    return f"{TEMPLATE} {question.kind}" + (", chain of thought" if thought else "")


def write(question: Question, *, thought: bool = False) -> Request:
    """Pictures and question as the release places them, the options by letter, then what to do."""
    lines = [f"{letter(place)}. {option}" for place, option in enumerate(question.options)]
    tail = (_THOUGHT if thought else _DIRECT)[question.kind]
    parts = placed_with_options(question.text, lines, question.images)
    if parts and isinstance(parts[-1], Text):
        parts[-1] = Text(f"{parts[-1].text.rstrip()}\n{tail}")
    else:
        parts.append(Text(tail))
    return Request(question.id, tuple(parts))


@dataclass
class AnswerSet:
    """Replies by the question's id. ``fresh``: what this call asked for, and paid for. ``ended``: the error
    that ended the asking; earlier replies are included."""

    replies: dict[str, Reply] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    fresh: list[Reply] = field(default_factory=list)
    ended: InputError | None = None


def ask_questions(
    asker: Asker,
    questions: Sequence[Question],
    journal: Journal,
    digest: Callable[[ImageRef], str],
    *,
    thought: bool = False,
    title: str,
    quiet: bool = False,
) -> AnswerSet:
    """``digest`` names a picture by its content, so that a changed one is another prompt."""
    prompts = {q.id: Prompt(write(q, thought=thought), len(q.options)) for q in questions}
    answered = ask_prompts(asker, prompts, journal, digest, stage=STAGE, title=title, quiet=quiet)
    dropped = [
        Dropped(STAGE, question.benchmark_id, lost.reason, f"{question.variant}: {lost.detail}")
        for question in questions
        if (lost := answered.lost.get(question.id)) is not None
    ]
    return AnswerSet(answered.replies, dropped, answered.fresh, answered.ended)


# Rows of the ``answers`` table: a question, the reply to it, and the grade.


TABLE = "answers"


def answer_row(
    question: Question, reply: Reply, model: str, template: str, tolerance: float
) -> dict[str, Any]:
    grading = graded(question, reply, tolerance)
    return {
        "benchmark_id": question.benchmark_id,
        "model": model,
        "variant": question.variant,
        "draw": question.draw,
        "options": list(question.options),
        "order": list(question.order),
        "gold": question.gold,
        "reply": reply.text,
        "parsed": grading.parsed,
        "outcome": grading.outcome,
        "rule": grading.rule,
        "choice_logprobs": list(reply.choice_logprobs) or None,
        "prompt_tokens": reply.prompt_tokens,
        "reply_tokens": reply.reply_tokens,
        "template": template,
    }


def graded(question: Question, reply: Reply, tolerance: float = 0.0) -> Grade:
    grading = grade(reply.text, question.gold, question.options, tolerance=tolerance)
    for other in question.also if question.kind == "open" else ():
        if grading.outcome != "right":
            again = grade(reply.text, other, tolerance=tolerance)
            grading = again if again.outcome == "right" else grading
    if reply.finish == REFUSED and grading.outcome in ("unparsed", "refused"):
        return Grade("refused", "", "refused by the server")
    if question.kind == NGRAM and grading.outcome in ("right", "wrong"):
        # Text after the requested words does not count.
        right = continues(grading.parsed, question)
        grading = Grade("right" if right else "wrong", grading.parsed, "next words")
    # A truncated open answer may be half of a right one.
    unread = grading.outcome == "unparsed" or (grading.outcome == "wrong" and not question.options)
    if reply.finish == CUT and unread:
        return Grade("unparsed", "", "cut off at the limit")
    return grading


def replace_variants(run: Run, model: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace these variants of the model; its other variants, and other models, stay."""
    listed = list(rows)
    asked = {row["variant"] for row in listed}
    table = make_table(TABLE, listed)
    if run.table_path(TABLE).exists():
        known = run.read_table(TABLE)
        models, variants = known.column("model").to_pylist(), known.column("variant").to_pylist()
        is_kept = [m != model or v not in asked for m, v in zip(models, variants, strict=True)]
        table = pa.concat_tables([known.filter(pa.array(is_kept, pa.bool_())), table])
    run.write_table(TABLE, table)


def replace_left_out(
    run: Run, model: str, asked: Collection[str], dropped: Sequence[Dropped]
) -> None:
    """Replace what these variants left out; entries of the model's other variants stay. Details name the
    variant."""
    start = f"{model}/"
    known = run.read_table("dropped").to_pylist() if run.table_path("dropped").exists() else []
    others = [
        Dropped(STAGE, row["id"].removeprefix(start), row["reason"], row["detail"])
        for row in known
        if row["stage"] == STAGE
        and row["id"].startswith(start)
        and row["detail"].partition(": ")[0] not in asked
    ]
    replace_dropped(run, STAGE, model, [*others, *dropped])


# The prompts of a benchmark's first items, for people to check before a model is asked.


def shown_prompts(
    benchmark: Benchmark, count: int, variants: str = "original"
) -> list[dict[str, str]]:
    """Prompt and key of the first ``count`` items, word for word as a model is asked; an item that
    cannot be asked has its reason instead."""
    examples = benchmark.examples[:count]
    asked = expand(benchmark, examples, parse_variants(variants))
    shown = [
        {
            "id": question.benchmark_id,
            "variant": question.variant,
            "prompt": "".join(
                f"{_named(part, question.images)}\n" if isinstance(part, ImageRef) else part.text
                for part in write(question).content
            ),
            "answer": question.gold,
        }
        for question in asked.questions
    ]
    shown += [
        {"id": lost.id, "variant": variants, "not asked": f"{lost.reason} ({lost.detail})"}
        for lost in asked.dropped
    ]
    order = {example.id: place for place, example in enumerate(examples)}
    return sorted(shown, key=lambda prompt: order[prompt["id"]])


def _named(picture: ImageRef, pictures: Sequence[ImageRef]) -> str:
    """Pictures of one row may share a name: several are numbered."""
    number = f" {list(pictures).index(picture) + 1}" if len(pictures) > 1 else ""
    return f"[picture{number}: {picture.name}]"
