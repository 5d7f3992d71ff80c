"""The Python face: what ``heldout`` exports is documented in one style and loads without an install."""

from __future__ import annotations

import importlib
import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import heldout
from heldout.cli.app import VERBS

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = [name for name in heldout.__all__ if not inspect.isclass(getattr(heldout, name))]


def _function(name: str) -> object:
    value = getattr(heldout, name)
    return getattr(heldout, value._verb) if isinstance(value, ModuleType) else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_exported_function_documents_every_parameter(name: str) -> None:
    function = _function(name)
    assert callable(function)
    text = inspect.getdoc(function) or ""
    summary, _, rest = text.partition("\n")
    assert summary.endswith((".", ":")), f"{name}: the first line is one sentence"
    section = re.search(r"^Args:\n((?:    .*\n?|\n)+)", rest, re.M)
    assert section is not None, f"{name} has no Args: section"
    named = re.findall(r"^    \**(\w+): \S", section[1], re.M)
    assert named == list(inspect.signature(function).parameters), name


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if isinstance(getattr(heldout, name), ModuleType)]
)
def test_a_package_that_is_a_verb_shows_the_verbs_parameters(name: str) -> None:
    package, function = getattr(heldout, name), _function(name)
    assert inspect.signature(package) == inspect.signature(function)
    text = inspect.getdoc(package) or ""
    summary, _, rest = (inspect.getdoc(function) or "").partition("\n")
    assert text.startswith(f"{summary}\n\nheldout.{name}(")
    assert rest in text
    assert name in pydoc.plain(pydoc.render_doc(package))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_settings_that_a_docstring_names_can_be_imported_from_there(name: str) -> None:
    text = inspect.getdoc(_function(name)) or ""
    for path in re.findall(r"ields of ``([\w.]+)``", text):
        package, _, settings = path.rpartition(".")
        documentation = inspect.getdoc(getattr(importlib.import_module(package), settings))
        fields = getattr(importlib.import_module(package), settings).model_fields
        named = re.findall(r"^    (\w+): \S", documentation or "", re.M)
        assert named == list(fields), path


def test_every_verb_takes_its_settings_as_one_model_and_by_name() -> None:
    """``audit`` takes them as a file."""
    verbs = {verb.name for verb in VERBS} & set(heldout.__all__) - {"audit"}
    assert {"check", "report", "compare", "export", "matrix"} < verbs
    for verb in sorted(verbs):
        parameters = inspect.signature(getattr(heldout, verb)).parameters
        assert {"settings", "values"} <= set(parameters), verb


def test_completion_shows_what_is_public() -> None:
    shown = {name for name in dir(heldout) if not name.startswith("__")}
    assert shown == {*heldout.__all__, "errors", "lab"}
    assert heldout.errors.InputError and heldout.lab.LeakSettings


def test_the_python_page_names_everything_that_is_exported() -> None:
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)", page))
    assert set(heldout.__all__) <= named


def test_it_works_from_a_source_tree_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"question": "Is it <b>red</b>?", "answer": "yes"}\n')
    script = (
        "import heldout\n"
        "assert set(heldout.__all__) <= set(dir(heldout))\n"
        "print(heldout.__file__)\n"
        "bench = heldout.read_benchmark('t.jsonl')\n"
        "print(repr(bench), '<b>' in bench._repr_html_())\n"
        "print(heldout.check(bench).frame.columns[:2])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, shown, columns = done.stdout.splitlines()
    assert Path(file) == ROOT / "src/heldout/__init__.py"
    assert shown == "<Benchmark t: 1 item on 0 images> False"
    assert columns == "['rule', 'severity']"
