"""The house in numbers: files, lines, imports that bypass a door, class names that occur twice, and walks.

    python bench/house.py [TREE]        # TREE: a checkout; default: this one

A text names an option where it tells somebody to set one. Commands to copy name options as well, heldout's or
another program's ("heldout ask --variants …", "ray start --head"): a text is counted by the first option that
stands before any command. A variable is vague where its name says nothing of what it holds; fields of classes
are named in files, and do not count.

A walk runs a command on a rendered benchmark and counts the modules of each room whose functions were
called after they were imported: the files to open when following it.
"""

from __future__ import annotations

import argparse
import ast
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
    r"\b(?:heldout|hf|inspect|python -m [\w.]+|ray|vllm) [a-z]+\b|\bpython -m [\w.]+"
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


def option_texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Options that texts name outside commands, with their lines; an f-string is one text."""
    parts = set()
    for node in ast.walk(tree):  # outer nodes come first
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
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and id(node) not in fields:
            yield node.lineno, node.id


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
        for node in ast.walk(module):
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
        for name, arguments in walks.items():
            rooms = walk(tree, arguments, folder)
            listed = ", ".join(f"{room} {count}" for room, count in sorted(rooms.items()))
            print(f"{name}: {sum(rooms.values())} modules ({listed})")


if __name__ == "__main__":
    main()
