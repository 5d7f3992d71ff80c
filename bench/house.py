"""The house in numbers: imports that bypass a door, class names that occur twice, and walks.

    python bench/house.py [TREE]        # TREE: a checkout; default: this one

A text names an option where it tells somebody to set one. Commands to copy name options as well, heldout's or
another program's ("heldout ask --variants …", "ray start --head"): a text is counted by the first option that
stands before any command.

A walk runs a command on a rendered benchmark and counts the modules of each room whose functions were
called after they were imported: the files to open when following it.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Not variables of CSS: var(--ink), {--ink:…;--soft:…}
FLAG = re.compile(r"(?<![\w{;-])(?<!var\()--[a-z][a-z-]+")
COMMAND = re.compile(
    r"\b(?:heldout|hf|inspect|pip|python -m [\w.]+|ray|vllm) [a-z]+\b|\bpython -m [\w.]+"
)
# Runs in the tree that is measured. The command line is the same in all of them.
WALK = """
import sys, threading
called = set()
def watch(frame, event, argument):
    name = frame.f_globals.get("__name__", "")
    # Optimized code is that of functions, not the bodies of modules and classes.
    if event != "call" or name in called or not name.startswith("heldout.") or not frame.f_code.co_flags & 1:
        return
    outer = frame.f_back
    while outer is not None:  # what only runs while a module is imported is no step of the walk
        if outer.f_code.co_name == "<module>" and outer.f_globals.get("__name__", "").startswith("heldout."):
            return
        outer = outer.f_back
    called.add(name)
sys.argv = ["heldout", *sys.argv[1:]]
from heldout.cli.app import main
threading.setprofile(watch); sys.setprofile(watch)
try:
    main()
except SystemExit as ended:
    assert ended.code in (0, None), ended.code
sys.setprofile(None)
import json
print("WALK " + json.dumps(sorted(called)))
"""
RENDER = """
import sys
from pathlib import Path
from heldout.scenes import write_benchmark, write_corpus
folder = Path(sys.argv[1])
write_corpus(folder / "crawl", write_benchmark(folder / "bench", images=12), items=60)
"""
OVERLAP = [
    "overlap",
    "bench/test.jsonl",
    "--against",
    "crawl",
    "--text",
    "--workers",
    "1",
    "--quiet",
]
AUDIT = """benchmarks:
  - {name: scenes, source: bench/test.jsonl}
corpora:
  - {name: crawl, source: crawl}
search: {workers: 1}
output: audit
"""


@functools.lru_cache(
    maxsize=1
)  # walking takes longer than looking: what looks at one tree walks it once
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def option_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Options that texts name outside commands, with their lines; an f-string is one text."""
    parts = set()
    for node in nodes(tree):  # outer nodes come first
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
            values = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            text = "".join(map(str, values))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            text = node.value
        else:
            continue
        flag = FLAG.search(text)
        if flag is not None and COMMAND.search(text[: flag.start()]) is None:
            yield node.lineno, flag[0]


def _file(tree: Path, module: str) -> Path | None:
    """The file of a module of heldout, or None; a compiled one has its C source."""
    place = tree / "src" / module.replace(".", "/")
    options = (place / "__init__.py", place.with_suffix(".py"), place.with_suffix(".c"))
    return next((path for path in options if path.exists()), None)


def _bound(statements: list[ast.stmt]) -> set[str]:
    """Names that statements of a module bind, in branches as well."""
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                names |= _bound(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                names |= _bound(handler.body)
        else:
            stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
            names |= {part.id for part in stored if isinstance(part.ctx, ast.Store)}
    return names


IMPORT = re.compile(r"^[ \t]*from (heldout[\w.]*) import (?:\(([^)]*)\)|([^\n#]*))", re.M)


@functools.cache
def imports(tree: Path) -> tuple[tuple[Path, int, str, str], ...]:
    """Every name that a file imports from a module of heldout: file, line, module, name."""
    rows = []
    for folder in ("src", "tests", "bench", "examples"):
        for path in sorted((tree / folder).rglob("*.py")):
            if path.is_relative_to(tree / "bench/out"):  # what measurements wrote
                continue
            text = path.read_text()
            for match in IMPORT.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                listed = re.sub(r"#.*| as \w+", "", match[2] or match[3])
                rows += [(path, line, match[1], name) for name in re.findall(r"\w+", listed)]
    return tuple(rows)


@functools.cache
def _names(file: Path) -> set[str]:
    """The names that a module has."""
    if file.suffix == ".c":  # what is compiled has its names in a table
        return set(re.findall(r'\{"(\w+)"', file.read_text()))
    return _bound(ast.parse(file.read_text()).body)


def _types(file: Path) -> dict[str, str]:
    """The types that the functions and classes of a module name."""
    if file.suffix == ".c":
        return {}
    body = ast.parse(file.read_text()).body
    typed = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name: _annotations(node) for node in typed}


