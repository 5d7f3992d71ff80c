"""Tables, the badge and the summary of a run: what spreadsheets, README files and mail get."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_run import HOSTILE, made_up_run

import heldout
from heldout.audit import conclude
from heldout.errors import InputError, PrerequisiteError
from heldout.overlap import match_subject
from heldout.report import ReportSettings
from heldout.report import _pdf as pdf
from heldout.report._summary_page import write_summary
from heldout.store import ITEM, MATCH, Judgement, Run, append
from heldout.store.schema import make_table

ITEMS = 8
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\N{FULLWIDTH EQUALS SIGN}1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Answers that spreadsheets would compute, in the run folder of an audit."""
    made = made_up_run(tmp_path_factory.mktemp("audit") / "made-up", ITEMS)
    items = made.read_table("items").to_pylist()
    for item, text in zip(items, FORMULAS, strict=False):
        item["answer"] = text
    items[-1]["question"] = HOSTILE
    made.write_table("items", make_table("items", items))
    conclude(made)
    verdict = {"corrected": {"made-up": {}}}
    (made.path.parent / "verdict.json").write_text(json.dumps(verdict))
    return made


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_every_leak_with_its_item_and_no_formula(run: Run) -> None:
    table = rows(heldout.export(run, "csv", table="leaks").text)
    read_first = [
        "benchmark_id",
        "question",
        "answer",
        "corpus",
        "leaked",
        "in words",
        "what to do",
    ]
    assert list(table[0])[1:8] == read_first
    assert len(table) == ITEMS
    by_id = {row["benchmark_id"]: row for row in table}
    assert by_id["q0"]["rung"] == "same image" and by_id["q0"]["benchmark"] == "made-up"
    assert by_id["q0"]["leaked"] == "yes" and by_id["q0"]["what to do"].startswith("leave out")
    for number, text in enumerate(FORMULAS):
        assert by_id[f"q{number}"]["answer"] == "'" + text
    assert by_id[f"q{ITEMS - 1}"]["answer"] == str(ITEMS - 1)  # a number is no formula
    assert by_id[f"q{ITEMS - 1}"]["question"] == HOSTILE


def test_csv_is_one_file_per_table_and_matches_carry_the_words_of_both_sides(
    run: Run, tmp_path: Path
) -> None:
    done = heldout.export(run, "csv", out=tmp_path / "tables")
    names = {"claims.csv", "findings.csv", "leaks.csv", "matches.csv"}
    assert {path.name for path in done.written} == names
    matches = rows((tmp_path / "tables/matches.csv").read_text())
    assert len(matches) == ITEMS
    assert matches[0]["corpus_text"] == "a caption" and "evidence" not in matches[0]
    claims = rows((tmp_path / "tables/claims.csv").read_text())
    assert {"confirmed"} <= {row["in words"] for row in claims}
    first = next(row for row in claims if row["status"] == "survives")
    known = {f["id"]: f for f in run.read_json("findings.json")["findings"]}[first["finding"]]
    for name in ("value", "low", "high"):
        assert float(first[name]) == known["effect"][name]
    assert (int(first["n"]), first["unit"]) == (known["n"], known["unit"])
    findings = rows((tmp_path / "tables/findings.csv").read_text())
    assert {row["finding"] for row in findings} >= {first["finding"]}
    assert {row["claim"] for row in findings} >= {first["claim"]}


