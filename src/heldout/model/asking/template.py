"""What a model reads: versioned templates, chosen by the kind of item and never by the variant."""

from __future__ import annotations

from heldout.benchmark import letter
from heldout.model.asking.question import Question
from heldout.model.asking.variants import MASK
from heldout.model.prompt import placed_with_options
from heldout.model.request import Request, Text

# Part of every answer's identity. Raise it with any change of what a model reads.
TEMPLATE = "heldout-ask/2"

_GAP = f"One word of this text was replaced by {MASK}."
_DIRECT = {
    "choice": "Answer with the letter of the right option, and nothing else.",
    "open": "Answer with a single word, number or short phrase, and nothing else.",
    "slot": f"{_GAP} Answer with that word, and nothing else.",
}
_TAGS = "between <answer> and </answer>."
_THOUGHT = {
    "choice": f"Think step by step. Then give the letter of the right option {_TAGS}",
    "open": f"Think step by step. Then give a single word, number or short phrase {_TAGS}",
    "slot": f"{_GAP} Think step by step. Then give that word {_TAGS}",
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
