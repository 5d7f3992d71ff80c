"""The notebooks under examples/ run from top to bottom, each in a folder and a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import run_forked

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
# What a kernel does with a cell, and no more: statements, then the display of the last expression.
KERNEL = """
import ast, json, sys
space = globals()
for number, cell in enumerate(json.loads(open(sys.argv[1], encoding="utf-8").read())["cells"]):
    if cell["cell_type"] != "code":
        continue
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), space)
        page = value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)
        assert isinstance(page, str)
        print(number, page)
"""


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = notebook.read_text(encoding="utf-8")
    cells = json.loads(text)["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs are not kept"
    if notebook.stem == "audit-checkpoint":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("tokenizers")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = run_forked(notebook, script=KERNEL, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