def test_judgements_are_a_table_with_the_items_they_are_about(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", 4)
    conclude(run)
    with pytest.raises(InputError, match="judgements"):
        heldout.export(run, "csv", table="judgements")
    match = run.read_table("matches").to_pylist()[1]
    subject = match_subject(json.loads(match["evidence"]), match["corpus"], match["corpus_id"])
    append(run.path, Judgement("ada", MATCH, subject, "unrelated", seconds=2.5))
    append(run.path, Judgement("bo", ITEM, "q3", "accept", note="=1", ratings={"clarity": 3}))
    pair, item = rows(heldout.export(run, "csv", table="judgements").text)
    about = [match[name] for name in ("benchmark_id", "corpus", "corpus_id")]
    assert [pair[name] for name in ("benchmark_id", "corpus", "corpus_id")] == about
    assert (pair["kind"], pair["rater"], pair["verdict"]) == ("match", "ada", "unrelated")
    assert float(pair["seconds"]) == 2.5
    assert (item["benchmark_id"], item["ratings"], item["note"]) == ("q3", "clarity 3", "'=1")


def test_excel_keeps_texts_as_texts(run: Run, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("xlsxwriter")
    (path,) = heldout.export(run, "xlsx", out=tmp_path / "run.xlsx").written
    book = openpyxl.load_workbook(path)
    assert book.sheetnames == ["claims", "findings", "leaks", "matches"]
    head, *lines = book["leaks"].iter_rows()
    place = [cell.value for cell in head].index("answer")
    assert [line[place].value for line in lines[:2]] == ["=1+1", "+1"]
    assert {line[place].data_type for line in lines} == {"s"}  # "f" would be a formula


def test_json_and_markdown_hold_the_same_claims(run: Run) -> None:
    record = json.loads(heldout.export(run, "json").text)
    assert record["schema_version"] == 1
    assert list(record) == ["schema_version", "claims", "findings", "leaks", "matches"]
    text = heldout.export(run, "md").text
    assert text.count("\n## ") + text.startswith("## ") == 4
    assert text.count("| made-up |") == sum(len(record[name]) for name in list(record)[1:])
    assert "<img" not in text.replace("\\<img", "")


def test_an_audit_folder_exports_the_tables_of_all_its_benchmarks(run: Run, tmp_path: Path) -> None:
    alone = heldout.export(run, "csv", table="leaks").text
    assert heldout.export(run.path.parent, "csv", table="leaks").text == alone
    audit = tmp_path / "audit"
    shutil.copytree(run.path.parent, audit)
    shutil.copytree(run.path, audit / "other")
    manifest = json.loads((audit / "other/manifest.json").read_text())
    manifest["inputs"]["benchmark"]["name"] = "other"
    (audit / "other/manifest.json").write_text(json.dumps(manifest))
    (audit / "verdict.json").write_text(json.dumps({"corrected": {"made-up": {}, "other": {}}}))
    table = rows(heldout.export(audit, "csv", table="leaks").text)
    assert [row["benchmark"] for row in table] == ["made-up"] * ITEMS + ["other"] * ITEMS
    assert list(heldout.export(audit, "badge").documents) == ["made-up/badge", "other/badge"]


def test_a_table_belongs_to_tables(run: Run) -> None:
    with pytest.raises(InputError, match="^table: .*csv"):
        heldout.export(run, "bibtex", table="leaks")


def test_a_table_that_the_run_lacks_is_refused(run: Run) -> None:
    with pytest.raises(InputError, match="^table texts: .*claims, findings, leaks, matches"):
        heldout.export(run, "csv", table="texts")


def test_the_badge_says_what_was_found_and_is_valid_svg(run: Run) -> None:
    text = heldout.export(run, "badge").text
    words = "".join(ElementTree.fromstring(text).itertext())
    # Half of the made-up matches are copies, in two corpora; the badge names the worst corpus.
    assert "25 %" in words and "leaked" in words
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


@pytest.mark.skipif(pdf.find_browser() is None, reason="no browser to print with")
def test_the_summary_is_one_page(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_more_words(folder: Path, record: Mapping[str, Any]) -> None:
        write_summary(folder, {**record, "footer": record["footer"] * 80})

    monkeypatch.setattr("heldout.report.page.write_summary", with_more_words)
    monkeypatch.setattr("heldout.report._summary_page.SCALES", (1, 0.5))  # two prints will do
    conclude(run, settings=ReportSettings(summary=True))
    page = (run.path / "summary.html").read_text()
    assert "data:image/webp" in page and "<script" not in page
    assert "zoom:" in page  # in full size it would be two
    data = (run.path / "summary.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", data)) == 1


def test_without_a_browser_the_summary_is_there_as_html(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "BROWSERS", ("no-such-browser",))
    made = made_up_run(tmp_path / "run", 4)
    with pytest.raises(PrerequisiteError, match="Chromium or Chrome"):
        conclude(made, settings=ReportSettings(summary=True))
    assert (made.path / "summary.html").exists() and (made.path / "report.html").exists()
    assert not (made.path / "summary.pdf").exists()
