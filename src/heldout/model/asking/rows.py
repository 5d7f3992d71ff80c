"""Rows of the ``answers`` table: a question, what was said to it, and the grade."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from heldout.benchmark.grading import Grade, grade
from heldout.model.asking.question import STAGE, Question
from heldout.model.reply import CUT, REFUSED, Reply
from heldout.model.tables import replace_dropped
from heldout.store import Dropped, Run, make_table

TABLE = "answers"


def answer_row(
    question: Question, reply: Reply, model: str, template: str, tolerance: float
) -> dict[str, Any]:
    found = graded(question, reply, tolerance)
    return {
        "benchmark_id": question.benchmark_id, "model": model, "variant": question.variant,
        "draw": question.draw, "options": list(question.options), "order": list(question.order),
        "gold": question.gold, "reply": reply.text, "parsed": found.parsed,
        "outcome": found.outcome, "rule": found.rule,
        "choice_logprobs": list(reply.choice_logprobs) or None,
        "prompt_tokens": reply.prompt_tokens, "reply_tokens": reply.reply_tokens,
        "template": template,
    }  # fmt: skip


def graded(question: Question, reply: Reply, tolerance: float = 0.0) -> Grade:
    found = grade(reply.text, question.gold, question.options, tolerance=tolerance)
    if reply.finish == REFUSED and found.outcome in ("unparsed", "refused"):
        return Grade("refused", "", "refused by the server")
    # Words of an open answer that was cut may be half of a right one.
    unread = found.outcome == "unparsed" or (found.outcome == "wrong" and not question.options)
    if reply.finish == CUT and unread:
        return Grade("unparsed", "", "cut off at the limit")
    return found


def replace_variants(run: Run, model: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """These variants of the model anew; its other variants, and other models, stay."""
    listed = list(rows)
    asked = {row["variant"] for row in listed}
    made = make_table(TABLE, listed)
    if run.table_path(TABLE).exists():
        known = run.read_table(TABLE)
        models, variants = known.column("model").to_pylist(), known.column("variant").to_pylist()
        stays = [m != model or v not in asked for m, v in zip(models, variants, strict=True)]
        made = pa.concat_tables([known.filter(pa.array(stays, pa.bool_())), made])
    run.write_table(TABLE, made)


def replace_left_out(
    run: Run, model: str, asked: Collection[str], dropped: Sequence[Dropped]
) -> None:
    """What these variants left out; what the model's other variants did stays. Details name the variant."""
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
