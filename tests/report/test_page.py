from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from markupsafe import Markup

from heldout.audit import audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.image import ImageRef, InlineBytes
from heldout.report.gallery import SHOWN
from heldout.report.visible import visible
from heldout.store import Run

Picture = Callable[..., bytes]


def page(tmp_path: Path, picture: Picture, count: int, answered: int) -> str:
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
            [open_corpus(tmp_path / "c", name="c")],
            Run.create(tmp_path / "run", command=["heldout", "overlap", "it's here"]),
            engine,
            quiet=True,
        )
    return found.report.read_text()


def test_the_page_shows_pairs_the_gravest_first(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 5, 2)
    assert "Is “b” still held out?" in html
    assert '<span class="answer">No.</span>' in html
    assert html.count('class="pair"') == 5
    assert html.count("data:image/webp;base64,") == 10
    assert html.index("image, question and answer") < html.index('<span class="tag ">image only')
    assert "heldout overlap &#39;it&#39;" in html  # the command, quoted for a shell and for HTML


def test_the_page_is_one_file_that_loads_nothing(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, 2, 0)
    assert "<script" not in html
    assert "http://" not in html
    assert "https://" not in html


def test_a_large_gallery_is_cut_and_says_so(tmp_path: Path, picture: Picture) -> None:
    html = page(tmp_path, picture, SHOWN + 7, 0)
    assert html.count('class="pair"') == SHOWN
    assert f"The {SHOWN} gravest of {SHOWN + 7} pairs" in html


def test_what_a_browser_would_obey_or_hide_is_shown() -> None:
    hostile = "a\x00b\x1b[31m\u202egnp.exe\u200b\n\ttail"
    assert visible(hostile) == "a␀b␛[31m[U+202E]gnp.exe[U+200B]\n\ttail"
    assert visible(Markup("\u202e<b>")) == "\u202e<b>" and visible(7) == 7
