"""A training set: rows with images, question, options and answer, and their prompts and replies."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.benchmark import Example, parse_source, read_benchmark
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model import TemplateError, render_turns
from heldout.store import Dropped
from heldout.train.reward import LETTERS, Solution

STAGE = "training set"
_SYNTH = Path("synth") / "dataset" / "data"
_TAGS = ("<think", "</think", "<answer", "</answer")
_WRAPPED = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)
_TRACES = ("reasoning", "reasoning_trace", "trace", "thinking", "think", "rationale", "cot")


@dataclass(frozen=True)
class TrainingItem:
    id: str
    images: tuple[ImageRef, ...]
    question: str
    options: tuple[str, ...]
    answer: str  # the text of the right option, or of an open answer
    solution: Solution
    reasoning: str = ""


@dataclass(frozen=True)
class TrainingSet:
    """The rows that can be trained on, and those that cannot with their reasons."""

    name: str
    source: str
    items: tuple[TrainingItem, ...]
    dropped: tuple[Dropped, ...]

    @property
    def fingerprint(self) -> str:
        """Changes with the words of a row, the names of its images, and the order."""
        hasher = hashlib.sha256(b"heldout-training-set-1\n")
        for item in self.items:
            parts = (
                item.id,
                item.question,
                *item.options,
                item.answer,
                item.reasoning,
                *(ref.name for ref in item.images),
            )
            hasher.update("\0".join(parts).encode("utf-8", "replace") + b"\n")
        return hasher.hexdigest()

    def without(self, removed: Mapping[str, str]) -> TrainingSet:
        """The rows that are not in ``removed``, which holds the reason for each."""
        kept = tuple(item for item in self.items if item.id not in removed)
        gone = tuple(
            Dropped("gate", item.id, "removed by the gate", removed[item.id])
            for item in self.items
            if item.id in removed
        )
        return TrainingSet(self.name, self.source, kept, (*self.dropped, *gone))


def read_training_set(source: str, *, limit: int | None = None) -> TrainingSet:
    """Read ``source``, which may also be the run folder of a synthesis."""
    place = parse_source(source)
    published = place.path / _SYNTH
    if (place.path / "manifest.json").is_file() and place.path.is_dir():
        if not published.is_dir():
            raise InputError(
                f"{source} is a run folder without a published dataset (synth/dataset/data): run its "
                f"synthesis up to the stage 'publish', or name a table of training rows"
            )
        read = read_benchmark(str(published), name=place.path.name)
    else:
        read = read_benchmark(source)
    items: list[TrainingItem] = []
    dropped = list(read.dropped)
    for item in map(_item, read.examples):
        if isinstance(item, TrainingItem):
            items.append(item)
        else:
            dropped.append(item)
    if not items:
        why = f" The first was dropped because: {dropped[0].detail}" if dropped else ""
        raise InputError(
            f"{source}: no row can be trained on; expected a question, an answer and, for multiple choice, "
            f"options.{why}"
        )
    return TrainingSet(read.name, source, tuple(items[:limit]), tuple(dropped))


def _item(example: Example) -> TrainingItem | Dropped:
    question, answer = (example.question or "").strip(), (example.answer or "").strip()
    if not question or not answer:
        lacking = "question" if not question else "answer"
        return Dropped(STAGE, example.id, f"no {lacking}", f"{example.origin}: {lacking} is empty")
    letter = ""
    if example.options:
        place = example.answer_index
        if place is None or not 0 <= place < min(len(example.options), len(LETTERS)):
            message = f"{example.origin}: the answer {answer!r} is none of the options"
            return Dropped(STAGE, example.id, "answer is no option", message)
        letter, answer = LETTERS[place], example.options[place].strip()
    return TrainingItem(
        example.id,
        example.images,
        question,
        example.options,
        answer,
        Solution(answer, letter, example.options),
        _trace(example.metadata),
    )


def _trace(metadata: Mapping[str, Any]) -> str:
    """The reasoning of a row, taken out of its tags. None for a trace with further tags in it, which would end
    early."""
    known = {str(name).lower(): value for name, value in metadata.items()}
    for name in _TRACES:
        value = known.get(name)
        if isinstance(value, str) and value.strip():
            wrapped = _WRAPPED.match(value)
            text = (wrapped[1] if wrapped else value).strip()
            return "" if any(tag in text.lower() for tag in _TAGS) else text
    return ""


def unusual(items: tuple[TrainingItem, ...]) -> Iterator[str]:
    """Warnings about the rows before training on them."""
    letters = {item.solution.letter for item in items if item.options}
    if len(items) >= 20 and len(letters) == 1:
        yield f"the right option is {letters.pop()} in every row: a model learns the letter, not the task"


# Prompts and replies of training: question, options and instruction; reasoning and answer.


# Part of a trained model's identity. Raise it with any change of what a model reads.
TEMPLATE = "heldout-train/1"
_THINK = "Think about the question step by step inside <think> and </think>."
CHOICE = f"{_THINK} Then give the letter of the right option inside <answer> and </answer>."
_PLACE = re.compile(r"\{(question|options)\}")
OPEN = f"{_THINK} Then give a single word, number or short phrase inside <answer> and </answer>."


# The prompt of MedVLThinker, which MedVLSynther trains and evaluates with. In the published script its
# first line break is the two characters \n, and so it is here: models are evaluated with that.
MEDVLTHINKER = (
    r"You will solve a problem/request. You should provide your thoughts within <think> </think> tags "
    r"before providing the answer.\nWrite your final answer within <answer> </answer> tags."
    "\n\nQuestion: {question}\n\nOptions:\n\n{options}"
)


def asked(item: TrainingItem, prompt: str = "") -> str:
    """The user's turn in words; by default as the published datasets of ``heldout synth`` write it."""
    shown = [f"{letter}. {option}" for letter, option in zip(LETTERS, item.options, strict=False)]
    if not prompt:
        message = CHOICE if item.options else OPEN
        return "\n".join([item.question, *shown]) + f"\n\n{message}"
    published = prompt == "medvlthinker"
    options = ("\n\n" if published else "\n").join(shown)
    values = {"question": item.question, "options": options}
    # Filled in one pass: a question may itself contain braces.
    text = MEDVLTHINKER if published else prompt
    return _PLACE.sub(lambda place: values[place[1]], text)


