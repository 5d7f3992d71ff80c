"""Suites: benchmarks that are reported together, with their prompts and graders, defined in data files."""

from __future__ import annotations

import difflib
import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from heldout.benchmark import RELEASED, Example, letter
from heldout.documents import read_yaml
from heldout.errors import InputError
from heldout.evaluate.scorers import SCORERS
from heldout.model import Question, Request, Text, placed, template_name, write
from heldout.settings import plain_words
from heldout.train import CHOICE, MEDVLTHINKER, OPEN

# What a model reads: prompts as texts with places for the question and its options.
#
# ``{question}`` is the item's question, ``{released}`` the question as it was released (with options or
# instructions that stand inside it), ``{options}`` the options by letter.


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
    "train": PromptText(  # as `heldout train` asks by default
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
        """The prompt's name in the answers table: prompts with the same name are the same word for word."""
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


MEAN = "mean"  # what tables call the mean over benchmarks
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SuiteBenchmark(_Strict):
    """One benchmark of a suite."""

    name: Annotated[str, Field(pattern=_NAME, max_length=60)]
    """Its name in tables and folders."""
    source: str
    """A path (from the suite file's folder), path#split=test, a preset or a hub name."""
    images: str | None = None
    """Folder with its images, where they lie apart."""
    preset: str | None = None
    """Read the source as this named benchmark."""
    map: dict[str, str] = Field(default_factory=dict)
    """Columns by field, as the setting ``mapping`` of other verbs."""
    questions: Literal["all", "choice", "closed"] = "all"
    """``choice`` keeps items with options; ``closed`` also makes yes/no and either-or questions choices."""
    prompt: str | None = None
    """Name of a prompt, or a text with {question} or {released}, and {options}; default: the suite's."""
    scorers: tuple[str, ...] | None = None
    """Published scorers to show beside strict grading; default: the suite's."""
    items: Annotated[int, Field(ge=1)] | None = None
    """Number of items that results are published for."""

    @field_validator("name")
    @classmethod
    def _own_name(cls, value: str) -> str:
        if value.lower() == MEAN:
            raise ValueError(
                f"'{value}' is what tables call the mean over benchmarks; take another name"
            )
        return value

    @field_validator("prompt")
    @classmethod
    def _known_prompt(cls, value: str | None) -> str | None:
        return _checked_prompt(value)

    @field_validator("scorers")
    @classmethod
    def _known_scorers(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return _checked_scorers(value)


class Suite(_Strict):
    """Benchmarks that are reported together; their unweighted mean is the suite's score."""

    name: Annotated[str, Field(pattern=_NAME, max_length=60)]
    about: str = ""
    """What it is and where it was published."""
    prompt: str = "direct"
    """Name of a prompt, or a text with {question} or {released}, and {options}."""
    max_new_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """Longest reply in tokens."""
    scorers: tuple[str, ...] = ()
    """Published scorers to show beside strict grading."""
    benchmarks: Annotated[tuple[SuiteBenchmark, ...], Field(min_length=1)]

    @field_validator("prompt")
    @classmethod
    def _known_prompt(cls, value: str) -> str:
        return _checked_prompt(value) or value

    @field_validator("scorers")
    @classmethod
    def _known_scorers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked_scorers(value) or ()

    @field_validator("benchmarks")
    @classmethod
    def _named_once(cls, value: tuple[SuiteBenchmark, ...]) -> tuple[SuiteBenchmark, ...]:
        names = [suite_benchmark.name.lower() for suite_benchmark in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the benchmark '{name}' is listed twice; names must differ")
        return value

    def benchmark(self, name: str) -> SuiteBenchmark:
        """The benchmark called ``name``, in any case."""
        for entry in self.benchmarks:
            if entry.name.lower() == name.lower():
                return entry
        raise InputError(
            f"the suite {self.name} has no benchmark '{name}'; it has: "
            f"{', '.join(benchmark.name for benchmark in self.benchmarks)}"
        )


def builtin_suites() -> dict[str, Suite]:
    """The suites that come with heldout, by name."""
    folder = resources.files("heldout.evaluate") / "suites"
    files = sorted((path for path in folder.iterdir() if path.name.endswith(".yaml")), key=str)
    suites = [_suite(read_yaml(file)[0], file.name) for file in files]
    return {suite.name: suite for suite in suites}


def read_suite(text: str) -> tuple[Suite, Path | None]:
    """A suite by its name or its file, and the folder that paths in it start from."""
    path = Path(text)
    if path.is_file():
        return _suite(read_yaml(path)[0], str(path)), path.parent
    known = builtin_suites()
    if text in known:
        return known[text], None
    if path.suffix in (".yaml", ".yml"):
        raise InputError(f"{text} does not exist; expected a suite file, or one of {_list(known)}")
    near = difflib.get_close_matches(text.lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InputError(
        f"there is no suite '{text}'.{hint} Built in: {_list(known)}. Your own: a YAML file with name "
        f"and benchmarks (docs/evaluate.md)"
    )


def _list(known: dict[str, Suite]) -> str:
    return ", ".join(known)


def _suite(value: Any, where: str) -> Suite:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a mapping with name and benchmarks")
    try:
        return Suite.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(
            str(part + 1) if isinstance(part, int) else str(part) for part in first["loc"]
        )
        message = plain_words(first["msg"])
        if first["type"] == "too_short":
            message = "list at least one"
        if first["type"] == "extra_forbidden":
            fields = SuiteBenchmark if "benchmarks" in first["loc"][:1] else Suite
            message = f"there is no such key; there are {', '.join(fields.model_fields)}"
        raise InputError(f"{where}: {place}: {message[:1].lower()}{message[1:]}") from error


def _checked_prompt(value: str | None) -> str | None:
    if value is None or value in PROMPTS or "{question}" in value or "{released}" in value:
        return value
    raise ValueError(
        f"'{value:.60}' is no prompt; there are {', '.join(PROMPTS)}, or a text with {{question}} or "
        f"{{released}}"
    )


def _checked_scorers(value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for name in value or ():
        if name not in SCORERS:
            raise ValueError(f"'{name:.60}' is no scorer; there are {', '.join(SCORERS)}")
    return value
