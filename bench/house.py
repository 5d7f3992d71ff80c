"""The house in numbers: files, lines, imports that bypass a door, class names that occur twice, and walks.

    python bench/house.py [TREE]        # TREE: a checkout; default: this one

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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
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


def numbers(tree: Path) -> dict[str, object]:
    source = tree / "src/heldout"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    sizes, classes, flags, vague = [], Counter[str](), 0, 0
    entered = bypassed = 0
    for path in source.rglob("*.py"):
        text = path.read_text()
        sizes.append(text.count("\n"))
        room = path.relative_to(source).parts[0]
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] += 1
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("heldout."):
                parts = (node.module or "").split(".")
                if parts[1] in rooms - {room}:
                    entered += 1
                    bypassed += len(parts) > 2
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and room != "cli":
                flags += bool(FLAG.search(node.value))
            elif isinstance(node, ast.arg):
                vague += node.arg in VAGUE
            elif isinstance(node, ast.Name):
                vague += node.id in VAGUE
    return {
        "files": len(sizes),
        "lines": sum(sizes),
        "median": statistics.median(sizes),
        "longest": max(sizes),
        "imports of other rooms": entered,
        "that bypass the __init__": bypassed,
        "class names that occur twice": sum(count > 1 for count in classes.values()),
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
