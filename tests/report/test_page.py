from __future__ import annotations

import base64
import gzip
import importlib
import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from made_up_run import made_up_run
from markupsafe import Markup

import heldout
from heldout.audit import audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.evidence import leaks
from heldout.image import ImageRef, InlineBytes
from heldout.report import _gallery
from heldout.report._gallery import PER_PAGE
from heldout.report._reproduce import visible, without_home
from heldout.report.page import _dropped
from heldout.review._matches import Choice, match_cards
from heldout.store import Run, make_table

Picture = Callable[..., bytes]


def page(tmp_path: Path, picture: Picture, count: int, answered: int, corpus: str = "c") -> str:
    """The report on a benchmark of ``count`` leaked pictures, ``answered`` of them with answers."""
    examples = []
    (tmp_path / "c").mkdir()
    for number in range(count):
        data = picture(number, size=(12, 9))
        (tmp_path / f"c/{number:03d}.png").write_bytes(data)
        text = {"question": "Is it big?", "answer": "yes"} if number >= count - answered else {}
        (tmp_path / f"c/{number:03d}.json").write_text(json.dumps(text))
        ref = ImageRef(f"{number}.png", InlineBytes(data, str(number)))
        examples.append(Example(str(number), (ref,), "Is it big?", answer="yes"))
    with LocalEngine(1) as engine:
        found = audit_overlap(
            Benchmark("b", tuple(examples)),
            [open_corpus(tmp_path / "c", name=corpus)],
            Run.create(tmp_path / "run", command=["heldout", "overlap", "it's here"]),
            engine,
            text=False,
            quiet=True,
        )
    return found.report.read_text()


def blocks(html: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/gzip" id="gallery-\d+">(.*?)</script>', html)
    return [json.loads(gzip.decompress(base64.b64decode(one))) for one in found]


def test_the_page_shows_pairs_the_gravest_first(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 5, 2)
    assert "Is “b” " in html
    assert '<span class="answer">No.</span>' in html
    shown = html.partition('id="gallery-index"')[0]
    assert shown.count('<article class="pair') == 5
    assert shown.count("data:image/webp;base64,") == 5  # both sides are the same file: kept once
    assert shown.index("image, question and answer</span>") < shown.index("image only</span>")
    assert "heldout overlap &#39;it&#39;" in html  # the command, quoted for a shell and for HTML


def test_the_first_screen_says_what_leaked_into_what_how_sure_and_what_to_do(
    tmp_path: Path, picture: Picture, wording: Callable[..., None]
) -> None:
    html = page(tmp_path, picture, 5, 2)
    above = unescape(html.partition("</head>")[2].partition('<section id="gallery">')[0])
    first = " ".join(re.sub(r"<[^>]+>", " ", above).split())
    lines = [" ".join(line.split()) for line in re.sub(r"<[^>]+>", "\n", above).splitlines()]
    shown = "\n".join(line for line in lines if line).replace(str(tmp_path), "TMP")
    shown = shown.replace(without_home(str(tmp_path)), "TMP")
    wording(re.sub(r"revision\n\w{12}", "revision …", shown))
    assert "5 of 5 items leaked" in first and "2 of them with" in first
    assert "100.0 % of the items" in first and "Use new items" in first
    assert "corpus c confirmed (survives) 5 of 5" in first
    assert first.count("evidence and controls") == 1  # one claim, and it is linked to
    (link,) = re.findall(r'<a href="#(claim-[^"]+)">evidence', html)
    assert f'id="{link}"' in html


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 2, 0)
    outside = html.replace("http://www.w3.org/2000/svg", "")  # the name of a language, not a place
    assert "http://" not in outside and "https://" not in outside
    assert "default-src 'none'" in html
    programs = re.findall(r"<script>", html)
    assert len(programs) == html.count("sha256-") == 5  # and the policy lets no other run


def test_a_single_pair_needs_no_gallery_script(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 1, 0)
    assert "pages and filters" not in html
    # Blocks, the table of items, copy buttons.
    assert html.count("<script>") == html.count("sha256-") == 4
    assert html.count('<article class="pair') == 1


def test_a_large_gallery_is_paged_and_every_pair_is_in_a_block(
    tmp_path: Path, picture: Picture
) -> None:
    html = page(tmp_path, picture, PER_PAGE + 7, 0)
    shown = html.partition('id="gallery-index"')[0]
    assert shown.count('<article class="pair') == PER_PAGE
    assert f"The first {PER_PAGE} of {PER_PAGE + 7}" in shown  # for readers without scripts
    found = blocks(html)
    assert [len(one["cards"]) for one in found] == [PER_PAGE, 7]
    assert [len(one["pictures"]) for one in found] == [PER_PAGE, 7]
    index = json.loads(re.findall(r'id="gallery-index">(.*?)</script>', html)[0])
    assert len(index["rows"]) == PER_PAGE + 7
    for number, one in enumerate(found):  # a card's pictures are where their names say
        assert all(name.startswith(f"p{number}-") for name in one["pictures"])
        for name in re.findall(r'href="#(p\d+-\d+)"', "".join(one["cards"])):
            assert name in found[int(name[1:].split("-")[0])]["pictures"]
            assert int(name[1:].split("-")[0]) <= number


