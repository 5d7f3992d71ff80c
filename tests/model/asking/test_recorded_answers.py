"""Answers that other programs wrote: matched to the items, to what was shown, and graded."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl
import pytest
from typer.testing import CliRunner

from heldout.benchmark import Benchmark, Example
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model.asking.recorded import RecordedAnswers, read_answers
from heldout.model.asking.stage import graded
from heldout.model.prediction_files import spreadsheet_rows

ORGANS = ("liver", "heart", "left lung", "spleen")


@pytest.fixture
def benchmark() -> Benchmark:
    return Benchmark(
        "organs",
        tuple(
            Example(str(n), (), f"Which organ is it? ({n})", ORGANS, ORGANS[n % 4], n % 4)
            for n in range(6)
        ),
    )


def sheet(path: Path, rows: list[list[Any]]) -> Path:
    """An .xlsx as XlsxWriter (and pandas, and VLMEvalKit with them) makes it: shared strings."""
    texts: dict[str, int] = {}
    lines = []
    for number, row in enumerate(rows, 1):
        cells = []
        for place, value in enumerate(row):
            name = f"{chr(ord('A') + place)}{number}"
            if isinstance(value, str):
                index = texts.setdefault(value, len(texts))
                cells.append(f'<c r="{name}" t="s"><v>{index}</v></c>')
            elif value is not None:
                cells.append(f'<c r="{name}"><v>{value}</v></c>')
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        items = "".join(f'<si><t xml:space="preserve">{escape(text)}</t></si>' for text in texts)
        archive.writestr("xl/sharedStrings.xml", f"<sst {space}>{items}</sst>")
        data = f"<worksheet {space}><sheetData>{''.join(lines)}</sheetData></worksheet>"
        archive.writestr("xl/worksheets/sheet1.xml", data)
    return path


def outcomes(found: RecordedAnswers) -> dict[str, str]:
    return {question.id: graded(question, reply).outcome for question, reply in found.pairs}


def circular_rows() -> list[list[Any]]:
    """VLMEvalKit's circular file: the k-th rotation of item i is called i + k million."""
    rows: list[list[Any]] = [
        ["index", "question", "A", "B", "C", "D", "answer", "prediction", "hit"]
    ]
    for number in range(4):
        for turn in range(4):
            shown = [ORGANS[(place + turn) % 4] for place in range(4)]
            right = "ABCD"[shown.index(ORGANS[number % 4])]
            said = right if number else ("B" if turn == 2 else right)
            rows.append(
                [
                    number + turn * 1_000_000,
                    f"Which organ is it? ({number})",
                    *shown,
                    right,
                    f"{said}. {shown['ABCD'.index(said)]}",
                    1,
                ]
            )
    return rows


def check_circular(found: RecordedAnswers) -> None:
    told = outcomes(found)
    assert len(told) == 16
    assert told["original/0/0"] == "right" and told["rotation-2/0/0"] == "wrong"
    assert Counter(told.values()) == {"right": 15, "wrong": 1}
    assert {drop.id for drop in found.dropped} == {"4", "5"}


def test_vlmevalkit_spreadsheets_and_their_rotations(benchmark: Benchmark, tmp_path: Path) -> None:
    path = sheet(tmp_path / "Qwen_MMBench.xlsx", circular_rows())
    found = read_answers(path, benchmark)
    assert list(found) == ["Qwen_MMBench"]
    check_circular(found["Qwen_MMBench"])


@pytest.mark.parametrize("library", ["openpyxl", "xlsxwriter"])
def test_spreadsheets_of_real_libraries(benchmark: Benchmark, tmp_path: Path, library: str) -> None:
    made = pytest.importorskip(library)
    path = tmp_path / "real.xlsx"
    if library == "openpyxl":
        book = made.Workbook()
        for row in circular_rows():
            book.active.append(row)
        book.save(path)
    else:
        with made.Workbook(str(path)) as book:
            page = book.add_worksheet()
            for number, row in enumerate(circular_rows()):
                page.write_row(number, 0, row)
    check_circular(read_answers(path, benchmark, model="m")["m"])


def test_tab_separated_text_is_the_same(benchmark: Benchmark, tmp_path: Path) -> None:
    path = tmp_path / "q.tsv"
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t").writerows(circular_rows())
    path.write_text(buffer.getvalue())
    check_circular(read_answers(path, benchmark, model="m")["m"])


