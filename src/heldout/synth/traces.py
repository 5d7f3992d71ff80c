"""Reasoning traces for published items: kept only where they can be parsed and their answer is right."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from heldout.model import STOPPED, Prompt, Reply, Request, Text
from heldout.synth.context import StageContext
from heldout.synth.corpus_of_items import BalancedItem, balanced_items
from heldout.synth.draft import LETTERS
from heldout.synth.endpoints import StageModel
from heldout.synth.ledger import BATCH
from heldout.synth.prompts import figure_images

TEMPLATE = "heldout-trace/1"
_WHOLE = re.compile(
    r"\s*<think>(.+?)</think>\s*<answer>\s*\(?([A-E])\b[^<]*</answer>\s*", re.DOTALL
)
_ASK = """\
{question}
{options}

Think about the question step by step inside <think> and </think>, from what the images show. \
Then give the letter of \
the right option inside <answer> and </answer>."""


def read_traces(context: StageContext, ranks: Mapping[str, int]) -> dict[str, str]:
    """By item the trace that leads to the right answer. Empty where no model writes traces."""
    settings = context.settings.traces
    if settings is None:
        return {}
    kept: dict[str, str] = {}
    items = (item for item in balanced_items(context.run) if item.draft.id in ranks)
    depends = {"template": TEMPLATE}
    with StageModel(context, "traces", settings, "publish", depends) as model:
        while batch := list(itertools.islice(items, BATCH)):
            prompts = {item.draft.id: _prompt(context, item) for item in batch}
            answered = model.ask(prompts, "writing traces", "traces")
            for item in batch:
                reply = answered.replies.get(item.draft.id)
                trace = read_trace(reply, item.draft.answer) if reply else None
                if trace:
                    kept[item.draft.id] = trace
    return kept


def read_trace(reply: Reply, answer: str) -> str | None:
    """The reasoning, if the whole reply has the form and ends in the right answer."""
    match = _WHOLE.fullmatch(reply.text) if reply.finish == STOPPED else None
    if match is None or match[2] != answer or "<think>" in match[1] or "<answer>" in match[1]:
        return None
    return " ".join(match[1].split())


def _prompt(context: StageContext, item: BalancedItem) -> Prompt:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    text = _ASK.format(question=item.draft.question, options=shown)
    images = figure_images(item.figure, context.run.path)
    return Prompt(Request(item.draft.id, (*images, Text(text))))