def test_hostile_names_cannot_end_a_block(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 3, 0, corpus="</script><script>alert(1)</script><!--")
    assert "alert(1)</script>" not in html
    assert "&lt;/script&gt;" in html
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in blocks(html)[0]["cards"][0]


def test_what_a_browser_would_obey_or_hide_is_shown() -> None:
    hostile = "a\x00b\x1b[31m\u202egnp.exe\u200b\n\ttail"
    assert visible(hostile) == "a␀b␛[31m[U+202E]gnp.exe[U+200B]\n\ttail"
    assert visible(Markup("\u202e<b>")) == "\u202e<b>" and visible(7) == 7


def test_corpus_items_with_one_picture_are_one_pair(tmp_path: Path, picture: Picture) -> None:
    data = picture(1, size=(12, 9))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/a.png").write_bytes(data)
    for number, answer in enumerate(("no", "yes", "no")):
        (tmp_path / f"c/{number}.png").write_bytes(data)
        told = {"question": "Is it big?", "answer": answer}
        (tmp_path / f"c/{number}.json").write_text(json.dumps(told))
    ref = ImageRef("1.png", InlineBytes(data, "1"))
    asked = [
        Example("big", (ref,), "Is it big?", answer="yes"),
        Example("red", (ref,), "Is it red?", answer="no"),
    ]
    with LocalEngine(1) as engine:
        found = audit_overlap(
            Benchmark("b", tuple(asked)),
            [open_corpus(tmp_path / "c", name="c")],
            Run.create(tmp_path / "run", command=["test"]),
            engine,
            text=False,
            quiet=True,
        )
    html = found.report.read_text()
    assert html.count('<article class="pair') == 1
    assert "and 3 more</p>" in html
    # Each question once, as it leaked worst; the corpus' own words stand apart.
    assert html.count('<p class="asked">Is it big? <strong>yes</strong>') == 1
    assert html.count('<span class="error">leaked</span>') == 1


def test_pairs_show_questions_that_leaked_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matches of pictures know equal words alone; the page has one count of items that leaked with their answer."""
    run = made_up_run(tmp_path / "run", 8)
    known = leaks(run)
    copies = ["q0", "q4"]  # the same image, both of them
    reworded = pl.col("benchmark_id").is_in(copies)
    joined = known.with_columns(
        pl.when(reworded).then(pl.lit("full")).otherwise("modality").alias("modality"),
        pl.when(reworded).then(pl.lit("same")).otherwise("label_relation").alias("label_relation"),
    )
    where = importlib.import_module(
        "heldout.evidence.leaks"
    )  # the package's name for it is the function
    monkeypatch.setattr(where, "leaks", lambda _: joined)
    pairs, _ = _gallery.gravest_pairs(run)
    assert sorted(pair["items"][0] for pair in pairs if pair["full"]) == copies
    assert [pair["label"] for pair in pairs if pair["full"]] == ["same label"] * 2
    assert sum(record["leaked"] for pair in pairs for record in pair["questions"]) == 2
    cards, _ = match_cards(run, Choice(99))
    told = [card.content["query"]["questions"] for card in cards if "full" in card.hint["modality"]]
    assert sorted(questions[0]["id"] for questions in told) == copies  # the desk says the same
    # Equal words, which can be seen at a glance, come first.
    matches = run.read_table("matches").to_pylist()
    for row in matches:
        row["modality"] = "full" if row["benchmark_id"] == copies[1] else row["modality"]
    run.write_table("matches", make_table("matches", matches))
    pairs, _ = _gallery.gravest_pairs(run)
    assert [pair["items"][0] for pair in pairs][:2] == [copies[1], copies[0]]


def test_items_without_text_are_counted_and_not_the_pieces_that_hold_them(tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", 2)
    dropped = {"stage": "text", "reason": "no text"}
    rows = [{**dropped, "id": f"{n}", "detail": "30 of 30"} for n in range(2)]
    run.write_table("dropped", make_table("dropped", rows))
    run.update("text", {"web": {"counts": {"text_wordless": 60}}})
    assert [(row["reason"], row["count"]) for row in _dropped(run)] == [("no text", 60)]


def test_the_row_of_proven_leaks_does_not_read_as_nothing_found(tmp_path: Path) -> None:
    questions = (
        "Which artery is occluded in the angiogram of the left coronary system?",
        "How many fractured ribs does the oblique projection of the thorax show?",
        "What kind of suture closes the wound along the patient's forearm?",
        "Where does the catheter end that enters through the jugular vein?",
    )
    asked = [{"question": question, "answer": "left one"} for question in questions]
    for name, rows in (("bench", asked), ("web", [{"text": row["question"]} for row in asked[:3]])):
        lines = "".join(json.dumps({"id": str(k), **row}) + "\n" for k, row in enumerate(rows))
        (tmp_path / f"{name}.jsonl").write_text(lines)
    out = tmp_path / "run"
    heldout.overlap(
        tmp_path / "bench.jsonl",
        against=tmp_path / "web.jsonl",
        run=out,
        text_encoder="none",
        quiet=True,
    )
    page = (out / "report.html").read_text()
    (row,) = re.findall(r"with a proven leak[^<]*</td><td class=.n.>(\d+)</td>", page)
    assert (row, '<th class="n">found</th>' in page) == ("0", True)
    assert re.search(r"<dt>(\d) of 4</dt>", page)[1] == "3"  # tile
    assert f"heldout review {out} --kind texts" in unescape(page)
