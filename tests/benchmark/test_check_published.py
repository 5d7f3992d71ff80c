"""Faults of published benchmarks, planted in files: each rule finds its rows and no others."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heldout.benchmark import read_benchmark
from heldout.benchmark.check import Problem, check
from heldout.cli.app import app

Picture = Callable[..., bytes]
NEW = {
    "mixed-keys",
    "ambiguous-key",
    "line-break-in-question",
    "empty-prediction",
    "twin-keeps-original-image",
    "ambiguous-image",
}


def row(i: int, **changed: Any) -> dict[str, Any]:
    options = dict(zip("ABCD", (f"thing {(i * 7 + k * 3) % 89}" for k in range(4)), strict=True))
    return {"index": i, "question": f"Which is {i}?", **options, "answer": "ABCD"[i % 4], **changed}


def tsv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return path


def problems(path: Path, other: Path | None = None) -> dict[str, Problem]:
    split_of = read_benchmark(other) if other is not None else None
    report = check(read_benchmark(path), split_of)
    return {problem.rule: problem for problem in report.problems}


def test_a_sound_table_is_quiet(tmp_path: Path) -> None:
    assert not NEW & problems(tsv(tmp_path / "t.tsv", [row(i) for i in range(40)])).keys()


def test_texts_among_letters(tmp_path: Path) -> None:
    rows = [row(i) for i in range(40)]
    for i in (3, 17):
        rows[i]["answer"] = rows[i]["B"]
    path = tsv(tmp_path / "t.tsv", rows)
    problem = problems(path)["mixed-keys"]
    assert (problem.severity, problem.count, problem.of) == ("warning", 2, 40)
    assert problem.examples == [f"{i}: '{rows[i]['B']}' (option B)" for i in (3, 17)]
    assert [read_benchmark(path).examples[i].answer_index for i in (3, 17)] == [1, 1]


def test_letters_among_texts(tmp_path: Path) -> None:
    rows = [row(i) for i in range(40)]
    for i, one in enumerate(rows):
        one["answer"] = one[one["answer"]] if i != 5 else "C"
    assert problems(tsv(tmp_path / "t.tsv", rows))["mixed-keys"].examples == ["5: 'C' (option C)"]


def test_half_and_half_is_no_column_of_letters(tmp_path: Path) -> None:
    rows = [row(i) for i in range(40)]
    for one in rows[::2]:
        one["answer"] = one[one["answer"]]
    assert "mixed-keys" not in problems(tsv(tmp_path / "t.tsv", rows))


def test_a_letter_that_is_another_options_text(tmp_path: Path) -> None:
    rows = [row(i) for i in range(40)]
    rows[8] |= {"A": "B", "B": "C", "C": "A", "D": "E", "answer": "B"}  # option B says 'C'
    rows[9] |= {"A": "A", "B": "B", "C": "C", "D": "D", "answer": "B"}  # either way the same
    problem = problems(tsv(tmp_path / "t.tsv", rows))["ambiguous-key"]
    assert (problem.severity, problem.count, problem.of) == ("warning", 1, 40)
    assert re.match(r"8: 'B' .*option B \('C'\).*option A", problem.examples[0])


def test_a_position_that_is_another_options_text(tmp_path: Path) -> None:
    rows = [
        {"id": i, "question": f"q {i}?", "choices": [f"{i}a", f"{i}b", "0", "1"], "answer": i % 4}
        for i in range(12)
    ]
    (tmp_path / "t.json").write_text(json.dumps(rows))
    ambiguous = problems(tmp_path / "t.json")["ambiguous-key"]
    assert ambiguous.count == 6  # of the keys 0 and 1, which are options, too


def test_line_breaks_in_questions(tmp_path: Path) -> None:
    rows = [row(i) for i in range(40)]
    rows[4]["question"] = "Look at the picture.\nWhich is 4?"
    problem = problems(tsv(tmp_path / "t.tsv", rows))["line-break-in-question"]
    assert (problem.severity, problem.count, problem.examples) == ("warning", 1, ["4"])


def test_empty_predictions(tmp_path: Path) -> None:
    rows = [row(i, prediction="B" if i % 10 else " ") for i in range(40)]
    problem = problems(tsv(tmp_path / "t.tsv", rows))["empty-prediction"]
    assert (problem.severity, problem.count) == ("warning", 4)
    assert problem.examples == ["0", "10", "20", "30"]


def twins(folder: Path, picture: Picture | None) -> tuple[Path, Path]:
    """An original and its twin: item 2 kept the path, item 5 shows a copy under a new name."""
    (folder / "old").mkdir()
    (folder / "new").mkdir()
    original, twin = [], []
    for i in range(8):
        name = f"new/{i}.png" if i != 2 else "old/2.png"
        original.append({"id": i, "question": f"q {i}?", "image": f"old/{i}.png", "answer": "a"})
        twin.append({**original[i], "image": name, "answer": "b"})
        if picture is not None:
            (folder / "old" / f"{i}.png").write_bytes(picture(i))
            (folder / "new" / f"{i}.png").write_bytes(picture(i if i == 5 else 50 + i))
    for name, rows in (("original", original), ("twin", twin)):
        (folder / f"{name}.json").write_text(json.dumps(rows))
    return folder / "twin.json", folder / "original.json"


def test_twins_that_keep_the_path_or_the_bytes(tmp_path: Path, picture: Picture) -> None:
    problem = problems(*twins(tmp_path, picture))["twin-keeps-original-image"]
    assert (problem.severity, problem.count, problem.of) == ("error", 2, 8)
    assert "1 by its path, 1 by" in problem.message
    assert problem.examples == ["2: old/2.png", "5: new/5.png is old/5.png"]


def test_twins_whose_pictures_are_not_there_are_told_by_path(tmp_path: Path) -> None:
    problem = problems(*twins(tmp_path, None))["twin-keeps-original-image"]
    assert problem.examples == ["2: old/2.png"]


def test_equal_names_in_two_folders_tell_nothing(tmp_path: Path, picture: Picture) -> None:
    for name, first in (("a", 0), ("b", 50)):
        (tmp_path / name).mkdir()
        rows = [{"id": i, "question": "q?", "image": f"{i}.png", "answer": name} for i in range(4)]
        (tmp_path / name / "t.json").write_text(json.dumps(rows))
        for i in range(3):  # the last picture is missing on both sides
            (tmp_path / name / f"{i}.png").write_bytes(picture(first + i))
    found = problems(tmp_path / "b" / "t.json", tmp_path / "a" / "t.json")
    assert "twin-keeps-original-image" not in found


def test_the_command_prints_the_rules_as_json(tmp_path: Path, picture: Picture) -> None:
    twin, original = twins(tmp_path, picture)
    asked = ["check", str(twin), "--split-of", str(original), "--json", "--quiet"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    listed = {problem["rule"]: problem for problem in document["problems"]}
    assert listed["twin-keeps-original-image"]["count"] == 2


def test_a_deep_row_ends_no_check(tmp_path: Path) -> None:
    deep = "[" * 900 + "]" * 900
    rows = [json.dumps(row(i)) for i in range(3)]
    (tmp_path / "t.jsonl").write_text("\n".join([*rows, f'{{"index": 9, "x": {deep}}}']))
    result = CliRunner().invoke(app, ["check", str(tmp_path / "t.jsonl"), "--json", "--quiet"])
    assert result.exit_code == 1
    assert [d["reason"] for d in json.loads(result.stdout)["dropped"]] == ["nested too deeply"]


@pytest.mark.parametrize(
    "source",
    [
        "vqa_rad#split=test",
        "slake#split=test,lang=en",
        "pathvqa#split=test",
        "vqa_med_2019/All_QA_Pairs_val.txt",
        "vqa_med_2019/VQAMed2019_Test_Questions_w_Ref_Answers.txt",
    ],
)
def test_real_benchmarks_stay_quiet(shared_data: Path, source: str) -> None:
    report = check(read_benchmark(f"{shared_data}/{source}"))
    assert not NEW & {problem.rule for problem in report.problems}
