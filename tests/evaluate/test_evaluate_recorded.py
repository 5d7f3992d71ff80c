"""evaluate on recorded files: one for all benchmarks or one each, of several programs; leaks."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from made_suite import SIZES, record, rows_of

from command_line import run_inside
from heldout.errors import InputError
from heldout.evaluate import Evaluation, evaluate, read_evaluation
from heldout.model.asking import recorded
from heldout.model.prediction_files import open_predictions
from heldout.report.evaluation_page import write_evaluation_report
from heldout.store import Run

RIGHT = {"organs": 1 - 9 / 36, "sides": 1 - 6 / 24}  # wrong on every fourth item


def evaluated(suite: Path, out: Path, *files: str | Path, **values: Any) -> Evaluation:
    return evaluate(
        suite=str(suite), out=out, quiet=True, recorded=tuple(map(str, files)), **values
    )


def accuracy(made: Evaluation, model: str) -> dict[str, float]:
    mine = [one for one in made.accuracies if one.model == model and one.subset == "all"]
    return {one.benchmark: one.value for one in mine if one.benchmark != "mean"}


def test_one_file_for_all_benchmarks_by_its_column_is_read_once(
    suite_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = record(suite_file.parent, tmp_path / "all.jsonl", "m", 4)
    opened = []

    def counted(path: Path, *rest: Any) -> Any:
        opened.append(path)
        return open_predictions(path, *rest)

    monkeypatch.setattr(recorded, "open_predictions", counted)
    assert accuracy(evaluated(suite_file, tmp_path / "run", file), "m") == pytest.approx(RIGHT)
    assert opened == [file]


def test_one_file_for_all_benchmarks_by_ids_alone(suite_file: Path, tmp_path: Path) -> None:
    file = record(suite_file.parent, tmp_path / "all.jsonl", "m", 4, benchmark=False)
    made = evaluated(suite_file, tmp_path / "run", file)
    assert accuracy(made, "m") == pytest.approx(RIGHT)
    assert made.dropped == {"m": {}}  # rows about the other benchmark are no strangers
    file.write_text(
        file.read_text() + json.dumps({"id": "bones-1", "model": "m", "prediction": "A"}) + "\n"
    )
    made = evaluated(suite_file, tmp_path / "more", file)
    assert made.dropped == {"m": {"unknown item": 1}}


def test_ids_that_two_benchmarks_share_need_a_name(suite_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "same"
    folder.mkdir()
    text = (suite_file.parent / "sides/test.jsonl").read_text()
    for name in ("first", "second"):
        (folder / f"{name}.jsonl").write_text(text)
    suite = folder / "suite.yaml"
    suite.write_text(
        "name: same\nbenchmarks:\n  - {name: first, source: first.jsonl}\n"
        "  - {name: second, source: second.jsonl}\n"
    )
    lines = [{"id": row["id"], "prediction": "A"} for row in rows_of(suite_file.parent, "sides")]
    file = folder / "m.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    with pytest.raises(InputError, match="first and second: .*column"):
        evaluated(suite, tmp_path / "run", file)
    made = evaluated(suite, tmp_path / "run", f"first={file}")
    assert list(accuracy(made, "m")) == ["first"]
    assert any("second (24 items)" in one and "no mean" in one for one in made.remarks)
    with pytest.raises(InputError, match="'third'.* first, second"):
        evaluated(suite, tmp_path / "run", f"third={file}")


def test_a_missing_file_is_found_out_before_a_benchmark_is_read(tmp_path: Path) -> None:
    """The benchmarks of the suite are on the hub: nothing may be asked of it for a mistyped path."""
    with pytest.raises(InputError, match=r"nowhere\.jsonl: "):
        evaluated(Path("medvlsynther"), tmp_path / "run", tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match="'SLAKES'; it has"):
        evaluated(Path("medvlsynther"), tmp_path / "run", f"SLAKES={__file__}")
    assert not (tmp_path / "run").exists()


def test_results_of_medvlthinker_with_several_rollouts(suite_file: Path, tmp_path: Path) -> None:
    """eval_results.jsonl: dataset_name, dataset_index, and every reply with the script's own grade."""
    lines = []
    for name in SIZES:
        for row in rows_of(suite_file.parent, name):
            text = row["options"][ord(row["answer"]) - ord("A")]
            replies = [
                f"<answer>{row['answer']}. {text}.</answer>",
                f"<answer>{row['answer']}</answer>",
            ]
            lines.append(
                {
                    "dataset_name": name,
                    "dataset_index": row["id"],
                    "answer_label": row["answer"],
                    "answer": text,
                    "parsed_outputs": [
                        {"output_text": reply, "is_correct": not reply.endswith(".</answer>")}
                        for reply in replies
                    ],
                }
            )
    file = tmp_path / "eval_results.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    made = evaluated(suite_file, tmp_path / "run", file)
    assert set(accuracy(made, "eval_results").values()) == {1.0}
    scorers = made.accuracies[0].counts["scorers"]
    assert scorers["medvlthinker"]["accuracy"] == 0.5  # its script refuses the closing full stop
    assert "36 of 72 rows: 36 right" in " ".join(made.remarks)
    assert "organs: 2 replies" in " ".join(made.remarks)
    page = write_evaluation_report(made.run).read_text()
    assert ("recorded elsewhere" in page, "greedily" in page) == (True, False)


