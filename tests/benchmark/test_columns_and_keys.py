"""Columns that are found by what they hold, options under many names, and keys that nobody can use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.benchmark._option_list import take_list
from heldout.benchmark._option_values import read_options, take_unlettered
from heldout.benchmark.check import check
from heldout.benchmark.readers.headerless import column_names
from heldout.cli.app import app
from heldout.errors import InputError

Picture = Callable[..., bytes]
MODALITIES = ("CT", "MRI", "US")


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(folder: Path, rows: list[dict[str, Any]]) -> Benchmark:
    return read_benchmark(lines(folder / "t.jsonl", rows))


def found(benchmark: Benchmark, rule: str) -> list[str] | None:
    told = {problem.rule: problem.examples for problem in check(benchmark).problems}
    return told.get(rule)


def table(path: Path, *rows: str) -> Path:
    path.write_text("".join(row.replace(" | ", "\t") + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("names", "identifier"),
    [
        (("task_id", "prompt", "canonical_solution"), "HumanEval/7"),
        (("unique_id", "problem", "solution"), "1"),
        (("id", "question", "final_answer"), "HumanEval/7"),
    ],
)
def test_columns_of_programs_and_problems(
    tmp_path: Path, names: tuple[str, str, str], identifier: str
) -> None:
    row = dict(zip(names, ("HumanEval/7", "def f(x):", "    return x"), strict=True))
    (example,) = read(tmp_path, [row])
    assert (example.id, example.question, example.answer) == (
        identifier,
        "def f(x):",
        "    return x",
    )


def test_a_name_with_an_ending_is_the_picture_and_letters_are_keys(
    tmp_path: Path, picture: Picture
) -> None:
    (tmp_path / "images").mkdir()
    for name in ("0.png", "1.png", "2.png"):  # so that a bare number is the name of a file too
        (tmp_path / "images" / name).write_bytes(picture(ord(name[0])))
    path = table(
        tmp_path / "t.tsv",
        "1 | images/0.png | What is it | CT | MRI | US | B",
        "2 | images/1.png | What is that | CT | MRI | US | A",
        "0 | images/2.png | What is this | CT | MRI | US | C",
    )
    benchmark = read_benchmark(path)
    assert [e.images[0].name for e in benchmark][:2] == ["images/0.png", "images/1.png"]
    first = benchmark.examples[0]
    assert (first.question, first.options, first.answer) == (
        "What is it",
        MODALITIES,
        "MRI",
    )
    (told,) = found(benchmark, "columns-without-names") or []
    assert "column 3: question, column 4: option" in told
    moved = read_benchmark(
        path, mapping={"question": "column 4", "options": "column 5+column 6", "id": "column 3"}
    )
    first = moved.examples[0]
    assert (first.id, first.question, first.options, first.key) == (
        "What is it",
        "CT",
        ("MRI", "US"),
        "B",
    )


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (
            ["a.png", "Is it?", "1", "2", "A"],
            ["image", "question", "option A", "option B", "answer"],
        ),
        (
            ["a.png", "Is it?", "1", "2", "C"],
            ["image", "question", "answer", "column 4", "column 5"],
        ),
        (
            ["a.png", "Is it?", "no", "No", "A"],
            ["image", "question", "answer", "column 4", "column 5"],
        ),
    ],
)
def test_letters_are_keys_of_columns_that_they_fit(rows: list[str], names: list[str]) -> None:
    assert column_names([rows, ["b.png", "Was it?", *rows[2:]]]) == names


@pytest.mark.parametrize(
    ("columns", "answer", "right"),
    [
        ({"opt1": "CT", "opt2": "MRI", "opt3": "US"}, "B", "MRI"),
        ({"option1": "CT", "option2": "MRI", "option3": "US"}, "1", "CT"),
        ({"opa": "CT", "opb": "MRI", "opc": "US", "cop": 1}, None, "MRI"),
        ({"choices": {"label": ["A", "B"], "text": ["CT", "MRI"]}, "answerKey": "B"}, None, "MRI"),
        ({"options": list(MODALITIES), "gt": "C"}, None, "US"),
        ({"options": json.dumps(json.dumps(MODALITIES))}, "C", "US"),
        ({"options": {"opa": "CT", "opb": "MRI"}}, "B", "MRI"),
        ({"options": ["A. CT", "B. MRI", "D. US"]}, "D", "US"),
    ],
)
def test_options_under_other_names(
    columns: dict[str, Any], answer: str | None, right: str, tmp_path: Path
) -> None:
    row = {"question": "Which?", **columns, **({"answer": answer} if answer else {})}
    (example,) = read(tmp_path, [row])
    assert example.answer == right
    assert example.options[:2] == ("CT", "MRI")


def test_species_are_no_letters() -> None:
    species = ["A. baumannii", "B. fragilis", "E. coli"]
    assert read_options(species).texts == tuple(species)


def test_species_stay_whole_where_keys_are_positions(tmp_path: Path) -> None:
    row = {"question": "Which?", "options": ["A. baumannii", "B. fragilis", "E. coli"]}
    for key in ("C", "E. coli"):
        (example,) = read(tmp_path, [{**row, "answer": key}])
        assert example.answer == "E. coli"


@pytest.mark.parametrize(
    ("row", "fires"),
    [
        ({"o_1": "CT", "o_2": "MRI", "answer": "B"}, True),
        ({"answer_1": "CT", "answer_2": "MRI", "answer": 2}, True),
        ({"question": "How many?", "answer": 2}, False),
        ({"options": ["CT", "MRI"], "answer": "B"}, False),
        ({"answer": "cat"}, False),
    ],
)
def test_keys_without_options(row: dict[str, Any], fires: bool, tmp_path: Path) -> None:
    rows = [{"question": f"Which is {n}?", **row} for n in range(3)]
    assert (found(read(tmp_path, rows), "keys-without-options") is not None) is fires


def test_several_keys(tmp_path: Path) -> None:
    row = {"question": "Which?", "options": list(MODALITIES)}
    keys = [["A", "B"], ["B"], ["MRI", "MRI"], "C", ["CT", "US"]]
    benchmark = read(tmp_path, [{**row, "id": str(n), "answer": key} for n, key in enumerate(keys)])
    assert [e.answer for e in benchmark][:2] == ["CT", "MRI"]
    assert [told.partition(":")[0] for told in found(benchmark, "several-keys") or []] == ["0", "4"]


@pytest.mark.parametrize(
    "listed",
    [
        "\nOptions:\nCT\nMRI\nUS",
        "\nOptions: ['CT', 'MRI', 'US']",
        "\nOptions:\n- CT\n- MRI\n- US",
        " Choose from: CT, MRI, US.",
        "\nOptions: CT | MRI | US",
        "\nChoices: CT, MRI, or US",
    ],
)
def test_lists_without_letters(listed: str, tmp_path: Path) -> None:
    question = f"What is it?{listed}"
    first, second = read(
        tmp_path,
        [
            {"id": "1", "question": question, "answer": "MRI"},
            {"id": "2", "question": question, "answer": "PET"},
        ],
    )
    assert (first.question, first.options, first.answer_index) == ("What is it?", MODALITIES, 1)
    assert (second.question, second.options) == (question, ())
    assert found(Benchmark("b", (first, second)), "option-list-in-question") == ["2"]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What are the options: surgery or rest?", "rest"),
        ("Which?\nOptions: A: x, B: y, D: z", "B: y"),
        ("Which?\nOptions: x, y, x", "y"),
        ("Options: x, y", "y"),  # nothing would be asked
    ],
)
def test_text_that_is_no_list_without_letters(question: str, key: str) -> None:
    assert take_unlettered(question, key) == (question, None)


@pytest.mark.parametrize(
    "listed",
    [
        "Options: A: a man, B: , C: dog",
        "Options: A: CT, B: MRI, A: US, B: PET",
        "Options:\nA: CT\nB:\nC: US",
    ],
)
def test_options_are_never_merged(listed: str, tmp_path: Path) -> None:
    question = f"What is it?\n{listed}"
    assert take_list(question, (), "A") == (question, None)
    benchmark = read(tmp_path, [{"id": "1", "question": question, "answer": "A"}])
    (told,) = [p for p in check(benchmark).problems if p.rule == "option-list-in-question"]
    assert "1 fit the" in told.message
    assert "do not fit" not in told.message


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("¿Qué es?\nOpciones: A: TC, B: RM", "¿Qué es?"),
        ("What is \\nu?\\nOptions: A: TC, B: RM", "What is \\nu?"),
        ("Context: none.\nQuestion: x?\nOptions: (A) TC (B) RM", "Context: none.\nx?"),
    ],
)
def test_no_heading_is_left(question: str, asked: str) -> None:
    assert take_list(question, (), "A")[0] == asked


def test_marks_in_angles_are_reported(tmp_path: Path) -> None:
    questions = [
        "<A> CT <B> MRI. What is it?",
        "Which? <li>A. CT</li><li>B. MRI</li>",
        "Is it <a> tag?",
    ]
    rows = [{"id": str(n), "question": q, "answer": "B"} for n, q in enumerate(questions)]
    assert found(read(tmp_path, rows), "option-list-in-question") == ["0", "1"]


def test_empty_options_and_pictures_that_are_not_there() -> None:
    def item(name: str, options: tuple[str, ...], question: str = "Which?") -> Example:
        return Example(name, question=question, options=options, answer=options[0], answer_index=0)

    benchmark = Benchmark(
        "b",
        (
            item("empty", ("CT", "", "US")),
            item("option", ("<image 2>", "x")),
            item("fine", ("x", "y"), "<image 1> Which?"),
            item("question", ("x", "y"), "Is <image 3> like <image 1>?"),
        ),
    )
    assert found(benchmark, "empty-option") == ["empty"]
    assert [told.partition(":")[0] for told in found(benchmark, "missing-picture") or []] == [
        "option",
        "question",
    ]


def test_a_preset_of_captions_refuses_multiple_choice(tmp_path: Path) -> None:
    row = {"question_id": 1, "image": "a.png", "question": "Which?", "caption_str": "a cat"}
    path = lines(tmp_path / "t.jsonl", [row])
    assert read_benchmark(path, preset="textcaps").examples[0].answer == "a cat"
    lines(path, [{**row, "options": ["a cat", "a dog"]}])
    with pytest.raises(InputError, match=r"\btextcaps\b"):
        read_benchmark(path, preset="textcaps")


def test_check_says_which_split_was_read(tmp_path: Path) -> None:
    rows = [{"question": "Is it?", "answer": "yes"}, {"question": "Was it?", "answer": "no"}]
    for name, facts, printed in (
        ("val.jsonl", "val", "split val"),
        ("t.jsonl", None, "no split named"),
    ):
        path = str(lines(tmp_path / name, rows))
        told = json.loads(CliRunner().invoke(app, ["check", path, "--json"]).stdout)
        assert told["facts"]["split"] == facts
        shown = CliRunner().invoke(app, ["check", path]).stdout
        assert printed in " ".join(shown.split())


def test_shared_questions_with_other_answers(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "a.png").write_bytes(picture(3))
    row = {"image": "a.png", "question": "Is it?"}
    ours = read_benchmark(lines(tmp_path / "test.jsonl", [{**row, "answer": "yes"}]))
    for answer, advice in (("yes", "the answer itself"), ("no", "settle which answer")):
        theirs = read_benchmark(lines(tmp_path / "train.jsonl", [{**row, "answer": answer}]))
        (told,) = [p for p in check(ours, theirs).problems if p.rule == "shared-questions"]
        assert advice in told.advice


def test_numbers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"id": 1, "question": "q?", "answer": Infinity}\n'
        '{"id": 2, "question": "q?", "answer": "inf"}\n'
        f'{{"id": 3, "question": "q?", "answer": {"9" * 6000}}}\n'
    )
    benchmark = read_benchmark(path)
    assert [e.answer for e in benchmark] == [None, "inf"]
    assert found(benchmark, "empty-answer") == ["1"]
    (dropped,) = benchmark.dropped
    assert dropped.reason == "number too long"
    assert "more than 4,300 digits" in dropped.detail
    assert "set_int_max_str_digits" not in dropped.detail
