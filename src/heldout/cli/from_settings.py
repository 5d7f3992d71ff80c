"""Commands made from settings: types, bounds, defaults and help are those of the settings model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer
from pydantic.fields import FieldInfo

from heldout.errors import HeldoutError, InputError
from heldout.settings import Settings, element_type, nested_settings

_SIMPLE = (str, int, float, bool, Path)


@dataclass(frozen=True)
class Shown:
    """How the command line shows one setting.

    Args:
        setting: Its name; ``judge.model`` for a setting of a nested model.
        metavar: The placeholder of its value in the help.
        flag: Its option; default: ``--judge-model``, and ``--judge`` for ``judge.url``. Several flags
            of one setting, such as ``--text/--no-text``, are written as typer writes them.
        panel: Its group in the help.
        argument: Whether it is an argument without a flag.
        optional: Whether a setting without a default may be left out: another option gives it.
        roles: Nested models that all take this setting with one option, where they are given.
        also: Other settings that this option gives, which error messages may name.
        help: Help for the command line alone; default: the setting's own.
        convert: Makes the setting's value from what was typed.
        several: Whether ``convert`` takes a list, of an option that may be given several times.
    """

    setting: str
    metavar: str | None = None
    flag: str = ""
    panel: str | None = None
    argument: bool = False
    optional: bool = False
    roles: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    help: str = ""
    convert: Callable[[Any], Any] | None = None
    several: bool = False

    @property
    def option(self) -> str:
        if self.argument:
            return self.metavar or self.setting.upper()
        if self.flag:
            return self.flag.split("/")[0]
        return "--" + self.setting.removesuffix(".url").replace(".", "-").replace("_", "-")

    @property
    def parameter(self) -> str:
        return self.setting.replace(".", "_")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of this setting in error messages of the library."""
        if self.roles:
            return tuple(f"{role}.{self.setting}" for role in self.roles)
        return tuple(dict.fromkeys((self.setting, self.setting.removesuffix(".url"), *self.also)))


def panel(name: str, *settings: str | Shown) -> tuple[Shown, ...]:
    """Settings of one group in the help; "lora RANK" is the setting ``lora`` with its metavar."""
    shown = []
    for entry in settings:
        if isinstance(entry, str):
            setting, _, metavar = entry.partition(" ")
            entry = Shown(setting, metavar or None)
        shown.append(replace(entry, panel=name))
    return tuple(shown)


def or_none(text: str) -> str | None:
    """``none`` switches off what is on by default."""
    return None if text == "none" else text


