"""What a model reads: prompts as texts with places for the question and its options.

``{question}`` is the item's question, ``{released}`` the question as it was released (with options or
instructions that stand inside it), ``{options}`` the options by letter. Pictures come first.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from heldout.benchmark.example import RELEASED, Example
from heldout.benchmark.grading import letter
from heldout.model.asking.question import Question
from heldout.model.asking.template import template_name, write
from heldout.model.request import Request, Text


class PromptText(NamedTuple):
    """``between``: what separates two options; ``version``: raised with any change of the text."""

    text: str
    between: str = "\n"
    version: int = 1


#: MedVLThinker's evaluation script has this sentence in a raw string: its \n are two characters.
_THINK = (
    r"You will solve a problem/request. You should provide your thoughts within <think> </think> tags "
    r"before providing the answer.\nWrite your final answer within <answer> </answer> tags."
)

DIRECT = "direct"  # as `heldout ask` asks
PROMPTS: dict[str, PromptText | None] = {
    DIRECT: None,
    "medvlthinker": PromptText(
        f"{_THINK}\n\nQuestion: {{question}}\n\nOptions:\n\n{{options}}", "\n\n"
    ),
    "reasoning": PromptText(
        "Question: {question}\n\nOptions:\n{options}\n\nThink between <think> and </think>, then give the "
        "letter of the right option between <answer> and </answer>."
    ),
    "mmstar": PromptText(
        "{released}\nAnswer with the option's letter from the given choices directly"
    ),
    "released": PromptText("{released}"),
}
_PLACE = re.compile(r"\{(question|released|options)\}")


class SuitePrompt:
    """A prompt by its name, or by its text."""

    def __init__(self, text: str) -> None:
        known = PROMPTS.get(text, PromptText(text))
        self._name = text if text in PROMPTS else "own"
        self._prompt = known

    def name(self, question: Question) -> str:
        """What the answers table says about the prompt: two with the same name are word for word one."""
        if self._prompt is None:
            return template_name(question, thought=False)
        if self._name == "own":
            digest = hashlib.sha256(self._prompt.text.encode()).hexdigest()
            return f"own prompt {digest[:12]}"
        return f"{self._name}/{self._prompt.version}"

    def request(self, question: Question, example: Example) -> Request:
        if self._prompt is None:
            return write(question)
        between = self._prompt.between
        options = between.join(
            f"{letter(place)}. {option}" for place, option in enumerate(question.options)
        )
        values = {
            "question": question.text,
            "released": str(example.metadata.get(RELEASED) or question.text).strip(),
            "options": options,
        }
        # One pass: a question that contains "{options}" is a question, not a template.
        text = _PLACE.sub(lambda place: values[place[1]], self._prompt.text)
        if not question.options:
            text = text.replace("\n\nOptions:\n\n", "").replace("\n\nOptions:\n", "")
        return Request(question.id, (*question.images, Text(text)))
