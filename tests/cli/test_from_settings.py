"""Commands made from settings: one default, one bound and one sentence of help per setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import pytest
import typer
from pydantic import Field, model_validator
from typer.testing import CliRunner

from heldout.cli.from_settings import Shown, command, or_none, panel, with_options
from heldout.cli.options import Json
from heldout.errors import InputError
from heldout.settings import Settings


class Server(Settings):
    url: str
    """Address of the server."""
    api_key: str | None = None
    """A secret."""
    tries: Annotated[int, Field(ge=1, le=9)] = 3
    """Attempts at a request."""


class Recipe(Settings):
    source: str
    """What is read."""
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Level of the test."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Only the first items."""
    against: tuple[str, ...] = ()
    """Corpora."""
    encoder: str | None = "pixels"
    """Encoder of images."""
    text: bool = True
    """Compare texts, too."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Columns by field."""
    judge: Server | None = None
    """Judges texts."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.limit == 13:
            raise ValueError("limit: expected another number than 13, or the setting against")
        return self


SHOWN = (
    Shown("source", "SOURCE", argument=True),
    Shown("columns", "FIELD=COLUMN", flag="--map"),
    *panel(
        "Search",
        "alpha",
        "limit",
        "against CORPUS",
        Shown("encoder", convert=or_none),
        Shown("text", flag="--text/--no-text"),
    ),
    *panel("Judge", "judge.url URL", "judge.api_key", "judge.tries"),
)
seen: list[tuple[Recipe, bool]] = []


@command(Recipe, SHOWN)
def recipe_command(
    settings: Recipe,
    as_json: Json = False,
    out: Annotated[str, typer.Option("--out-file")] = "",
) -> None:
    """Cook."""
    if out:
        raise InputError(f"out {out}: it exists")
    seen.append((settings, as_json))


def run(*words: str) -> Recipe:
    app = typer.Typer()
    app.command()(recipe_command)
    seen.clear()
    result = CliRunner().invoke(app, words)
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    assert len(seen) == 1
    return seen[0][0]


def test_nothing_given_is_the_model_with_its_defaults() -> None:
    assert run("here") == Recipe(source="here")


def test_every_kind_of_setting_arrives() -> None:
    words = (
        "here --map id=key --alpha .1 --limit 5 --against a --against b --encoder none --no-text"
    )
    settings = run(*words.split(), "--judge", "http://s/v1", "--judge-tries", "2")
    assert settings == Recipe(
        source="here",
        columns={"id": "key"},
        alpha=0.1,
        limit=5,
        against=("a", "b"),
        encoder=None,
        text=False,
        judge=Server(url="http://s/v1", tries=2),
    )


@pytest.mark.parametrize(
    "words, option",
    [
        ("--alpha .7", "--alpha:"),
        ("--limit 13", "--limit:"),
        ("--judge-tries 2", "--judge:"),
        ("--map id", "--map id:"),
        ("--out-file a:b", "--out-file a:b:"),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_typed(words: str, option: str) -> None:
    with pytest.raises(InputError) as error:
        run("here", *words.split())
    assert str(error.value).startswith(option)


def test_settings_inside_a_sentence_become_options() -> None:
    with pytest.raises(InputError) as error:
        run("here", "--limit", "13")
    assert "or --against" in str(error.value)
    assert with_options("see judge.tries", SHOWN) == "see --judge-tries"
    assert with_options("A smaller judge.tries. Next", SHOWN) == "A smaller --judge-tries. Next"
    assert with_options("The setting judge.tries says it", SHOWN) == "--judge-tries says it"
    assert with_options("limits are against nature", SHOWN) == "limits are against nature"


def test_bounds_defaults_and_help_come_from_the_model() -> None:
    app = typer.Typer()
    app.command()(recipe_command)
    shown = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output.split())
    assert "(default: 0.05)" in shown
    assert "x>=1" in shown and "1<=x<=9" in shown
    assert "Search" in shown and "Judge" in shown
    assert CliRunner().invoke(app, ["here", "--limit", "0"]).exit_code == 2


def test_python_and_the_audit_file_hear_the_same_sentences() -> None:
    with pytest.raises(InputError, match=r"^alpha: .*\b0\.5\b.*\b0\.7$"):
        Recipe.read({"source": "x", "alpha": 0.7})
    with pytest.raises(InputError, match=r"^alfa: .*\balpha\b"):
        Recipe.read({"source": "x", "alfa": 0.7})
    with pytest.raises(InputError) as error:
        Recipe.read({"source": "x", "judge": {"url": "u", "api_key": ["sk-secret"]}})
    assert str(error.value).startswith("judge.api_key:") and "sk-secret" not in str(error.value)


class Panel(Settings):
    source: str
    """What is read."""
    judge: Server | None = None
    """Judges texts."""
    writer: Server | None = None
    """Writes texts."""


ROLES = ("judge", "writer")
OF_PANEL = (
    Shown("source", "SOURCE", argument=True, optional=True),
    *(Shown(f"{role}.url", "URL") for role in ROLES),
    Shown("tries", roles=ROLES),
)


def _drawn(values: dict[str, object], options: Mapping[str, object]) -> None:
    if options["drawn"]:
        values["source"] = "drawn"


def test_one_option_sets_all_roles_that_are_given_and_others_may_stand_for_a_setting() -> None:
    read: list[Panel | None] = []

    @command(Panel, OF_PANEL, prepare=_drawn, unless=("names",))
    def panel_command(settings: Panel | None, drawn: bool = False, names: bool = False) -> None:
        read.append(settings)

    app = typer.Typer()
    app.command()(panel_command)
    words = ["--drawn", "--judge", "http://s/v1", "--tries", "2"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert CliRunner().invoke(app, ["--names"]).exit_code == 0
    assert read == [Panel(source="drawn", judge=Server(url="http://s/v1", tries=2)), None]
    assert str(CliRunner().invoke(app, []).exception).startswith("SOURCE: ")
    assert with_options("writer.tries: expected", OF_PANEL) == "--tries: expected"


def test_every_command_takes_quiet() -> None:
    import typer

    from heldout.cli.app import app

    def commands(command: object, name: str) -> list[tuple[str, object]]:
        members = getattr(command, "commands", None)
        if members is None and hasattr(command, "list_commands"):
            context = typer.Context(command)  # type: ignore[arg-type]
            members = {
                entry: command.resolve_command(context, [entry])[1]  # type: ignore[attr-defined]
                for entry in command.list_commands(context)
            }
        if not members:
            return [(name, command)]
        return [
            found
            for entry, member in members.items()
            for found in commands(member, f"{name} {entry}".strip())
        ]

    root = typer.main.get_command(app)
    verbs: dict[str, object] = {}
    for name in root.list_commands(typer.Context(root)):  # type: ignore[attr-defined]
        loaded = root.resolve_command(typer.Context(root), [name])[1]  # type: ignore[attr-defined]
        verbs |= dict(commands(loaded, name))
    assert len(verbs) > 30
    lacking = {
        name
        for name, command in verbs.items()
        if not any("--quiet" in parameter.opts for parameter in command.params)  # type: ignore[attr-defined]
    }
    assert lacking == set()
