"""The house in numbers: files, lines, imports that bypass a door, class names that occur twice, and walks.

    python bench/house.py [TREE]        # TREE: a checkout; default: this one

A text names an option where it tells somebody to set one. Commands to copy name options as well, heldout's or
another program's ("heldout ask --variants …", "ray start --head"): a text is counted by the first option that
stands before any command. A variable is vague where its name says nothing of what it holds; fields of classes
are named in files, and do not count. An assertion pins prose as ``pinned_prose`` says; ``--prose`` lists them.

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
import statistics
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
VAGUE = {"one", "found", "given", "told"}  # names of variables that name nothing
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


def variables(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every use of a variable or parameter with its line; fields of classes are left out."""
    fields = {
        id(statement.target)
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in nodes(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and id(node) not in fields:
            yield node.lineno, node.id


WORD = re.compile(r"[(“^]*(?:[A-Za-z]{2}[A-Za-z’'-]*|[aAI])[.,:;?!)”$]*")
# Methods that look into a text: what they are called with is looked for. Other calls read what they are called with.
LOOKING = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix"),
    *("rpartition", "search", "split", "startswith"),
}


def _looked_for(node: ast.AST) -> Iterator[ast.expr]:
    """Texts and names of an assertion; what a call is given is its input, and left out."""
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.Name):
        yield node
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        looks = called in LOOKING | {"all", "any", "dict", "set", "sorted"}
        for part in [node.func, *(node.args if looks else [])]:
            yield from _looked_for(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _looked_for(child)


def _text(node: ast.AST) -> str:
    """The text of a literal, with a 0 for each part of an f-string that is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "0" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def is_prose(text: str) -> bool:
    """Four words or more with no wildcard between them. Tags, numbers, values in quotes, names of files and
    columns, and commands to copy are no words."""
    text = re.sub(r"<[^<>]*>", " ", text).replace("\\b", "")
    if COMMAND.match(text.strip("`'\"^")) or text.startswith("pip install "):
        return False
    return any(
        sum(WORD.fullmatch(word) is not None for word in part.split()) >= 4
        for part in text.split(".*")
    )


def _literals(function: list[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """Names that the nodes of a function bind to literals: assigned, in a loop, or a parameter of the test."""
    for node in function:
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            items = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else []
            pairs = [(node.target, item) for item in items]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.parametrize"):
            names = ast.literal_eval(node.args[0])
            names = names.split(",") if isinstance(names, str) else names
            listed = ast.Tuple([ast.Name(name.strip()) for name in names])
            items = node.args[1].elts if isinstance(node.args[1], ast.Tuple | ast.List) else []
            pairs = [(listed.elts[0] if len(names) == 1 else listed, item) for item in items]
        for target, value in pairs:
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                for name, part in zip(target.elts, value.elts, strict=False):
                    if isinstance(name, ast.Name):
                        yield name.id, part


def pinned_prose(module: ast.Module, code: str) -> Iterator[tuple[int, str]]:
    """Assertions of a test module that pin prose, with their lines and a text of each.

    An assertion is the condition of an ``assert`` or the ``match`` of ``pytest.raises``. It pins prose where it
    holds a text of four words or more, itself or in a name that nothing but assertions uses. These do not count:
    what the code under test is called with; a text that the test file holds elsewhere, which is its own data read
    back; a command to copy; and a text that ``code`` has as a literal and that is compared as a whole, such as a
    reason in the table of dropped items or the name of a control.
    """
    everything: list[ast.AST] = []
    asserted: list[tuple[ast.expr, list[ast.expr]]] = []
    inexact: set[int] = set()  # texts that are searched for in longer ones
    for scope in module.body:
        inside = list(ast.walk(scope))
        everything += [node for node in inside if isinstance(node, ast.Constant | ast.JoinedStr)]
        conditions = [node.test for node in inside if isinstance(node, ast.Assert)]
        keywords = [node for node in inside if isinstance(node, ast.keyword)]
        matches = [keyword.value for keyword in keywords if keyword.arg == "match"]
        conditions += matches
        inexact |= {id(match) for match in matches}
        parts = {id(part) for condition in conditions for part in _looked_for(condition)}
        if not conditions:
            continue
        names = [node for node in inside if isinstance(node, ast.Name)]
        used = {
            name.id for name in names if isinstance(name.ctx, ast.Load) and id(name) not in parts
        }
        literals = [(name, value) for name, value in _literals(inside) if name not in used]
        for condition in conditions:
            looked = list(_looked_for(condition))
            asserts = [node for node in looked if _text(node)]
            for name, value in literals:
                if any(isinstance(node, ast.Name) and node.id == name for node in looked):
                    asserts += [node for node in _looked_for(value) if _text(node)]
            asserted.append((condition, asserts))
            for part in ast.walk(condition):
                if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In | ast.NotIn):
                    inexact.add(id(part.left))
    expected = {id(part) for _, nodes in asserted for node in nodes for part in ast.walk(node)}
    data = "\n".join(_text(node) for node in everything if id(node) not in expected)
    for condition, nodes in asserted:
        for node in nodes:
            text = _text(node)
            if not is_prose(text) or text in data:
                continue
            if id(node) in inexact or f'"{text}"' not in code:
                yield condition.lineno, text
                break


def prose_in_tests(tree: Path) -> dict[str, list[tuple[int, str]]]:
    """By test file, the assertions that pin prose; see ``pinned_prose``."""
    code = "\n".join(path.read_text() for path in (tree / "src/heldout").rglob("*.py"))
    tests = tree / "tests"
    return {
        str(path.relative_to(tests)): pins
        for path in sorted(tests.rglob("*.py"))
        if (pins := list(pinned_prose(ast.parse(path.read_text()), code)))
    }


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
    pages = [tree / "README.md", *(tree / "docs").glob("*.md"), *(tree / "examples").glob("*")]
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


def numbers(tree: Path) -> dict[str, object]:
    source = tree / "src/heldout"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    sizes: list[int] = []
    entered = bypassed = flags = vague = 0
    for path in source.rglob("*.py"):
        text = path.read_text()
        sizes.append(text.count("\n"))
        room = path.relative_to(source).parts[0]
        module = ast.parse(text)
        vague += sum(name in VAGUE for _, name in variables(module))
        flags += sum(1 for _ in option_texts(module)) if room != "cli" else 0
        for node in nodes(module):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heldout."):
                parts = (node.module or "").split(".")
                if parts[1] in rooms - {room}:
                    entered += 1
                    bypassed += len(parts) > 2
    return {
        "files": len(sizes),
        "lines": sum(sizes),
        "median": statistics.median(sizes),
        "longest": max(sizes),
        "imports of other rooms": entered,
        "that bypass the __init__": bypassed,
        "class names that occur twice": sum(count > 1 for count in class_names(source).values()),
        "texts below cli that name an option": flags,
        "uses of variables called one, found, given or told": vague,
        "assertions that pin four words or more": sum(map(len, prose_in_tests(tree).values())),
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
    parser.add_argument("--prose", action="store_true", help="list the assertions that pin prose")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    if arguments.prose:
        for name, pins in prose_in_tests(tree).items():
            print(*(f"tests/{name}:{line}: {text!r}" for line, text in pins), sep="\n")
        return
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
