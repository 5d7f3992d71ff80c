"""Settings: one model per verb, shared by the command line, the audit file and Python."""

from __future__ import annotations

import difflib
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from heldout.errors import InputError


class Settings(BaseModel):
    """Base of every verb's settings: each default, bound and sentence of help stands here once."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """``help(SETTINGS)`` shows the help of every field."""
        sentences = [
            textwrap.fill(
                f"{name}: {' '.join(field.description.split())}",
                100,
                initial_indent="    ",
                subsequent_indent="        ",
                break_on_hyphens=False,
            )
            for name, field in cls.model_fields.items()
            if field.description
        ]
        if sentences:
            summary = (cls.__doc__ or "").partition("\n\nArgs:\n")[0]
            cls.__doc__ = "\n".join([summary, "", "Args:", *sentences, ""])

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Settings from a user's values.

        Args:
            values: Settings by name; what is left out keeps its default.

        Raises:
            InputError: A sentence that begins with the name of the setting, ``judge.url`` for one of a
                nested model. Values of nested models are not repeated: one of them may be a secret.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError(_sentence(error, cls)) from None

    @classmethod
    def choose(cls, settings: Self | None, values: Mapping[str, Any]) -> Self:
        """Settings of a call that takes them as one object or by name, not both."""
        if settings is not None and values:
            raise InputError(
                f"{next(iter(values))}: give settings, or single ones by name, not both"
            )
        return settings if settings is not None else cls.read(values)


def nested_settings(annotation: Any) -> type[Settings] | None:
    """The settings model inside an annotation such as ``Endpoint | None``; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    return next(filter(None, map(nested_settings, get_args(annotation))), None)


def command_line(verb: str, *arguments: str, **settings: str | Sequence[str] | bool) -> str:
    """The command that calls a verb with these settings, for people to copy; of a list, one option each."""
    words = ["heldout", verb, *arguments]
    for name, value in settings.items():
        option = _option(name)
        if isinstance(value, bool):
            words += [option] if value else []
            continue
        for text in [value] if isinstance(value, str) else value:
            words += [option, text]
    return shlex.join(words)


def changed_command(command: Sequence[str], without: str, **changed: str) -> str:
    """A recorded command less one setting and with others changed; "" where it does not name them all."""
    words = list(command)
    if not {_option(name) for name in (without, *changed)} <= set(words):
        return ""
    at = words.index(_option(without))
    del words[at : at + 2]
    for name, value in changed.items():
        words[words.index(_option(name)) + 1] = value
    return shlex.join(words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def plain_words(message: str) -> str:
    """A message of Pydantic in the words that heldout uses everywhere."""
    for pydantic, ours in _WORDS.items():
        message = message.replace(pydantic, ours)
    return message


_WORDS = {
    "Value error, ": "",
    "Input should be a valid number, unable to parse string as a number": "expected a number",
    "Input should be a valid integer, unable to parse string as an integer": "expected a whole number",
    "Input should be a valid integer": "expected a whole number",
    "Input should be a valid boolean, unable to interpret input": "expected true or false",
    "Input should be a valid dictionary": "expected names, each with a value",
    "Input should be a valid tuple": "expected a list",
    "Input should be a valid string": "expected a text",
    "Input should be greater than or equal to": "expected a number not below",
    "Input should be less than or equal to": "expected a number not above",
    "Input should be greater": "expected a number greater",
    "Input should be less": "expected a number less",
    "Input should be": "expected",
}


def _sentence(error: ValidationError, settings: type[Settings]) -> str:
    """The first mistake; a wrong name comes first, because it explains why another is missing."""
    problem = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")
    place = [str(part) for part in problem["loc"] if not isinstance(part, int)]
    field = settings.model_fields.get(place[0]) if place else None
    inner = nested_settings(field.annotation) if field is not None else None
    name = ".".join(place)
    if problem["type"] == "extra_forbidden":
        known = list((inner or settings).model_fields)
        close = difflib.get_close_matches(place[-1], known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        return f"{name}: there is no such setting; {hint}"
    if problem["type"] == "missing":
        return f"{name}: this setting is needed"
    message = plain_words(problem["msg"])
    if inner is not None:
        for own in inner.model_fields:  # an error message about a nested model names its settings
            ending = r"\b" if "_" in own else ": "
            message = re.sub(rf"(?<![\w.])({own}{ending})", rf"{place[0]}.\1", message)
        return message if message.startswith(f"{place[0]}.") else f"{name}: {message}"
    got = ""
    if isinstance(problem["input"], str | int | float):
        got = f"; got {problem['input']!r:.60}"
    return f"{name}: {message}{got}" if name else message


def element_type(annotation: Any) -> tuple[Any, bool, tuple[Any, ...]]:
    """What an annotation holds: its type, whether it holds several, and its bounds.

    ``tuple[str, ...]`` holds several texts; ``Annotated[int, Field(ge=1)] | None`` one whole number of
    at least 1; a mapping is a list of texts ``KEY=VALUE``.
    """
    bounds: tuple[Any, ...] = ()
    while True:
        origin, parts = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation = parts[0]
            for part in parts[1:]:
                bounds += tuple(getattr(part, "metadata", (part,)))
        elif origin is Union or type(annotation).__name__ == "UnionType":
            annotation = next(part for part in parts if part is not type(None))
        elif origin in (tuple, list, set, frozenset):
            kind, _, inner = element_type(parts[0])
            return kind, True, bounds + inner
        elif origin is dict:
            return str, True, bounds
        else:
            return annotation, False, bounds