def reply_to(item: TrainingItem) -> str:
    """The assistant's turn that SFT learns. A row without a reasoning trace has an empty one."""
    return f"<think>{item.reasoning}</think><answer>{item.solution.letter or item.answer}</answer>"


def messages(item: TrainingItem, prompt: str = "") -> list[dict[str, Any]]:
    """The user's turn for a chat template: images, then words."""
    images = [{"type": "image"} for _ in item.images]
    return [{"role": "user", "content": [*images, {"type": "text", "text": asked(item, prompt)}]}]


def require_template(processor: Any, name: str) -> None:
    if not getattr(processor, "chat_template", None):
        raise InputError(
            f"model {name}: the checkpoint has no chat template, so it is not known how its prompts begin "
            f"and its replies end. Save one with it (processor.chat_template), or start from the "
            f"instruction-tuned checkpoint of this model"
        )


class ChatForm:
    """The checkpoint's chat template: how a prompt begins, and how a reply ends."""

    def __init__(
        self, processor: Any, tokenizer: Any, model: Any, name: str, prompt: str = ""
    ) -> None:
        require_template(processor, name)
        self._processor = processor
        self._prompt = prompt
        self._opening = _opening(tokenizer)
        self.stop = stop_tokens(tokenizer, model)
        self._ending = self._found_ending(tokenizer)

    def prompt(self, item: TrainingItem) -> str:
        """The rendered prompt, with the token that the tokenizer would put in front."""
        text = self._render(messages(item, self._prompt), add_generation_prompt=True)
        return text if text.startswith(self._opening) else self._opening + text

    def completion(self, item: TrainingItem) -> str:
        return reply_to(item) + self._ending

    def _render(self, turns: list[dict[str, Any]], **how: Any) -> str:
        try:
            return render_turns(self._processor, turns, **how)
        except TemplateError as error:
            raise InputError(
                f"the model's chat template fails on a user's turn with an image: {error}"
            ) from error

    def _found_ending(self, tokenizer: Any) -> str:
        """What the template writes after a reply, up to the token at which generation stops."""
        user = {"role": "user", "content": [{"type": "text", "text": "x"}]}
        reply = "heldoutreply"
        turn = {"role": "assistant", "content": [{"type": "text", "text": reply}]}
        try:
            rest = self._render([user, turn]).rpartition(reply)[2]
        except InputError:  # some templates do not support a second turn
            rest = ""
        stops = [tokenizer.decode([token]) for token in self.stop]
        places = [(rest.find(stop) + len(stop)) for stop in stops if stop and stop in rest]
        return rest[: min(places)] if places else str(tokenizer.eos_token or "")


def stop_tokens(tokenizer: Any, model: Any) -> list[int]:
    """Every token that ends a reply."""
    eos_token_id = model.generation_config.eos_token_id
    known = [eos_token_id] if isinstance(eos_token_id, int) else list(eos_token_id or [])
    own = tokenizer.eos_token_id
    return known if own is None or own in known else [*known, own]


def _opening(tokenizer: Any) -> str:
    first = tokenizer("x")["input_ids"][:1]
    known = bool(first) and first[0] in tokenizer.all_special_ids
    return str(tokenizer.decode(first)) if known else ""
