"""Reasoning traces for published items: kept only where they can be parsed and their answer is right."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

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


NO_REPLY, CUT_OFF, OTHER_FORM, WRONG = "no reply", "cut off", "other form", "wrong answer"


@dataclass(frozen=True)
class Traces:
    """``kept``: by item the trace that leads to the right answer; ``left_out``: by reason how many items
    have none, of ``asked`` for which a trace was asked for."""

    asked: int = 0
    kept: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def read_traces(context: StageContext, ranks: Mapping[str, int]) -> Traces:
    """Nothing asked and nothing kept where no model writes traces."""
    settings = context.settings.traces
    if settings is None:
        return Traces()
    kept: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    items = (item for item in balanced_items(context.run) if item.draft.id in ranks)
    depends = {"template": TEMPLATE}
    with StageModel(context, "traces", settings, "publish", depends) as model:
        while batch := list(itertools.islice(items, BATCH)):
            prompts = {item.draft.id: _prompt(context, item) for item in batch}
            answered = model.ask(prompts, "writing traces", "traces")
            for item in batch:
                reply = answered.replies.get(item.draft.id)
                trace, why = read_trace(reply, item.draft.answer) if reply else ("", NO_REPLY)
                if trace:
                    kept[item.draft.id] = trace
                else:
                    left_out[why] += 1
    return Traces(len(kept) + left_out.total(), kept, dict(left_out.most_common()))


def read_trace(reply: Reply, answer: str) -> tuple[str, str]:
    """The reasoning, if the whole reply has the form and ends in the right answer; else why not."""
    if reply.finish != STOPPED:
        return "", CUT_OFF
    match = _WHOLE.fullmatch(reply.text)
    trace = " ".join(match[1].split()) if match else ""
    if match is None or not trace or "<think>" in trace or "<answer>" in trace:
        return "", OTHER_FORM
    return (trace, "") if match[2] == answer else ("", WRONG)


def _prompt(context: StageContext, item: BalancedItem) -> Prompt:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    text = _ASK.format(question=item.draft.question, options=shown)
    images = figure_images(item.figure, context.run.path)
    return Prompt(Request(item.draft.id, (*images, Text(text))))
