"""The page of a whole audit: one grid, and a way to every benchmark's own page."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.errors import InputError
from heldout.report import write_audit_report
from heldout.report._reproduce import without_home


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_audit_has_one_page_with_a_grid_over_all_benchmarks(finished: Path) -> None:
    output = finished / "out"
    html = (output / "report.html").read_text()
    told = words(html)
    assert "these 2 benchmarks" in told and '<span class="answer">Not all.</span>' in html
    assert "20 of 40 items of leaky" in told and "50.0 % of the items" in told
    assert "confirmed (survives) 20 of 40" in told
    for name in ("leaky", "fresh"):
        assert (output / name / "report.html").exists()
        assert f'href="{name}/report.html"' in html
        assert "../report.html" in (output / name / "report.html").read_text()
    verdict = json.loads((output / "verdict.json").read_text())
    for model in {cell["model"] for cell in verdict["cells"]} - {None}:
        assert (model in told) == (" & " not in model)


def test_links_to_claims_lead_somewhere(finished: Path) -> None:
    output = finished / "out"
    links = re.findall(r'href="(\w+)/report.html#([^"]+)"', (output / "report.html").read_text())
    assert len(links) >= 4
    for name, place in links:
        assert f'id="{place}"' in (output / name / "report.html").read_text()


def test_the_score_says_what_it_owes(finished: Path) -> None:
    told = words((finished / "out/report.html").read_text())
    assert re.search(r"\+\d+\.\d points .* on leaky scores \d+\.\d % with leaked items", told)
    alone = words((finished / "out/leaky/report.html").read_text())
    assert "leaked items are easier" in alone


def test_the_page_is_made_again_from_the_verdict_alone(
    finished: Path, finished_folder: Path
) -> None:
    output = finished_folder / "out"
    # Its commands name the folder in which it lies now, from the home folder on where it lies there.
    before = (output / "report.html").read_text()
    for shown in (str, without_home):
        before = before.replace(shown(f"{finished}/out"), shown(str(output)))
    (output / "report.html").unlink()
    assert write_audit_report(output).read_text() == before
    (output / "verdict.json").unlink()
    with pytest.raises(InputError, match=r"verdict\.json .*audit"):
        write_audit_report(output)


def test_a_benchmark_that_is_no_longer_named_leaves_the_page(finished_folder: Path) -> None:
    path = finished_folder / "audit.yaml"
    path.write_text(
        "benchmarks: [{name: leaky, source: leaky/test.jsonl}]\n"
        "corpora: [{name: web, source: web}]\n"
        "search: {exact: true, text: true, workers: 1}\noutput: out\n"
    )
    run_audit(read_audit(path), quiet=True)
    html = (finished_folder / "out/report.html").read_text()
    assert (finished_folder / "out/fresh").exists()
    assert "leaky" in html
    assert "fresh" not in html
