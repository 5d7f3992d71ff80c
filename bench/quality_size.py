"""Size in the quality table: what every change costs whoever reads, learns or maintains the project.

Lines by room, names bound to numbers, compiled patterns, word lists, options, commands, exported names, words of docs,
and the seconds of the last whole run of the suite on this machine. None of them is a limit.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quality_figures import LOWER, Figure

ROOT = Path(__file__).resolve().parents[1]
SUITE = ROOT / "bench/out/suite.json"  # written by tests/conftest.py after a whole run
CONSTANT = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*")
LIST_OF_WORDS = (
    10  # words in a row, all small letters, that make a string or a collection a word list
)
WORD = re.compile(r"[a-z]+")


def measure() -> list[Figure]:
    """One pass over the tracked files of src, then the commands as they are built."""
    sources = {path: ast.parse(path.read_text("utf-8")) for path in tracked("src", ".py")}
    lines: Counter[str] = Counter()
    for path in sources:
        parts = path.relative_to(ROOT / "src/heldout").parts
        lines[parts[0] if len(parts) > 1 else "(top)"] += count_lines(path)
    figures = [count("src", "lines", lines.total(), LOWER)]
    figures += [count(f"src: {room}", "lines", number) for room, number in sorted(lines.items())]
    for folder in ("tests", "bench"):
        total = sum(map(count_lines, tracked(folder, ".py")))
        figures.append(count(folder, "lines", total, LOWER))
    trees = list(sources.values())
    figures += [
        count(
            "src",
            "names in capitals bound to numbers",
            sum(len(list(constants(t))) for t in trees),
            LOWER,
        ),
        count("src", "compiled patterns", sum(len(list(patterns(t))) for t in trees), LOWER),
        count("src", "word lists", sum(len(list(word_lists(t))) for t in trees), LOWER),
        count("src", "exported names", sum(exported(tree) for tree in trees), LOWER),
        count("src", "comments and docstrings, % of lines", explained(sources)),
    ]
    commands, options = command_line()
    figures += [
        count("command line", "commands", commands, LOWER),
        count("command line", "options", options, LOWER),
    ]
    words = sum(len(path.read_text("utf-8").split()) for path in tracked("docs", ".md"))
    measured = sum(len(path.read_text("utf-8").split()) for path in tracked("docs/measured", ".md"))
    figures.append(count("docs", "words by hand", words - measured, LOWER))
    figures.append(count("docs", "words generated", measured))
    if SUITE.exists():
        suite = json.loads(SUITE.read_text())
        figures.append(count("suite", "tests", suite["tests"]))
        figures.append(Figure("size", "suite", "wall", suite["seconds"], "s", LOWER))
    return figures


def count(set_: str, name: str, value: float, better: str = "") -> Figure:
    return Figure("size", set_, name, value, better=better)


def tracked(folder: str, suffix: str) -> list[Path]:
    command = ["git", "ls-files", "-co", "--exclude-standard", folder]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in names.splitlines() if name.endswith(suffix))
    return [path for path in paths if path.is_file()]


def count_lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def constants(tree: ast.AST) -> Iterator[str]:
    """Of modules and classes: a number, or a tuple, list, set or dictionary of numbers counts as one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        names = [
            name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
        ]
        if is_number(value):
            yield from (name.id for name in names if CONSTANT.fullmatch(name.id))


def is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(map(is_number, node.elts))
    return isinstance(node, ast.Dict) and bool(node.values) and all(map(is_number, node.values))


def patterns(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "regex.compile"):
            yield node


def word_lists(tree: ast.AST) -> Iterator[ast.expr]:
    """Collections of short words, and strings of words that are parted at spaces or bars."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [e.value for e in node.elts if isinstance(e, ast.Constant)]
            if len(values) >= LIST_OF_WORDS and all(
                isinstance(value, str) and WORD.fullmatch(value) for value in values
            ):
                yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = node.func.value
            if node.func.attr == "split" and isinstance(text, ast.Constant):
                yield from [text] * (is_list(str(text.value), " "))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node] * is_list(node.value, "|")


def is_list(text: str, mark: str) -> bool:
    parts = [part.strip(" ()?:\\b\n") for part in text.split(mark)]
    return sum(bool(WORD.fullmatch(part)) for part in parts) >= LIST_OF_WORDS


def exported(tree: ast.Module) -> int:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return len(node.value.elts) if isinstance(node.value, ast.List | ast.Tuple) else 0
    return 0


def explained(sources: dict[Path, ast.Module]) -> float:
    """Lines that are a comment or belong to a docstring, in per cent."""
    total = notes = 0
    for path, tree in sources.items():
        text = path.read_text("utf-8").splitlines()
        total += len(text)
        notes += sum(line.lstrip().startswith("#") for line in text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0] if node.body else None
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                    notes += (first.end_lineno or first.lineno) - first.lineno + 1
    return round(100 * notes / max(1, total), 1)


def command_line() -> tuple[int, int]:
    """Commands that do something, and their options; an option with a negative form is one."""
    import typer

    from heldout.cli.app import app

    commands = options = 0
    pending: list[Any] = [typer.main.get_command(app)]  # typer carries a click of its own
    while pending:
        command = pending.pop()
        if hasattr(command, "list_commands"):
            context = typer.Context(command)
            names = command.list_commands(context)
            pending += [command.resolve_command(context, [name])[1] for name in names]
        else:
            commands += 1
        options += sum(p.param_type_name == "option" and p.name != "help" for p in command.params)
    return commands, options
