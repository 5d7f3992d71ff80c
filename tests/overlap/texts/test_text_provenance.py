"""Ids on both sides: PMC ids, DOIs, URLs, telling file names."""

from __future__ import annotations

from pathlib import Path

import pytest
from text_corpus import bench, corpus, ids, matches, scan_all

from heldout.image import ImageRef
from heldout.image.location import Nowhere
from heldout.overlap.texts._fields import TextSource, file_source, sources_in
from heldout.overlap.texts.index import build_text_index


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("see PMC1234567.", TextSource("pmc", "1234567")),
        ("pmc_0123456 figure 2", TextSource("pmc", "123456")),
        ("doi:10.1371/journal.pone.0091296.", TextSource("doi", "10.1371/journal.pone.0091296")),
        ("https://doi.org/10.7554/eLife.30274", TextSource("doi", "10.7554/elife.30274")),
        ("(https://www.Example.org/a/B1.html#top)", TextSource("url", "example.org/a/B1.html")),
        ("https://a.org/b/?utm_source=x&utm_medium=y", TextSource("url", "a.org/b")),
        ("https://a.org/b?utm_source=x&gclid=z&id=3", TextSource("url", "a.org/b?id=3")),
    ],
)
def test_ids_are_found_in_running_text(text: str, source: TextSource) -> None:
    assert source in set(sources_in(text))


def test_a_host_alone_and_a_running_number_identify_nothing() -> None:
    assert list(sources_in("https://example.org")) == []
    for name in ("image12.jpg", "source.jpg", "000012345.jpg"):
        assert file_source(name) is None
    assert file_source("x/synpic54610.jpg") == TextSource("file", "synpic54610")


def test_items_and_documents_meet_by_their_ids(tmp_path: Path) -> None:
    picture = ImageRef("synpic54610.jpg", Nowhere("missing image", "not here"))
    benchmark = bench(
        {"question": "What?", "images": (picture,), "metadata": {"pmcid": "7654321"}},
        {"question": "Why?", "metadata": {"link": "https://doi.org/10.7554/eLife.30274"}},
    )
    rows = [
        {"id": "article", "text": "As shown in PMC7654321, nothing happened."},
        {"id": "paper", "text": "Reference: doi 10.7554/ELIFE.30274"},
        {"id": "other", "text": "As shown in PMC7654322."},
    ]
    result = scan_all(benchmark, corpus(tmp_path, *rows))
    found = matches(result, "provenance")
    assert {(m["benchmark_id"], m["corpus_id"], m["field"]) for m in found} == {
        ("0", "article", "pmc"),
        ("1", "paper", "doi"),
    }
    assert {m["degree"] for m in found} == {"soft"}


def test_an_id_that_much_of_the_benchmark_carries_is_left_out_with_a_reason(tmp_path: Path) -> None:
    licence = {"licence": "https://creativecommons.org/licenses/by/4.0"}
    benchmark = bench(*({"question": f"What {k}?", "metadata": licence} for k in range(40)))
    _, dropped = build_text_index(benchmark)
    assert ("creativecommons.org/licenses/by/4.0", "shared source") in {
        (d.id, d.reason) for d in dropped
    }
    row = {"id": "x", "text": "See https://creativecommons.org/licenses/by/4.0"}
    assert ids(matches(scan_all(benchmark, corpus(tmp_path, row)), "provenance")) == set()
