"""Inputs that are not there, or not what they should be, are told with the line that names them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.audit.cases import open_cases, open_controls
from heldout.audit.reader import read_audit
from heldout.errors import InputError

FILE = """\
benchmarks:
  - name: bench
    source: bench.jsonl
corpora:
  - name: web
    source: web
  - name: books
    source: ./books/there
models:
  - name: m
    answers: replies.csv
controls:
  - name: clean
    source: clean-pictures
    domain: in-domain
search:
  encoder: pixels
"""


def _written(folder: Path) -> Path:
    (folder / "audit.yaml").write_text(FILE)
    rows = [{"id": f"q{n}", "question": f"What is {n}?", "answer": str(n)} for n in range(4)]
    (folder / "bench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "web").mkdir()
    (folder / "web" / "a.txt").write_text("words")
    return folder / "audit.yaml"


def _problem(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        open_cases(read_audit(path))
    return str(raised.value)


def test_a_missing_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = _written(tmp_path)
    told = _problem(path)
    assert told.startswith(f"{path}, line 8: corpora[2].source: ") and "books/there" in told
    (tmp_path / "bench.jsonl").unlink()
    assert _problem(path).startswith(f"{path}, line 3: benchmarks[1].source: ")
    with pytest.raises(InputError, match=r"line 14: controls\[1\]\.source: .*clean-pictures"):
        open_controls(read_audit(path))


def test_answers_of_other_columns_are_told_with_the_key_of_the_audit_file(tmp_path: Path) -> None:
    path = _written(tmp_path)
    (tmp_path / "books" / "there").mkdir(parents=True)
    (tmp_path / "books" / "there" / "b.txt").write_text("words")
    (tmp_path / "replies.csv").write_text("number,said\nq0,0\nq1,1\n")
    told = _problem(path)
    assert told.startswith(f"{path}, line 11: models[1].answers: ")
    assert "map: {id: COLUMN, prediction: COLUMN}" in told
