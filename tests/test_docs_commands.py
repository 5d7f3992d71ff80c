"""Every command on every page: verb, options and arguments exist; light ones are run."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from command_line import run_inside
from heldout.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.M | re.S)
SPAN = re.compile(r"(?<!`)`(heldout [^`]+)`(?!`)")
OMITTED = re.compile(r"…|\.\.\.")


class Written(NamedTuple):
    page: str
    text: str  # on one line, without brackets around what is optional
    printed: str = ""  # what the page shows below it

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


def written(page: Path) -> Iterator[Written]:
    """Commands in blocks and in sentences."""
    text = page.read_text(encoding="utf-8")
    for language, block in FENCE.findall(text):
        if language in ("", "console", "bash", "sh"):
            yield from _in_block(page.name, block)
    for span in SPAN.findall(FENCE.sub("", text)):
        yield Written(page.name, _plain(" ".join(span.split())))


def _in_block(page: str, block: str) -> Iterator[Written]:
    lines = iter(block.splitlines())
    command, printed = "", []
    for line in [*lines, "$ "]:
        start = line.strip().removeprefix("$ ").lstrip()
        if line.strip().startswith("$") or start.startswith("heldout "):
            if command:
                yield Written(page, _plain(command), "\n".join(printed))
            command, printed = (start, []) if start.startswith("heldout ") else ("", [])
        elif command and not printed and (command.endswith("\\") or re.match(r" +[\[-]", line)):
            command = f"{command.removesuffix(chr(92))} {line.strip()}"
        else:
            printed.append(line)


def _plain(text: str) -> str:
    text = re.split(r"\s(?:\||>|&&|;|<|#)\s|\s{3,}heldout ", f"{text} ")[0]
    return re.sub(r"[\[\]]", " ", text).strip() if " [" in text else text.strip()


COMMANDS = [command for page in PAGES for command in written(page)]


@functools.cache
def _command(*names: str) -> tuple[Any, int]:
    """The command that these words call, and how many of them are its name."""
    current: Any = typer.main.get_command(app)
    for depth, name in enumerate(names):
        members = getattr(current, "list_commands", None)
        if members is None:
            return current, depth
        context = typer.Context(current)
        if name not in current.list_commands(context):
            raise AssertionError(f"there is no command {name}")
        current = current.resolve_command(context, [name])[1]
    return current, len(names)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_commands_name_verbs_options_and_arguments_that_exist(page: str) -> None:
    for entry in (command for command in COMMANDS if command.page == page):
        try:
            _check(entry)
        except (AssertionError, ValueError) as error:
            pytest.fail(f"{page}: {entry.text}: {error}")


def _check(entry: Written) -> None:
    words = entry.words[1:]
    if not words or words[0].startswith("-"):
        return
    if not re.fullmatch(r"[a-z]+", words[0]):
        return  # "heldout VERB", "heldout …"
    command, depth = _command(*[word for word in words[:2] if re.fullmatch(r"[a-z-]+", word)])
    if hasattr(command, "list_commands"):
        return  # a group of commands is named
    options = {name: parameter for parameter in command.params for name in _names(parameter)}
    rest, arguments = iter(words[depth:]), []
    for word in rest:
        name = word.partition("=")[0].rstrip(",.;:)")
        if OMITTED.search(word) and not word.startswith("--"):
            arguments.append(word)
        elif name.startswith("--"):
            assert name in options or name == "--help", f"no option {name}"
            if name != "--help" and not options[name].is_flag and "=" not in word:
                lacks = next(rest, None) is None and arguments and not OMITTED.search(entry.text)
                assert not lacks, f"{name} without its value"
        else:
            arguments.append(word)
    needed = [parameter for parameter in command.params if _is_argument(parameter)]
    if not OMITTED.search(entry.text) and arguments:
        most = sum(99 if parameter.nargs == -1 else 1 for parameter in needed)
        assert len(arguments) <= most, f"{len(arguments)} arguments, it takes {most}"


def _names(parameter: Any) -> list[str]:
    return [] if _is_argument(parameter) else [*parameter.opts, *parameter.secondary_opts]


def _is_argument(parameter: Any) -> bool:
    return str(parameter.param_type_name) == "argument"


def test_there_are_commands_and_a_wrong_one_is_seen() -> None:
    assert COMMANDS
    for text in (
        "heldout cheque data",
        "heldout check data --splitof x",
        "heldout lab no-such",
        "heldout report RUN RUN2",
        "heldout sanitize BENCH --run RUN --resplit",
    ):
        with pytest.raises(AssertionError):
            _check(Written("page", text))


#: run as they are, in a folder where data/ is the real data
LIGHT = {
    *(("audit", "--rules"), ("detect", "--list"), ("lab", "confound")),
}
CHECKED = [
    command
    for command in dict.fromkeys(COMMANDS)
    if re.match("heldout check '?data/", command.text)
    and command.printed
    and not OMITTED.search(command.text)
]


@pytest.mark.parametrize("text", dict.fromkeys(entry.text for entry in CHECKED))
def test_check_prints_what_the_pages_show(
    text: str, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").symlink_to(shared_data)
    monkeypatch.chdir(tmp_path)
    done = run_inside(*shlex.split(text)[1:], "--quiet")
    assert done.returncode in (0, 1), done.stderr
    shown = " ".join(done.stdout.split())
    for entry in CHECKED:
        for line in entry.printed.splitlines() if entry.text == text else ():
            if line.strip() and "…" not in line:
                assert " ".join(line.split()) in shown, f"{entry.page}: {line}"


@pytest.mark.parametrize("words", sorted(LIGHT))
def test_light_commands_of_the_pages_run(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(tuple(command.words[1 : 1 + len(words)]) == words for command in COMMANDS), words
    monkeypatch.chdir(tmp_path)
    done = run_inside(*words, *(("--repeats", "5") if "confound" in words else ()))
    assert done.returncode == 0, done.stderr
