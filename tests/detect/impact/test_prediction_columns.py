"""Whose grade counts, which column is read, and the same number from every command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from impact_run import line, make_run, write
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.detect.impact import Study, study_impact
from heldout.errors import InputError
from heldout.store import Run

ORGANS = ["liver", "heart", "left lung", "spleen"]
SAID = ["A", "The answer is B.", "C", "D. spleen", "B", "not sure", "", "A"]
RIGHT = [True, True, True, True, False, False, False, False]
# The file calls two of ours wrong and one wrong answer right.
OWN = [1, 0, 0, 1, 1, 0, 0, 0]


def rows(**more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": str(n),
            "answer": ORGANS[n % 4],
            "raw": SAID[n],
            "prediction": SAID[n],
            "is_correct": OWN[n],
        }
        | {name: values[n] for name, values in more.items()}
        for n in range(8)
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    items = [{"benchmark_id": str(n), "options": ORGANS, "answer": ORGANS[n % 4]} for n in range(8)]
    return make_run(tmp_path / "run", items, [{"benchmark_id": "0"}])


def accuracy(study: Study) -> float | None:
    return line(study.impacts[0], "original", "").value


@pytest.mark.parametrize(
    ("mapping", "expected", "read_from"),
    [
        ({}, 4 / 8, "prediction"),
        ({"prediction": "raw"}, 4 / 8, "raw"),
        ({"reply": "raw"}, 4 / 8, "raw"),
        ({"correct": "is_correct"}, 3 / 8, "is_correct"),
        ({"prediction": "raw", "correct": "is_correct"}, 4 / 8, "raw"),
    ],
)
def test_a_named_column_wins_and_both_grades_are_told(
    run: Run, tmp_path: Path, mapping: dict[str, str], expected: float, read_from: str
) -> None:
    path = write(tmp_path / "p.jsonl", rows())
    study = study_impact(run, [path], mapping=mapping)
    assert accuracy(study) == expected
    assert study.read_from == {"p": read_from}
    own = study.own_grades["p"]
    assert (own.column, own.rows, own.disagree) == ("is_correct", 8, 3)
    assert (own.file_only_ids, own.heldout_only_ids) == (["4"], ["1", "2"])
    assert (own.file_accuracy, own.heldout_accuracy) == (3 / 8, 4 / 8)
    assert study.empty == {"p": ["6"]}
    kept = study.as_json()
    assert kept["own_grades"]["p"]["heldout_only"] == 2
    assert kept["empty_predictions"] == {"p": ["6"]}


def test_other_columns_of_the_file_decide_where_they_are_named(run: Run, tmp_path: Path) -> None:
    more = {"rank": [1] * 8, "score": [0.6] * 8}
    path = write(tmp_path / "p.jsonl", rows(**more))
    assert study_impact(run, [path], mapping={"rank": "rank"}).impacts[0].metric == "retrieval"
    study = study_impact(run, [path], mapping={"score": "score"})
    assert line(study.impacts[0], "original", "", "score").value == pytest.approx(0.6)
    assert study.own_grades["p"].partial == 8
    tens = write(
        tmp_path / "t.jsonl", [{"id": str(n), "prediction": SAID[n], "score": n} for n in range(8)]
    )
    assert "from 0 to 7" in study_impact(run, [tens]).own_grades["t"].not_compared


def test_a_prediction_that_cannot_be_graded_leaves_the_files_grade(tmp_path: Path) -> None:
    items = [{"benchmark_id": str(n), "options": [], "answer": None} for n in range(8)]
    run = make_run(tmp_path / "run", items, [])
    without = [{k: v for k, v in row.items() if k != "answer"} for row in rows()]
    path = write(tmp_path / "p.jsonl", without)
    assert accuracy(study_impact(run, [path])) == 3 / 8
    with pytest.raises(InputError, match="cannot be graded"):
        study_impact(run, [path], mapping={"prediction": "raw"})
    named = [{"id": str(n), "said": "Liver.", "answer": ORGANS[n % 4]} for n in range(8)]
    study = study_impact(run, [write(tmp_path / "g.jsonl", named)], mapping={"prediction": "said"})
    assert accuracy(study) == 2 / 8  # graded by the file's answers


def file_of(folder: Path, kind: str) -> Path:
    """The same predictions as several programs write them."""
    path = folder / f"p.{kind}"
    plain = [{"index": n, "prediction": SAID[n], "hit": OWN[n]} for n in range(8)]
    if kind in ("csv", "tsv"):
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, plain[0], delimiter="\t" if kind == "tsv" else ",")
            table.writeheader()
            table.writerows(plain)
    elif kind == "parquet":
        pl.DataFrame(plain).write_parquet(path)
    elif kind == "json":
        path.write_text(
            json.dumps({"acc": 37.5, "outputs": {str(n): s for n, s in enumerate(SAID)}})
        )
    elif kind == "samples.jsonl":
        write(
            path,
            [
                {
                    "doc_id": n,
                    "doc": {"id": str(n), "question": "q", "answer": 3},
                    "target": "x",
                    "resps": [[SAID[n]]],
                    "exact_match": float(OWN[n]),
                }
                for n in range(8)
            ],
        )
    elif kind == "batch.jsonl":
        write(
            path,
            [
                {
                    "id": f"batch_req_{n}",
                    "custom_id": str(n),
                    "error": None,
                    "response": {
                        "status_code": 200,
                        "body": {
                            "model": "gpt",
                            "choices": [{"message": {"role": "assistant", "content": SAID[n]}}],
                        },
                    },
                }
                for n in range(8)
            ],
        )
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [list(plain[0]), *(list(one.values()) for one in plain)]:
            book.active.append(row)
        book.save(path)
    return path


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "parquet", "json", "samples.jsonl", "batch.jsonl", "xlsx"]
)
def test_ask_and_impact_read_the_same_files_and_print_the_same_number(
    run: Run, tmp_path: Path, kind: str
) -> None:
    path = file_of(tmp_path, kind)
    study = study_impact(run, [path])
    assert accuracy(study) == 4 / 8
    assert next(iter(study.empty.values())) == ["6"]
    bench = write(
        tmp_path / "bench.jsonl",
        [
            {"id": str(n), "question": "q", "options": ORGANS, "answer": ORGANS[n % 4]}
            for n in range(8)
        ],
    )
    done = CliRunner().invoke(
        app, ["ask", str(bench), "--recorded", str(path), "--out", str(tmp_path / "r"), "--json"]
    )
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)["models"][0]
    assert told["summary"]["variants"][0]["rate"] == 4 / 8
    assert told["empty"] == ["6"]
    if kind not in ("json", "batch.jsonl"):
        own = study.own_grades[told["model"]].as_json()
        assert own == told["own_grades"] and own["disagree"] == 3
        kept = Run.open(tmp_path / "r").manifest()["models"][told["model"]]
        assert kept["own_grades"] == own and len(kept["remarks"]) == 2


def test_the_column_of_ids_is_the_one_that_matches(run: Run, tmp_path: Path) -> None:
    """A data frame's row numbers stand beside the ids; every number is an id of some item, too."""
    listed = [{"index": (n + 5) % 90, "qid": str(n), "prediction": SAID[n]} for n in range(8)]
    assert accuracy(study_impact(run, [write(tmp_path / "p.jsonl", listed)])) == 4 / 8


def test_a_file_of_ids_and_answers_is_not_taken_for_predictions(run: Run, tmp_path: Path) -> None:
    from heldout.benchmark import Benchmark, Example
    from heldout.model.asking.recorded import read_answers

    path = write(tmp_path / "p.jsonl", [{"question_id": "0", "answer": "liver"}])
    bench = Benchmark("b", (Example("0", (), "q", (), "liver"),))
    with pytest.raises(InputError, match="name it: prediction=answer"):
        read_answers(path, bench)
    found = read_answers(path, bench, mapping={"prediction": "answer", "answer": "answer"})
    assert len(found["p"].pairs) == 1


def test_an_unknown_field_or_column_is_named(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", rows())
    with pytest.raises(InputError, match="'predicion'"):
        study_impact(run, [path], mapping={"predicion": "raw"})
    with pytest.raises(InputError, match="'rww'.* id, answer, raw"):
        study_impact(run, [path], mapping={"prediction": "rww"})
