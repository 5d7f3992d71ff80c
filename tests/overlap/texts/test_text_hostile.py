"""Text nobody wrote for us: missing, endless, invisible, in every script, in markup, not even JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from text_corpus import LONG, bench, corpus, found, ids, matches, scan_all

from heldout.corpus import open_corpus
from heldout.overlap.texts._fields import LONGEST_TEXT
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.scan import scan_text_shard

ARABIC = "ما هي البنية الوعائية الأكثر احتمالا للتأثر في هذا المريض المصاب باحتشاء حاد في الدماغ؟"
HEBREW = "איזה מבנה כלי דם נפגע ככל הנראה אצל החולה עם האוטם החריף המוצג בתמונה הזאת כאן?"
CHINESE = "这张图像中最可能受到影响的血管结构是哪一个，请从下面的选项中选择？"


def test_a_line_that_is_not_json_is_dropped_and_the_next_one_read(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "What?"}, "this is { not JSON", {"id": "b", "question": LONG}]
    result = scan_all(bench({"question": LONG}), corpus(tmp_path, *rows))
    assert ids(matches(result, "exact")) == {"b"}
    assert (
        result.counts["text_lost_items"] == 1
    )  # listed by the scan of pictures, which reads it, too


def test_missing_text_is_counted_on_both_sides(tmp_path: Path) -> None:
    benchmark = bench({"question": LONG}, {"question": None, "answer": None}, {"question": " "})
    index, dropped = build_text_index(benchmark)
    assert [(d.id, d.reason) for d in dropped] == [("1", "no text"), ("2", "no text")]
    source = corpus(
        tmp_path, {"id": "a", "question": LONG}, {"id": "b", "question": None}, {"id": "c"}
    )
    (shard,) = source.shards()
    result = scan_text_shard(index, source, shard)
    assert ids(matches(result)) == {"a"}
    assert result.counts["text_wordless"] == 2
    assert "2 of 3 items have no text" in {
        r["detail"] for r in result.tables["dropped"].to_pylist()
    }


def test_a_megabyte_of_question_is_read_to_its_end(tmp_path: Path) -> None:
    draw = random.Random(0)
    filler = " ".join("".join(draw.choices("abcdefghij", k=7)) for _ in range(120_000))
    assert 900_000 < len(filler) < LONGEST_TEXT
    rows = [
        {"id": "huge", "question": f"{filler} {LONG}"},
        {"id": "word", "question": "x" * 900_000},
    ]
    result = scan_all(bench({"question": LONG}, {"question": filler}), corpus(tmp_path, *rows))
    assert ("0", "huge", "contained", "hard") in found(result, "ngram")
    assert ("1", "huge", "contained", "hard") in found(result, "ngram")


@pytest.mark.parametrize("field", ["question", "text"])
def test_a_book_is_read_in_pieces_to_its_end(tmp_path: Path, field: str) -> None:
    words = "word " * (LONGEST_TEXT // 2) + f"\n\nQuestion: {LONG}\nAnswer: the left lung\n\n"
    row = {"id": "x", field: words + "word " * 10}
    result = scan_all(bench({"question": LONG, "answer": "the left lung"}), corpus(tmp_path, row))
    assert result.tables["dropped"].to_pylist() == []
    assert ids(matches(result)) == {"x"}
    assert {row["pairs"] for row in result.tables["text_queries"].to_pylist()} == {1}


def test_a_benchmark_of_longer_texts_is_cut_with_a_reason() -> None:
    _, dropped = build_text_index(bench({"question": "word " * (LONGEST_TEXT // 4)}))
    assert "text cut" in {d.reason for d in dropped}


def test_control_and_invisible_characters_hide_nothing(tmp_path: Path) -> None:
    hidden = "\u200b".join(LONG).replace(" ", " \x00\x1e\u202e ")
    result = scan_all(bench({"question": LONG}), corpus(tmp_path, {"id": "x", "question": hidden}))
    assert ids(matches(result, "exact")) == {"x"}


def test_lone_surrogates_break_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": "x", "question": "\ud800 " + LONG}) + "\n")
    source = open_corpus(path)
    result = scan_all(bench({"question": LONG + " \udfff"}), source)
    assert ids(matches(result, "ngram")) == {"x"}


@pytest.mark.parametrize("question", [ARABIC, HEBREW, CHINESE], ids=["arabic", "hebrew", "chinese"])
def test_every_script_is_found_whole_and_inside_a_page(tmp_path: Path, question: str) -> None:
    rows = [
        {"id": "same", "question": f"\u200f{question}\u200e"},
        {"id": "page", "text": f"{question[5:15]} 。 {question} 。 {question[:9]}"},
        {"id": "part", "question": question[: len(question) // 4]},
    ]
    for row in rows:  # a table with questions reads its text column only where there is none
        row.setdefault("question", "")
    result = scan_all(bench({"question": question}), corpus(tmp_path, *rows))
    assert ids(matches(result, "exact")) == {"same"}
    assert ids(matches(result, "ngram")) == {"same", "page"}


def test_html_around_and_inside_a_question_is_no_difference(tmp_path: Path) -> None:
    marked = "<div class='q'><b>" + LONG.replace(" ", "</b>&nbsp;<b>") + "</b></div><!-- x -->"
    result = scan_all(bench({"question": LONG}), corpus(tmp_path, {"id": "x", "question": marked}))
    assert ids(matches(result, "exact")) == {"x"}


def test_a_corpus_that_only_repeats_a_common_question_lists_few_rows(tmp_path: Path) -> None:
    """300 items × 300 documents are 90,000 pairs: all counted, few listed."""
    items = [
        {"question": "Is the lung healthy?", "answer": "yes", "cluster": str(k)} for k in range(300)
    ]
    rows = [{"id": f"d{k}", "question": "Is the lung healthy?", "answer": "no"} for k in range(300)]
    result = scan_all(bench(*items), corpus(tmp_path, *rows))
    queries = [q for q in result.tables["text_queries"].to_pylist() if q["method"] == "exact"]
    assert sum(query["pairs"] for query in queries) == 90_000
    assert len(matches(result, "exact")) == 300 * 3


@pytest.mark.parametrize(
    "unit", ["<", "<a", "&", "&#", "(", "1.", "a ", "10.1234/", "http://", "<!--"]
)
def test_no_pattern_blows_up(tmp_path: Path, unit: str) -> None:
    """The suite's time limit is the assertion: a quadratic pattern would take hours here."""
    row = {"id": "x", "question": (unit * 400_000)[:400_000]}
    search = TextSearch(methods=("provenance", "exact", "ngram", "edit"))
    benchmark = bench({"question": LONG, "metadata": {"doi": "10.7554/eLife.30274"}})
    assert scan_all(benchmark, corpus(tmp_path, row), search).counts["text_items"] == 1


@pytest.mark.parametrize(
    "answer",
    [
        "<i>cyst</i>",
        "5 &lt; 6",
        "T<sub>2</sub>",
        "\u200fالكبد",
        "a\x00b",
        "fi\ufb01ne",
        "  Left  LUNG. ",
    ],
)
def test_an_item_against_itself_is_the_same_item_whatever_its_answer(
    tmp_path: Path, answer: str
) -> None:
    row = {"question": LONG, "answer": answer}
    result = scan_all(bench(row), corpus(tmp_path, {"id": "a", **row}))
    assert ("0", "a", "same item", "hard") in found(result, "exact")


def test_numbers_inside_tags_are_not_numbers_of_the_text(tmp_path: Path) -> None:
    question = f"<script>alert(1)</script><img src=x onerror=alert(2)> {LONG}"
    row = {"question": question, "answer": "left"}
    result = scan_all(bench(row), corpus(tmp_path, {"id": "a", **row}))
    assert ("0", "a", "same item", "hard") in found(result, "exact")
