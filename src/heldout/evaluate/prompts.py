"""What a model reads: prompts as texts with places for the question and its options.

``{question}`` is the item's question, ``{released}`` the question as it was released (with options or
instructions that stand inside it), ``{options}`` the options by letter.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from heldout.benchmark.example import RELEASED, Example
from heldout.benchmark.grading import letter
from heldout.model.asking.question import Question
from heldout.model.asking.template import template_name, write
from heldout.model.prompt import placed
from heldout.model.request import Request, Text
from heldout.train.prompts import CHOICE, MEDVLTHINKER, OPEN


class PromptText(NamedTuple):
    """``open``: the text for items without options. ``between``: what separates two options. ``verbatim``:
    pictures come first and marks for them stay in the text, as the published script has it; otherwise they
    stand where the question marks them. ``version`` is raised with any change of the text."""

    text: str
    open: str = ""
    between: str = "\n"
    verbatim: bool = False
    version: int = 1


_THEN = "Think between <think> and </think>, then give"

DIRECT = "direct"  # as `heldout ask` asks
PROMPTS: dict[str, PromptText | None] = {
    DIRECT: None,
    "train": PromptText(  # as `heldout train` asks where nothing else is said
        f"{{question}}\n{{options}}\n\n{CHOICE}", f"{{question}}\n\n{OPEN}", verbatim=True
    ),
    "medvlthinker": PromptText(
        MEDVLTHINKER, MEDVLTHINKER.partition("\n\nOptions:")[0], between="\n\n", verbatim=True
    ),
    "reasoning": PromptText(
        f"Question: {{question}}\n\nOptions:\n{{options}}\n\n{_THEN} the letter of the right option "
        f"between <answer> and </answer>.",
        f"Question: {{question}}\n\n{_THEN} a single word, number or short phrase between <answer> and "
        f"</answer>.",
    ),
    "mmstar": PromptText(
        "{released}\nAnswer with the option's letter from the given choices directly", verbatim=True
    ),
    "released": PromptText("{released}", verbatim=True),
}
_PLACE = re.compile(r"\{(question|released|options)\}")


class SuitePrompt:
    """A prompt by its name, or by its text."""

    def __init__(self, text: str) -> None:
        self._prompt = PROMPTS.get(text, PromptText(text))
        self._name = text if text in PROMPTS else "own"

    def name(self, question: Question) -> str:
        """What the answers table says about the prompt: two with the same name are word for word one."""
        if self._prompt is None:
            return template_name(question, thought=False)
        if self._name == "own":
            digest = hashlib.sha256(self._prompt.text.encode()).hexdigest()
            return f"own prompt {digest[:12]}"
        return f"{self._name}/{self._prompt.version}"

    def request(self, question: Question, example: Example) -> Request:
        prompt = self._prompt
        if prompt is None:
            return write(question)
        listed = [f"{letter(place)}. {option}" for place, option in enumerate(question.options)]
        values = {
            "question": question.text,
            "released": str(example.metadata.get(RELEASED) or question.text).strip(),
            "options": prompt.between.join(listed),
        }
        template = prompt.text if question.options else prompt.open or prompt.text
        # One pass: a question that contains "{options}" is a question, not a template.
        text = _PLACE.sub(lambda place: values[place[1]], template)
        if prompt.verbatim:
            return Request(question.id, (*question.images, Text(text)))
        return Request(question.id, tuple(placed(text, question.images)))