def broken_imports(tree: Path) -> Iterator[str]:
    """Imports of what no module of heldout has; nothing is imported to find them."""
    for path, line, module, name in imports(tree):
        file = _file(tree, module)
        there = file is not None and name in _names(file)
        if not there and (file is None or _file(tree, f"{module}.{name}") is None):
            yield f"{path.relative_to(tree)}:{line}: from {module} import {name}"


def _annotations(node: ast.AST) -> str:
    """The types that a function or class names: its parameters, fields, results and bases."""
    named: list[ast.expr | None] = list(node.bases) if isinstance(node, ast.ClassDef) else []
    for part in ast.walk(node):
        if isinstance(part, ast.arg | ast.AnnAssign):
            named.append(part.annotation)
        elif isinstance(part, ast.FunctionDef):
            named.append(part.returns)
    return " ".join(ast.unparse(part) for part in named if part is not None)


def unused_exports(tree: Path) -> Iterator[str]:
    """Names that a room exports and nobody needs from outside.

    A name is needed where somebody imports it from the room's ``__init__``, a bench imports it from a module of
    the room, a page of the documentation has it, or a name that is needed has it as a type.
    """
    source = tree / "src/heldout"
    users = imports(tree)
    pages = [tree / "README.md", *(tree / "docs").rglob("*.md"), *(tree / "examples").glob("*")]
    pages = [page for page in pages if page.suffix in {".md", ".py", ".ipynb"}]
    words = set(re.findall(r"\w+", " ".join(page.read_text() for page in pages)))
    for door in sorted(source.glob("*/__init__.py")):
        room = f"heldout.{door.parent.name}"
        homes = {
            alias.asname or alias.name: node.module or ""
            for node in ast.walk(ast.parse(door.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heldout.")
            for alias in node.names
            if alias.name != "load_on_first_use"
        }
        needed = words & set(homes)
        for path, _, module, name in users:
            if name not in homes or not module.startswith(room) or path == door:
                continue
            inside = module.startswith(f"{room}.") and path.is_relative_to(tree / "bench")
            if module == room or inside:
                needed.add(name)
        types: dict[str, str] = {}
        for module in set(homes.values()):
            file = _file(tree, module)
            types |= _types(file) if file is not None else {}
        while (
            more := {word for name in needed for word in re.findall(r"\w+", types.get(name, ""))}
            & set(homes) - needed
        ):
            needed |= more
        yield from (f"{room}: {name}" for name in sorted(set(homes) - needed))


def class_names(source: Path) -> Counter[str]:
    """How often each public class name occurs below a folder."""
    return Counter(
        node.name
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def numbers(tree: Path) -> dict[str, int]:
    source = tree / "src/heldout"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    entered = bypassed = flags = 0
    for path in source.rglob("*.py"):
        room = path.relative_to(source).parts[0]
        module = ast.parse(path.read_text())
        flags += sum(1 for _ in option_texts(module)) if room != "cli" else 0
        for node in nodes(module):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heldout."):
                parts = (node.module or "").split(".")
                if parts[1] in rooms - {room}:
                    entered += 1
                    bypassed += len(parts) > 2
    return {
        "imports of other rooms": entered,
        "that bypass the __init__": bypassed,
        "class names that occur twice": sum(count > 1 for count in class_names(source).values()),
        "texts below cli that name an option": flags,
    }


def walk(tree: Path, arguments: list[str], folder: Path) -> dict[str, int]:
    """Modules by room that ran; the command line itself is counted like a room."""
    done = subprocess.run(
        [sys.executable, "-c", WALK, *arguments],
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    line = next((line for line in done.stdout.splitlines() if line.startswith("WALK ")), None)
    if line is None:
        raise SystemExit(done.stderr)
    return dict(Counter(name.split(".")[1] for name in json.loads(line.removeprefix("WALK "))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("tree", nargs="?", type=Path, default=ROOT)
    tree = parser.parse_args().tree.resolve()
    for name, value in numbers(tree).items():
        print(f"{name}: {value:,}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        render = [sys.executable, "-c", RENDER, temporary]
        subprocess.run(render, env=environment, check=True)
        (folder / "audit.yaml").write_text(AUDIT)
        alpha = ["--encoder", "pixels", "--alpha", "0.05"]
        walks = {
            "a picture from reader to claim": [*OVERLAP, "--exact", "--out", "exact"],
            "a benchmark from audit.yaml to report": ["audit", "audit.yaml"],
            "alpha through overlap": [*OVERLAP, *alpha, "--out", "near"],
        }
        for name, command in walks.items():
            rooms = walk(tree, command, folder)
            listed = ", ".join(f"{room} {count}" for room, count in sorted(rooms.items()))
            print(f"{name}: {sum(rooms.values())} modules ({listed})")


if __name__ == "__main__":
    main()