@pytest.mark.parametrize("nesting", ["old", "new"])
def test_logged_samples_by_id_and_by_position(
    benchmark: Benchmark, tmp_path: Path, nesting: str
) -> None:
    lines = []
    for number in range(6):
        reply: Any = [["A"]] if nesting == "old" else ["A"]
        doc = {"question": f"Which organ is it? ({number})"}
        if number == 5:
            doc = {"question": "Something else"}
        line = {
            "doc_id": number,
            "doc": doc,
            "target": "A",
            "resps": reply,
            "filtered_resps": ["a!"],
        }
        lines += [line, line] if number == 1 else [line]  # a line per filter
    path = tmp_path / "samples_organs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_answers(path, benchmark, model="m")["m"]
    told = outcomes(found)
    assert {name for name, outcome in told.items() if outcome == "right"} == {
        "original/0/0",
        "original/0/4",
    }
    assert len(told) == 5
    assert Counter(drop.reason for drop in found.dropped) == {
        "unknown item": 1,
        "no recorded answer": 1,
    }
    path.write_text(
        json.dumps({"doc_id": 0, "doc": {"id": "0"}, "resps": [[-1.5, True], [-2.0, False]]})
    )
    with pytest.raises(InputError, match="compare log-likelihoods"):
        read_answers(path, benchmark)


def test_a_table_of_ones_own(benchmark: Benchmark, tmp_path: Path) -> None:
    rows = [
        {"id": "0", "model": "a", "response": "A"},
        {"id": "0", "model": "b", "response": "(B)"},
        {"id": "1", "model": "a", "response": ""},
        {"id": "2", "model": "a", "response": None},
        {
            "id": "3",
            "model": "a",
            "response": "liver",
            "options": ["liver", "spleen", "heart", "left lung"],
        },
        {"id": "3", "model": "a", "response": "A", "options": ["liver", "spleen", "heart", "lung"]},
        {"id": "4", "model": "a", "response": "A", "answer": "B"},
        {"id": "4", "model": "a", "response": "A", "variant": "no-image"},
        {
            "id": "5",
            "model": "a",
            "response": "C",
            "variant": "twin",
            "options": list(ORGANS),
            "answer": "C",
        },
        {"id": "5", "model": "a", "response": "organ", "variant": "slot", "answer": "organ"},
        {"id": "5", "model": "a", "response": "C", "variant": "twin-b"},
        {
            "id": "5",
            "model": "a",
            "response": f"C. {ORGANS[2]}",
            "variant": "twin-c",
            "answer": "C",
        },
        {"id": "nobody", "model": "a", "response": "C"},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    found = read_answers(path, benchmark)
    assert outcomes(found["b"]) == {"original/0/0": "wrong"}
    assert outcomes(found["a"]) == {
        "original/0/0": "right",
        "original/0/1": "unparsed",
        "original/0/2": "unparsed",
        "shuffle-1/0/3": "wrong",
        "no-image/0/4": "right",
        "twin/0/5": "right",
        "slot/0/5": "right",
        "twin-c/0/5": "right",
    }
    assert Counter((drop.id, drop.reason) for drop in found["a"].dropped) == {
        ("3", "other options"): 1,
        ("4", "another answer"): 1,
        ("5", "no gold"): 1,
        ("nobody", "unknown item"): 1,
        ("mine.jsonl line 14", "not JSON"): 1,
    }


def test_rotated_rows_find_their_item_among_many(tmp_path: Path) -> None:
    many = Benchmark(
        "many",
        tuple(Example(str(n), (), f"{n}?", ORGANS, ORGANS[n % 4], n % 4) for n in (4, 14, 114)),
    )
    path = tmp_path / "q.csv"
    path.write_text("index,A,B,C,D,prediction\n3000114,spleen,liver,heart,left lung,B\n")
    question, reply = read_answers(path, many)["q"].pairs[0]
    assert (question.benchmark_id, question.variant, question.gold) == ("114", "rotation-3", "D")
    assert reply.text == "B"


def test_two_answers_to_one_question_are_refused(benchmark: Benchmark, tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("id,prediction\n0,A\n0,B\n")
    with pytest.raises(InputError, match=r"row 2: item 0 .*twice\.csv row 1"):
        read_answers(path, benchmark)
    path.write_text("id,prediction,draw\n0,A,0\n0,B,1\n")
    assert len(read_answers(path, benchmark)["twice"].pairs) == 2


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.csv", "id,prediction\nzz,A\n", "ids are like 0, 1, 2"),
        ("x.csv", "a,b\n1,2\n", "column holds predictions"),
        ("x.xlsx", "not a zip", "not a readable .xlsx"),
        ("x.txt", "A", "expected predictions as .xlsx"),
        ("x.csv", "id,prediction,draw\n0,A,first\n", "'draw' is 'first'"),
    ],
)
def test_bad_files_get_a_sentence(
    benchmark: Benchmark, tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=expected):
        read_answers(tmp_path / name, benchmark)