@pytest.mark.parametrize("kind", ["tsv", "json"])
def test_a_prediction_file_of_vlmevalkit(suite_file: Path, tmp_path: Path, kind: str) -> None:
    """The benchmark's columns without the image, prediction; in _result files the judge's hit and log."""
    rows = []
    for number, row in enumerate(rows_of(suite_file.parent, "sides")):
        said = f"The answer is {row['answer']}." if number else "Failed to obtain answer via API."
        said = "It could be any of them" if number in (1, 2) else said
        rows.append(
            {
                "index": row["id"],
                "question": row["question"],
                "hint": float("nan"),
                **dict(zip("ABC", row["options"], strict=True)),
                "D": float("nan"),
                "answer": row["answer"],
                "category": "organ",
                "l2-category": "body",
                "split": "dev",
                "prediction": said,
                "hit": int(number != 2),
                "log": "Match Log: …",
            }
        )
    file = tmp_path / f"Model_SIDES_gpt-4o_result.{kind}"
    if kind == "json":
        file.write_text(json.dumps(rows, indent=4))
    else:
        with file.open("w", newline="") as target:
            lines = csv.writer(target, delimiter="\t", quoting=csv.QUOTE_ALL)
            cells = [["" if one != one else one for one in row.values()] for row in rows]
            lines.writerows([rows[0].keys(), *cells])
    made = evaluated(suite_file, tmp_path / "run", f"sides={file}", name="m")
    (one,) = [part for part in made.accuracies if part.benchmark == "sides"]
    assert (one.n, one.value) == (23, pytest.approx(21 / 23))
    assert made.dropped == {"m": {"no recorded answer": 1}}
    told = " ".join(made.remarks)
    assert "'hit'" in told and "on 1 of 23 rows" in told
    assert "sides-1" in told


def test_samples_of_lmms_eval_as_its_tracker_writes_them(suite_file: Path, tmp_path: Path) -> None:
    """No document, the prompt as input, resps where it is not filtered_resps, a metric with a score."""
    lines = []
    for number, row in enumerate(rows_of(suite_file.parent, "organs")):
        listed = "\n".join(f"{'ABC'[n]}. {text}" for n, text in enumerate(row["options"]))
        told = row["answer"] if number else "I cannot tell"
        line = {
            "doc_id": number,
            "target": row["answer"],
            "filtered_resps": [told],
            "doc_hash": "0f" * 32,
            "token_counts": [{"output_tokens": 2}],
            "input_media": [row["image"]],
            "organs_score": {"question_id": row["image"], "category": "organ", "score": 1.0},
            "input": f"{row['question']}\n{listed}\nAnswer with the option's letter.",
        }
        if number == 1:
            line["resps"] = [[f"Answer: {told}"]]
        if number == 2:
            line["input"] = "Another question?\nAnswer with the option's letter."
        lines.append(json.dumps(line))
    file = tmp_path / "20260923_172512_samples_organs.jsonl"
    file.write_text("\n".join(lines) + "\n")
    made = evaluated(suite_file, tmp_path / "run", f"organs={file}", name="m", price_out=1.0)
    (one,) = [part for part in made.accuracies if part.benchmark == "organs"]
    assert (one.n, one.value) == (35, pytest.approx(34 / 35))
    assert made.dropped == {"m": {"unknown item": 1, "no recorded answer": 1}}
    assert "on 1 of 35 rows" in " ".join(made.remarks)
    assert made.costs["m"] == pytest.approx(35 * 2 / 1e6)


def test_an_eval_log_of_inspect_ai(suite_file: Path, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    rows = rows_of(suite_file.parent, "sides")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "header.json", json.dumps({"eval": {"model": "openai/gpt", "task": "sides"}})
        )
        for row in rows:
            for epoch in (1, 2):
                told = f"ANSWER: {row['answer'] if epoch == 1 else 'A'}"
                sample = {
                    "id": row["id"],
                    "epoch": epoch,
                    "input": row["question"],
                    "choices": row["options"],
                    "target": row["answer"],
                    "output": {
                        "choices": [{"message": {"content": told}}],
                        "usage": {"input_tokens": 10, "output_tokens": 2},
                    },
                    "scores": {"choice": {"value": "C" if told[-1] == row["answer"] else "I"}},
                }
                archive.writestr(f"samples/{row['id']}_epoch_{epoch}.json", json.dumps(sample))
    file = tmp_path / "log.eval"
    file.write_bytes(buffer.getvalue())
    made = evaluated(suite_file, tmp_path / "run", f"sides={file}", price_in=1.0, price_out=1.0)
    first = sum(row["answer"] == "A" for row in rows) / len(rows)
    assert accuracy(made, "openai/gpt") == pytest.approx({"sides": (1 + first) / 2})
    assert made.costs["openai/gpt"] == pytest.approx(2 * len(rows) * 12 / 1e6)
    assert "all 48 rows" in " ".join(made.remarks)


