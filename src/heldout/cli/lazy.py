"""Verbs are imported when they are called, so that `heldout --help` stays fast."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True)
class Verb:
    """Where a verb lives. A module with an ``app`` is a group of verbs, else it has ``EXAMPLE``."""

    name: str
    summary: str  # one line, in the list of verbs
    module: str = ""  # in heldout.cli; default: the name itself
    function: str = ""
    resumes: bool = False  # whether the same command continues where it was interrupted

    def load(self) -> Any:
        module = importlib.import_module(f"heldout.cli.{self.module or self.name}")
        if not self.function and hasattr(module, "app"):
            command: Any = get_group(module.app)
        else:
            holder = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            function = getattr(module, self.function or f"{self.name}_command")
            holder.command(self.name, epilog=module.EXAMPLE)(function)
            command = get_command(holder)
        command.name = self.name
        return command


class LazyGroup(TyperGroup):
    """A group that knows its verbs' names and summaries, and loads the one that is called.

    Contexts and commands are Any: typer carries a click of its own, under no public name.
    """

    verbs: tuple[Verb, ...] = ()

    def list_commands(self, ctx: Any) -> list[str]:
        return [verb.name for verb in self.verbs]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb as the list of verbs shows it."""
        for verb in self.verbs:
            if verb.name == cmd_name:
                return TyperCommand(verb.name, help=verb.summary)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb itself."""
        name, shown, rest = super().resolve_command(ctx, args)
        if shown is None:
            return name, None, rest
        return name, next(verb for verb in self.verbs if verb.name == shown.name).load(), rest
