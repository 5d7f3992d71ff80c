"""The `heldout` command: verbs, and how errors reach the user."""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from heldout import __version__
from heldout.cli.show import complain, with_shared_options
from heldout.errors import HeldoutError, MachineError, machine_trouble

# Verbs are imported when they are called, so that `heldout --help` stays fast.


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
    """A group with its verbs' names and summaries, which loads the one that is called.

    Contexts and commands are Any: typer carries a click of its own, under no public name.
    """

    verbs: tuple[Verb, ...] = ()

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # As the list of verbs shows them, and as typer looks for the one that was meant by a misspelt name.
        self.commands = {
            verb.name: TyperCommand(verb.name, help=verb.summary) for verb in self.verbs
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb itself."""
        name, shown, rest = super().resolve_command(ctx, args)
        if shown is None:
            return name, None, rest
        return name, next(verb for verb in self.verbs if verb.name == shown.name).load(), rest


VERBS = (
    Verb("check", "Lint a benchmark: most false alarms of contamination start there."),
    Verb(
        "overlap",
        "Find every image of a benchmark in corpora; every copy is verified.",
        resumes=True,
    ),
    Verb(
        "audit",
        "Audit benchmarks against corpora and models from one file: one verdict.",
        resumes=True,
    ),
    Verb("plan", "What a search would cost: bytes, hours and dollars of every stage."),
    Verb("merge", "Make one run of the parts of a search.", resumes=True),
    Verb("report", "Rebuild findings, claims and report.html from the tables of a run."),
    Verb("review", "Adjudicate matches, rate items and twins on a local page."),
    Verb("serve", "One page over many runs, for this machine alone; nothing is written."),
    Verb("compare", "What changed between two audits of one benchmark."),
    Verb("export", "A run as a dataset card, a database entry, an evaluation record, BibTeX."),
    Verb("matrix", "How much of each benchmark is in each corpus, in one table."),
    Verb("sanitize", "Write a clean split in the format of the input."),
    Verb(
        "gate",
        "Which training rows to remove so that none of these benchmarks leaks.",
        resumes=True,
    ),
    Verb("impact", "Score leaked, non-leaked and size-matched random items apart."),
    Verb("score", "Score every answer of a benchmark with one model.", resumes=True),
    Verb(
        "ask", "Ask a model every item, as released and in variants; grade strictly.", resumes=True
    ),
    Verb(
        "evaluate",
        "Evaluate models on suites of benchmarks; compare them, paired by item.",
        resumes=True,
    ),
    Verb(
        "twin",
        "Make perturbed twins: the same questions, new pictures, new right answers.",
        resumes=True,
    ),
    Verb("canary", "Plant items in a benchmark before its release that flag who trains on it."),
    Verb(
        "synth",
        "Make fresh items from open literature: verified, decontaminated, published.",
        resumes=True,
    ),
    Verb(
        "train",
        "Train a model on rows compared with the benchmarks it will be evaluated on.",
        resumes=True,
    ),
    Verb("detect", "Has a model seen this benchmark? Every detector, under control."),
    Verb("cluster", "Look at a Ray cluster before searching on it."),
    Verb("lab", "Experiments on copies we planted ourselves.", resumes=True),
    Verb("model", "Look at a model before scoring with it."),
    Verb(
        "demo",
        "Render a benchmark and a leaky corpus, audit it, and show the report.",
        resumes=True,
    ),
)


class _Verbs(LazyGroup):
    verbs = VERBS


INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143
# seconds in which a launcher may repeat a signal that the terminal has already sent
_SAME_SIGNAL = 0.3
_SHOW_CURSOR = b"\x1b[?25h"  # progress bars hide it
KEPT = "What was finished is kept: give the same command again to go on"

app = typer.Typer(
    name="heldout",
    cls=_Verbs,
    help="Is your benchmark still held out? Find which items leaked, and into what.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _compiled() -> str:
    from heldout.image import compiled
    from heldout.overlap import is_compiled

    parts = {"luminance of JPEGs": compiled() is not None, "sums of hashes": is_compiled()}
    return ", ".join(name for name, there in parts.items() if there) or "nothing (slower)"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"heldout {__version__}, compiled: {_compiled()}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Is your benchmark still held out? Find which items leaked, and into what."""


def main() -> None:
    """Exit codes: 0 fine, 1 the gate fired, 2 the user's input, 3 a missing prerequisite, 4 the
    machine gave out (disk, memory, open files) or a bug."""
    _end_on_signals()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # where it cannot be written, that is an error like any other
    except HeldoutError as error:
        message = with_shared_options(str(error))
        _end(_and_again(message) if isinstance(error, MachineError) else message, error.exit_code)
    except SystemExit as ended:
        # Typer turns an interrupt into this exit without a message.
        if ended.code in (INTERRUPTED, TERMINATED):
            how = "interrupted" if ended.code == INTERRUPTED else "ended by SIGTERM"
            more = (
                "; what was finished is kept, run the same command to go on" if _resumes() else ""
            )
            complain(f"{how}{more}")
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # a broken pipe, which Typer calls 1
            _end("", BROKEN_PIPE)
        raise
    except BrokenPipeError:  # `heldout check … | head`
        _end("", BROKEN_PIPE)
    except Exception as error:
        _end(_sentence(error), MachineError.exit_code)
    except BaseException as error:  # of Rust, such as Polars without a file to open
        if type(error).__name__ != "PanicException":
            raise
        _end(_sentence(error), MachineError.exit_code)


def _end_on_signals() -> None:
    """SIGTERM ends a command like an interrupt: finished work is kept and tables are written. A second
    signal meanwhile ends it at once; what is on disk by then stays."""
    handled = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody ignores it
        handled.append(signal.SIGINT)

    def answer_with(action: signal.Handlers) -> None:
        for number in handled:
            signal.signal(number, action)

    def handle(number: int, frame: FrameType | None) -> None:
        answer_with(signal.SIG_IGN)
        time.sleep(_SAME_SIGNAL)
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        # the system's own function: handlers in Python wait for the main thread
        answer_with(signal.SIG_DFL)
        if number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        raise SystemExit(TERMINATED)

    before = {number: signal.signal(number, handle) for number in handled}
    if hasattr(os, "register_at_fork"):  # workers end at once
        os.register_at_fork(
            after_in_child=lambda: [signal.signal(number, old) for number, old in before.items()]
        )


def _end(message: str, code: int) -> NoReturn:
    with contextlib.suppress(OSError):  # standard error may be what is full or gone
        try:
            if message:
                complain(message)
        except OSError:  # colours need modules, and no more files may be opened
            os.write(2, f"heldout: {message}\n".encode())
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at its end, complain and exit with 120
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _sentence(error: BaseException) -> str:
    """The sentence for an unexpected error."""
    trouble = machine_trouble(error)
    if trouble is not None:
        return _and_again(trouble)
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # torch's
        detail = f" ({error})" if str(error) else ""
        fewer = ", or use fewer --workers" if _resumes() else ""
        return _and_again(f"memory ran out{detail}: close other programs{fewer}")
    if isinstance(error, OSError):
        return _and_again(f"the system refused: {error}")
    return _and_again(
        f"this is a bug in heldout ({type(error).__name__}: {error}). Please report it "
        f"with {_write_traceback(error)}"
    )


def _resumes() -> bool:
    """Whether the verb that was called keeps what it finished; others start from the beginning."""
    called = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    return any(verb.resumes for verb in VERBS if verb.name == called)


def _and_again(text: str) -> str:
    return f"{text}. {KEPT}" if _resumes() else text


def _write_traceback(error: BaseException) -> str:
    """Keep the traceback in a file, and say which; print it where no file can be written."""
    message = "".join(traceback.format_exception(error))
    facts = f"heldout {__version__}, Python {platform.python_version()}, {platform.platform()}"
    try:
        handle, name = tempfile.mkstemp(prefix="heldout-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{facts}\n{shlex.join(sys.argv)}\n\n{message}")
    except OSError:
        sys.stderr.write(message)
        return "the lines above"
    return f"the file {name}"