def test_a_batch_of_openai(suite_file: Path, tmp_path: Path) -> None:
    lines = []
    for number, row in enumerate(rows_of(suite_file.parent, "sides")):
        message = {"role": "assistant", "content": f"<answer>{row['answer']}</answer>"}
        if number % 2:  # /v1/responses beside /v1/chat/completions
            body: dict[str, Any] = {
                "output": [
                    {"type": "reasoning", "summary": []},
                    {
                        "type": "message",
                        "content": [{"type": "output_text", "text": message["content"]}],
                    },
                ],
                "usage": {"input_tokens": 5, "output_tokens": 1},
            }
        else:
            body = {
                "choices": [{"message": message}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 1},
            }
        response = {"status_code": 200, "body": {**body, "model": "gpt"}} if number else None
        error = None if number else {"code": "expired"}
        lines.append({"custom_id": row["id"], "response": response, "error": error})
    file = tmp_path / "batch.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    made = evaluated(suite_file, tmp_path / "run", f"sides={file}")
    (one,) = [part for part in made.accuracies if part.model == "gpt"]
    assert (one.value, one.n) == (1.0, 23)
    assert one.counts["prompt_tokens"] == 23 * 5


def test_leaked_and_clean_items_by_labels(suite_file: Path, tmp_path: Path) -> None:
    labels = tmp_path / "leaks.csv"
    rows = rows_of(suite_file.parent, "organs")
    labels.write_text(
        "id,leaked\n" + "".join(f"{r['id']},{int(n % 4 != 0)}\n" for n, r in enumerate(rows))
    )
    file = record(suite_file.parent, tmp_path / "all.jsonl", "m", 4)
    made = evaluated(suite_file, tmp_path / "run", file, leaks=(f"organs={labels}",))
    found = {(one.benchmark, one.subset): (one.value, one.n) for one in made.accuracies}
    assert found["organs", "leaked"] == (1.0, 27)
    assert found["organs", "clean"] == (0.0, 9)
    assert ("sides", "leaked") not in found
    again = read_evaluation(Run.open(tmp_path / "run"))  # from the folder alone
    assert again.table.equals(made.table)
    assert pl.read_parquet(tmp_path / "run/tables/accuracies.parquet").height == made.table.height
    with pytest.raises(InputError, match="BENCHMARK="):
        evaluated(suite_file, tmp_path / "other", file, leaks=(str(labels),))


def test_leaked_items_by_a_run_of_overlap(suite_file: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    home = suite_file.parent / "organs"
    for number in range(3):  # a quarter of the pictures, and the nine items about them
        (corpus / f"{number}.png").write_bytes((home / f"images/{number}.png").read_bytes())
    scan = run_inside(
        "overlap",
        home / "test.jsonl",
        "--images",
        home / "images",
        "--against",
        f"c={corpus}",
        "--out",
        tmp_path / "scan",
        "--quiet",
    )
    assert scan.returncode == 0, scan.stderr
    file = record(suite_file.parent, tmp_path / "all.jsonl", "m", 4)
    made = evaluated(suite_file, tmp_path / "run", file, leaks=(str(tmp_path / "scan"),))
    found = {(one.benchmark, one.subset): one.n for one in made.accuracies}
    assert (found["organs", "leaked"], found["organs", "clean"]) == (9, 27)


def test_two_models_in_one_run_are_ranked(suite_file: Path, tmp_path: Path) -> None:
    files = [record(suite_file.parent, tmp_path / f"{n}.jsonl", f"m{n}", n) for n in (2, 3, 12)]
    made = evaluated(suite_file, tmp_path / "run", *files)
    assert [name for name, _ in sorted(made.ranks.items(), key=lambda pair: pair[1].rank)] == [
        "m12",
        "m3",
        "m2",
    ]
    assert (len(made.pairs), made.comparisons.height) == (3, 9)
    assert "<table>" in made._repr_html_()
    assert "\n" not in repr(made) and len(repr(made)) < 400
    kept = json.loads((tmp_path / "run/evaluation.json").read_text())
    assert kept["evaluation_version"] == 1
    renamed = evaluated(suite_file, tmp_path / "renamed", files[1], name="other")
    assert renamed.models == ("other",)
    with pytest.raises(InputError, match="names 2 models: m2, m3"):
        evaluated(suite_file, tmp_path / "both", files[0], files[1], name="other")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(InputError, match="id and prediction"):
        evaluated(suite_file, tmp_path / "none", tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match="^modells: "):
        evaluated(suite_file, tmp_path / "none", modells=("m",))
    worse = record(suite_file.parent, tmp_path / "worse.jsonl", "m3", 1)
    with pytest.raises(InputError, match=r"'m3'.*\borgans\b.*\b3\.jsonl"):
        evaluated(suite_file, tmp_path / "run", worse)
    again = evaluated(suite_file, tmp_path / "run", files[1])
    assert again.mean("m3").value == made.mean("m3").value
    with pytest.raises(InputError, match=r"'m2' to organs\b.*earlier"):
        evaluated(suite_file, tmp_path / "twice", files[0], files[0])
