"""NaturalBench in its published layout: four items a row, or two arms that are twins of each other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from heldout.benchmark import Benchmark, read_benchmark
from heldout.benchmark.writers.base import open_tables
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model import read_twins
from heldout.model.asking import expand, parse_variants

Picture = Callable[..., bytes]


def row(index: int, picture: Picture, **changed: Any) -> dict[str, Any]:
    choice = index % 2 == 1
    question = "Which animal?; Option: A:a cat; B:a dog;" if choice else "Is it a cat?"
    first, second = ("A", "B") if choice else ("Yes", "No")
    return {
        "Index": index,
        "Image_0": {"bytes": picture(2 * index), "path": f"{index}_0.jpg"},
        "Image_1": {"bytes": picture(2 * index + 1), "path": f"{index}_1.jpg"},
        "Question_0": f"{question} ({index})" if not choice else question,
        "Question_1": "Is it dark?",
        "Image_0_Question_0": first,
        "Image_1_Question_0": second,
        "Image_0_Question_1": "No",
        "Image_1_Question_1": "Yes",
        "Question_Type": "multiple_choice" if choice else "yes_no",
        "Source": "Flickr30K",
        **changed,
    }


@pytest.fixture
def table(tmp_path: Path, picture: Picture) -> Path:
    rows = [row(index, picture) for index in range(4)]
    rows.append(row(4, picture, Image_1_Question_1="no."))  # not another answer
    path = tmp_path / "nb.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
    return path


def arm(table: Path, name: str, **options: Any) -> Benchmark:
    return read_benchmark(f"{table}#arm={name}", **options)


@pytest.mark.parametrize("options", [{}, {"preset": "naturalbench"}])
def test_arms_have_the_same_ids_and_questions_with_other_pictures_and_answers(
    options: dict[str, str], table: Path, picture: Picture
) -> None:
    original, twin = arm(table, "original", **options), arm(table, "twin", **options)
    assert len(original) == 9
    assert [one.id for one in original][:3] == ["0-q0", "0-q1", "1-q0"]
    for number, (one, other) in enumerate(zip(original, twin, strict=True)):
        assert (one.id, one.question, one.options) == (other.id, other.question, other.options)
        assert one.answer != other.answer
        assert one.images[0].read() == picture(2 * (number // 2))
        assert other.images[0].read() == picture(2 * (number // 2) + 1)
        assert one.cluster == str(number // 2)
    assert (original.examples[2].answer, twin.examples[2].answer) == ("a cat", "a dog")
    assert len(set(original.clusters)) == 5
    assert original.examples[0].metadata["Question_Type"] == "yes_no"
    assert [(one.id, one.reason) for one in twin.dropped] == [("4-q1", "no twin")]


def test_without_an_arm_a_row_is_four_items(table: Path) -> None:
    whole = read_benchmark(table, preset="naturalbench")
    assert len(whole) == 20
    assert len(set(whole.clusters)) == 5


def test_an_arm_nobody_has_is_refused(table: Path) -> None:
    with pytest.raises(InputError, match="expected .*original, twin"):
        arm(table, "left")


def test_another_table_may_have_a_column_of_that_name(tmp_path: Path) -> None:
    rows = [{"id": n, "question": f"{n}?", "answer": "a", "arm": "ab"[n % 2]} for n in range(4)]
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert [one.id for one in read_benchmark(f"{path}#arm=b")] == ["1", "3"]


def test_a_row_without_its_pair_is_dropped_with_its_number(
    tmp_path: Path, picture: Picture
) -> None:
    path = tmp_path / "nb.jsonl"
    whole = {k: v for k, v in row(0, picture).items() if not k.startswith("Image_")}
    answers = {k: v for k, v in row(0, picture).items() if "_Question_" in k}
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(picture(1))
    first = {**whole, **answers, "Image_0": "a.png", "Image_1": "b.png"}
    lines = [first, {"Index": 9}, {**first, "Index": 7}]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    for options in ({}, {"preset": "naturalbench"}):
        opened = open_tables(f"{path}#arm=twin", **options)
        found = opened.benchmark
        assert [one.id for one in found] == ["0-q0", "0-q1", "7-q0", "7-q1"]
        assert [(one.id, one.reason) for one in found.dropped] == [("row 2", "no pair of images")]
        assert [place for _, place in opened.places()] == [1, 1, 3, 3]


@pytest.mark.parametrize("name", ["original", "twin"])
@pytest.mark.parametrize("options", [{}, {"preset": "naturalbench"}])
def test_items_of_an_arm_lie_in_the_rows_of_their_file(
    options: dict[str, str], name: str, table: Path
) -> None:
    opened = open_tables(f"{table}#arm={name}", **options)
    assert [place for _, place in opened.places()] == [1, 1, 2, 2, 3, 3, 4, 4, 5]


def test_one_file_asks_both_arms(table: Path, tmp_path: Path) -> None:
    """Replies of a model that always says what is right on image 0."""
    original, twin = arm(table, "original"), arm(table, "twin")
    variants = parse_variants(f"original,twin={table}#arm=twin")
    asked = expand(original, original.examples, variants, twins=read_twins(variants, original))
    assert len(asked.questions) == 18
    assert not asked.dropped
    replies, run = tmp_path / "replies.jsonl", tmp_path / "run"
    known = {one.id: one.answer for one in original}
    lines = [
        {"id": one.id, "model": "m", "variant": name, "reply": known[one.id], "answer": one.answer}
        for name, shown in (("original", original), ("twin", twin))
        for one in shown
    ]
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = command("ask", f"{table}#arm=original", "--recorded", str(replies), "--out", str(run))
    (model,) = told["models"]
    assert not model["dropped"]
    found = {one["id"]: one for one in command("detect", str(run))["findings"]}
    drop = found["twin-drop/m"]
    assert (drop["n"], drop["clusters"], drop["statistic"]["value"]) == (9, 5, -1.0)


def command(*arguments: str) -> Any:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)