def test_hostile_spreadsheets_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.xlsx"
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    lol = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", f"{lol}<worksheet {space}>&b;</worksheet>")
    with pytest.raises(InputError, match="declares 'a'"):
        list(spreadsheet_rows(path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(InputError, match="no sheet"):
        list(spreadsheet_rows(path))
    sheet(path, [["index", "prediction"], [1, "A"]])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match="not a readable"):
        list(spreadsheet_rows(path))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ('<row r="abc"><c r="A1"><v>1</v></c></row>', "row 1: its number is 'abc'"),
        (f'<row r="{"9" * 5000}"/>', "row 1: its number is '999"),
        ('<row r="2"><c r="A2" t="s"><v>\u00b2</v></c></row>', "row 2: the index of a text is '²'"),
        (
            f'<row r="2"><c r="A2" t="s"><v>{"9" * 5000}</v></c></row>',
            "the index of a text is '999",
        ),
        ('<row r="2"><c r="A2" t="s"><v>7</v></c></row>', "is 7, of 0 texts"),
    ],
)
def test_a_spreadsheet_of_numbers_that_are_none_is_refused(
    tmp_path: Path, cells: str, says: str
) -> None:
    path = tmp_path / "sheet.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "xl/worksheets/sheet1.xml", f"<worksheet><sheetData>{cells}</sheetData></worksheet>"
        )
    with pytest.raises(InputError, match=says):
        list(spreadsheet_rows(path))


def test_recorded_answers_come_in_by_the_command(benchmark: Benchmark, tmp_path: Path) -> None:
    bench = tmp_path / "bench.jsonl"
    rows = [
        {"id": e.id, "question": e.question, "options": list(e.options), "answer": e.answer}
        for e in benchmark
    ]
    bench.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = sheet(tmp_path / "Qwen.xlsx", circular_rows())
    run = tmp_path / "run"
    done = CliRunner().invoke(app, ["ask", str(bench), "--recorded", str(path), "--out", str(run)])
    assert done.exit_code == 0, done.exception or done.output
    shown = " ".join(done.output.split())
    assert "released order 100.0 %" in shown and "rotation 75.0 %" in shown
    assert "same 4 items in 4 groups" in shown
    found = pl.read_parquet(run / "tables/answers.parquet")
    assert found.height == 16 and set(found["model"]) == {"Qwen"}
    assert found.filter(pl.col("variant") == "rotation-2")["order"].to_list()[0] == [2, 3, 0, 1]


def test_another_programs_answers_to_twins_come_in_beside_the_originals(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    bench, run = tmp_path / "bench.jsonl", tmp_path / "run"
    released = [
        {"id": e.id, "question": e.question, "options": list(e.options), "answer": e.answer}
        for e in benchmark
    ]
    bench.write_text("".join(json.dumps(row) + "\n" for row in released))
    ask = ["ask", str(bench), "--out", str(run), "--as", "Qwen", "--recorded"]
    for name, moved, more in (("original", 0, []), ("twin", 1, ["--variants", "twin"])):
        right = ["ABCD"[(n + moved) % 4] for n in range(6)]
        # Whoever remembers says the released letter to both.
        rows = [
            [str(n), e.question, *ORGANS, right[n], "ABCD"[n % 4]] for n, e in enumerate(benchmark)
        ]
        head = ["index", "question", *"ABCD", "answer", "prediction"]
        path = sheet(tmp_path / f"{name}.xlsx", [head, *rows])
        done = CliRunner().invoke(app, [*ask, str(path), *more])
        assert done.exit_code == 0, done.exception or done.output
    found = pl.read_parquet(run / "tables/answers.parquet")
    right_in = found.group_by("variant").agg((pl.col("outcome") == "right").sum()).rows()
    assert dict(right_in) == {"original": 6, "twin": 0}
    done = CliRunner().invoke(app, [*ask, str(path), "--variants", "original,twin=x.tsv"])
    assert isinstance(done.exception, InputError) and "give twin" in str(done.exception)


def test_a_position_that_no_question_confirms_says_how_to_take_it(
    benchmark: Benchmark, tmp_path: Path
) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(
        "".join(json.dumps({"doc_id": n, "doc": {}, "resps": [["A"]]}) + "\n" for n in range(6))
    )
    with pytest.raises(InputError, match="no question .* id=doc_id"):
        read_answers(path, benchmark, model="m")
    found = read_answers(path, benchmark, model="m", mapping={"id": "doc_id"})["m"]
    assert len(found.pairs) == 6


def test_a_field_of_recorded_files_is_not_one_of_the_benchmark(tmp_path: Path) -> None:
    bench, said = tmp_path / "test.jsonl", tmp_path / "said.jsonl"
    bench.write_text('{"id": "0", "question": "Which?", "answer": "yes"}\n')
    said.write_text('{"id": "0", "alt": "yes"}\n')
    for verb in ("ask", "score"):
        done = CliRunner().invoke(
            app,
            [
                verb,
                str(bench),
                "--recorded",
                str(said),
                "--out",
                str(tmp_path / "run"),
                "--map",
                "prediction=alt",
            ],
        )
        assert isinstance(done.exception, InputError)
        assert "--map-recorded prediction=alt" in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_an_item_without_a_key_has_no_answer(tmp_path: Path) -> None:
    from heldout.model.asking.forms import original
    from heldout.store import Dropped

    left = original(Example("1", (), "Which?", ORGANS, None, None))
    assert isinstance(left, Dropped)
    assert left.reason == "no answer" and "None" not in left.detail
    other = original(Example("1", (), "Which?", ORGANS, "kidney", None))
    assert isinstance(other, Dropped) and other.reason == "answer not among the options"
