"""The first lines of a command: subjects with a plain status, what to do, what was left out and its cure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from heldout.audit import conclude
from heldout.benchmark import Benchmark, Example, check
from heldout.cli.show import (
    CORPUS_CURES,
    CURES,
    print_dropped,
    print_errors,
    print_outline,
    with_cure,
)
from heldout.report import outline_of
from heldout.store import Dropped, Run
from heldout.store.schema import make_table
from heldout.verdict import PLAIN

sys.path.append(str(Path(__file__).parents[1] / "report"))
from made_up_run import made_up_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = made_up_run(tmp_path_factory.mktemp("outline") / "run", 40)
    conclude(made)
    return made


def test_every_corpus_has_a_row_with_its_number_and_the_next_verb(run: Run) -> None:
    rows = {row.subject: row for row in outline_of(run).rows}
    assert set(rows) == {"corpus web", "corpus books"}
    row = rows["corpus web"]
    claims = json.loads((run.path / "claims.json").read_text())["claims"]
    assert row.status in {claim["status"] for claim in claims}
    assert row.words == PLAIN[row.status]
    assert row.number.startswith("10 of 40 items")
    assert row.verb == "sanitize, review"  # some pairs of web are undecided


def test_commands_stand_whole_on_their_lines(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    outline = outline_of(run)
    print_outline(outline)
    lines = capsys.readouterr().out.splitlines()
    commands = [command for step in outline.steps for command in step["commands"]]
    assert commands and all(f"   {command}" in lines for command in commands)
    assert "survives" not in "\n".join(lines)  # stored values are for files and --json
    assert lines[0].split() == ["subject", "status", "number", "next"]


def test_the_commonest_reason_is_named_with_its_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_up_run(tmp_path / "run", 4)
    reason = "image outside the dataset folder"
    rows = [
        {"stage": "score", "id": f"m/q{n}", "reason": reason, "detail": f"../{n}.png"}
        for n in range(3)
    ]
    rows += [{"stage": "score", "id": "m/q9", "reason": "prompt too long", "detail": ""}]
    rows += [{"stage": "corpus", "id": "x", "reason": "empty image", "detail": ""}] * 9
    made.write_table("dropped", make_table("dropped", rows))
    print_dropped(made, ("score",), model="m")
    text = capsys.readouterr().out
    assert "4;" in text and f"“{reason}” (3)" in text and CURES[reason] in text
    assert "m/q0: ../0.png" in text
    message = f"m answered none of 4 questions: {reason} (original: ../0.png points outside)"
    assert with_cure(message) == f"{message}. Cure: {CURES[reason]}"
    assert with_cure("nothing to cure") == "nothing to cure"
    made.write_table("dropped", make_table("dropped", [{**rows[0], "stage": "corpus"}]))
    print_dropped(made, ("corpus",))
    text = capsys.readouterr().out
    assert CORPUS_CURES[reason] in text and CURES[reason] not in text
    print_dropped(made, ("score",), model="other")
    print_dropped(made, ("ask",))
    assert capsys.readouterr().out == ""


def test_errors_of_the_benchmark_stand_where_it_is_searched_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = made_up_run(tmp_path / "run", 4)
    questions = ("Is the spleen enlarged?", "", "")
    items = tuple(Example(str(k), question=text) for k, text in enumerate(questions))
    made.write_json("check.json", check(Benchmark("bench", items)).model_dump(mode="json"))
    print_errors(made)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("bench: 2 of 3 items ")
    lost = (Dropped("read", "line 3", "not JSON", ""),)  # which print_dropped says
    report = check(Benchmark("bench", items[:1], dropped=lost))
    assert report.problems[0].severity == "error"
    made.write_json("check.json", report.model_dump(mode="json"))
    print_errors(made)
    assert capsys.readouterr().out == ""