def command(
    settings: type[Settings],
    shown: Sequence[Shown],
    *,
    prepare: Callable[[dict[str, Any], Mapping[str, Any]], None] | None = None,
    unless: Sequence[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a typer command of a function that takes settings.

    The function's first parameter receives the settings; its other parameters are options of the
    command alone, and those without a default come first in the help. Errors that name a setting or
    such a parameter name its option instead.

    Args:
        settings: The model to build.
        shown: Its settings in the order of the help; those left out keep their defaults.
        prepare: Changes the values of the settings, given the command's own options, before they are
            read.
        unless: Options of the command, one of which makes it do something else: the function receives
            None for the settings.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        of_settings = [_parameter(settings, entry) for entry in shown]
        needed = [each for each in own if each.default is inspect.Parameter.empty]
        optional = [each for each in own if each.default is not inspect.Parameter.empty]
        named = [*shown, *_named(own)]

        def run(**values: Any) -> None:
            typed = {entry.parameter: values.pop(entry.parameter) for entry in shown}
            try:
                if any(values[name] for name in unless):
                    return function(None, **values)
                nested = _nested(settings, shown, typed)
                if prepare is not None:
                    prepare(nested, values)
                function(settings.read(nested), **values)
            except HeldoutError as error:
                error.args = (with_options(str(error), named), *error.args[1:])
                raise

        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in (*needed, *of_settings, *optional)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__doc__ = function.__doc__
        run.__module__, run.__name__ = function.__module__, function.__name__
        return run

    return decorate


def _named(own: Sequence[inspect.Parameter]) -> Iterator[Shown]:
    """A command's own options, for error messages that name them as the library does."""
    for parameter in own:
        for option in getattr(parameter.annotation, "__metadata__", ()):
            # Inside Annotated, typer takes the first flag for a default until the command is made.
            flag = getattr(option, "default", None)
            if isinstance(flag, str) and flag.startswith("--"):
                yield Shown(parameter.name, flag=flag)


def _field(settings: type[Settings], name: str) -> FieldInfo:
    head, _, rest = name.partition(".")
    field = settings.model_fields[head]
    if not rest:
        return field
    inner = nested_settings(field.annotation)
    assert inner is not None, f"{name}: {head} is not a model"
    return _field(inner, rest)


def _parameter(settings: type[Settings], entry: Shown) -> inspect.Parameter:
    name = ".".join((*entry.roles[:1], entry.setting))
    field = _field(settings, name)
    annotation: Any = field.annotation
    for bound in field.metadata:
        annotation = Annotated[annotation, bound]
    kind, several, bounds = element_type(annotation)
    metavar = entry.metavar
    if isinstance(kind, type) and issubclass(kind, Enum):
        metavar = metavar or "|".join(str(member.value) for member in kind)
    if entry.convert is not None or kind not in _SIMPLE:
        kind, bounds = str, ()
    extra: dict[str, Any] = {"metavar": metavar, "rich_help_panel": entry.panel}
    for bound in bounds if kind in (int, float) else ():
        extra |= {"min": bound.ge} if getattr(bound, "ge", None) is not None else {}
        extra |= {"max": bound.le} if getattr(bound, "le", None) is not None else {}
    described = _field(settings, name.removesuffix(".url"))  # a server is described by its role
    extra["help"] = entry.help or _help(described)
    needed = field.is_required() and "." not in name and not entry.optional
    several = entry.several or (several and entry.convert is None)
    annotated: Any = list[kind] if several else kind  # type: ignore[valid-type]
    if not needed:
        annotated = annotated | None
    option = (
        typer.Argument(**extra)
        if entry.argument
        else typer.Option(entry.flag or entry.option, **extra)
    )
    return inspect.Parameter(
        entry.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if needed else None,
        annotation=Annotated[annotated, option],
    )


def _help(field: FieldInfo) -> str:
    text = " ".join((field.description or "").replace("``", "").split())
    default = None if field.default_factory is not None else field.default
    if field.is_required() or default in (None, False, (), "") or "default" in text.lower():
        return text
    if isinstance(default, Settings) or default is True:
        return text
    if isinstance(default, tuple):
        default = ", ".join(map(str, default))
    return f"{text.removesuffix('.')} (default: {getattr(default, 'value', default)})."


def _nested(
    settings: type[Settings], shown: Sequence[Shown], typed: Mapping[str, Any]
) -> dict[str, Any]:
    """The typed values as the model expects them: nested, without those that were not typed."""
    values: dict[str, Any] = {}
    shared: dict[Shown, Any] = {}
    for entry in shown:
        value = typed[entry.parameter]
        if value is None or value == []:
            continue
        if entry.convert is not None:
            value = entry.convert(value)
        elif not entry.roles and get_origin(_field(settings, entry.setting).annotation) is dict:
            value = _pairs(value, entry)
        head, _, rest = entry.setting.partition(".")
        if entry.roles:
            shared[entry] = value
        elif rest:
            values.setdefault(head, {})[rest] = value
        else:
            values[head] = value
    for entry, value in shared.items():
        for role in entry.roles:
            if role in values:
                values[role][entry.setting] = value
    return values


def _pairs(texts: Sequence[str], entry: Shown) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{entry.option} {text}: expected {entry.metavar or 'NAME=VALUE'}")
        pairs[name] = value
    return pairs


def with_options(message: str, shown: Sequence[Shown]) -> str:
    """A message of the library with options in place of settings.

    A setting is named at the beginning ("alpha: …", "schedule wild: …") or after "the setting"; a
    name with an underscore or a dot is one wherever it stands.
    """
    options = {name: entry.option for entry in shown for name in entry.names}
    names = "|".join(re.escape(name) for name in sorted(options, key=len, reverse=True))
    telling = "|".join(re.escape(name) for name in options if "_" in name or "." in name)
    named = re.compile(
        rf"^({names})(?=(?: \S+?)?: )|\b[Tt]he settings? ({names})\b|(?<![\w.-])({telling or '$^'})(?!\w|\.\w)"
    )
    message = named.sub(lambda match: options[match[1] or match[2] or match[3]], message)
    return message.replace("this setting is needed", "this option is needed")
