"""The verb from Python, its page and card, and people who rate its items."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from made_items import figure, item, write_run
from typer.testing import CliRunner

import heldout
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.report.synthesis import read_facts
from heldout.report.synthesis_page import hub_licence, read_samples
from heldout.review.desk import item_tables, open_desks
from heldout.scenes import write_benchmark
from heldout.store import Run
from heldout.synth import Synthesis
from heldout.synth.planting import NOTHING, STAGES, read_planted
from heldout.synth.rubric import CRITERIA

AGREEMENT = ("neither", "code_alone", "verifier_alone", "both")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Forty rendered figures, faults planted in half of the items, against a benchmark of four pictures."""
    folder = tmp_path_factory.mktemp("page")
    write_benchmark(folder / "bench", images=4, seed=5)
    return heldout.synth(
        source="scenes",
        plant=0.5,
        limit=40,
        against=(str(folder / "bench/test.jsonl"),),
        image_encoder=None,
        subsets=(5, 10),
        name="rendered & fresh <b>",
        out=folder / "run",
        quiet=True,
        workers=1,
    )


def test_the_package_is_the_verb(made: Synthesis) -> None:
    assert isinstance(made, Synthesis) and callable(heldout.synth)
    assert "<table>" in made._repr_html_()
    assert made.verdicts.height == 40 and made.items.height == made.funnel.steps[-1].left
    pandas = pytest.importorskip("pandas")
    assert isinstance(made.items.to_pandas(), pandas.DataFrame)


def test_the_page_shows_funnel_rubric_overlap_and_items(made: Synthesis) -> None:
    page = (made.run.path / "report.html").read_text()
    for place in ("funnel", "rubric", "content", "overlap", "items", "method"):
        assert f'<section id="{place}">' in page
    assert "<b>" not in page and "&lt;b&gt;" in page  # the name is somebody's text
    assert page.count("data:image/webp") >= 8
    assert not re.search(r"(?:src|href)=.?https?:", page)
    for path in (made.run.path / "figures").glob("*.svg"):
        ElementTree.fromstring(path.read_text())
    names = {path.stem for path in (made.run.path / "figures").glob("*.svg")}
    assert {"funnel", "rubric", "answer-label"} <= names
    assert "modality" not in names and "Modality: rendered scene" in page


def test_a_run_that_accepts_nothing_shows_where_all_was_dropped(tmp_path: Path) -> None:
    write_benchmark(tmp_path / "bench", images=1, seed=5)
    command = [
        "synth",
        "--from",
        "scenes",
        "--plant",
        "1",
        "--limit",
        "5",
        "--out",
        str(tmp_path / "run"),
        "--against",
        str(tmp_path / "bench/test.jsonl"),
        "--image-encoder",
        "none",
        "--workers",
        "1",
    ]
    for _ in range(2):  # the second time nothing is done again
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 1, done.output
        assert "item is left" in done.stderr
        assert "publish" in done.stdout and "essentials" in done.stdout
    assert "nothing published yet" in (tmp_path / "run/report.html").read_text()
    assert not (tmp_path / "run/synth/dataset").exists()


def test_facts_agree_with_the_tables(made: Synthesis) -> None:
    facts = read_facts(made.run)
    assert facts.published == made.items.height
    rejected = made.verdicts.filter(~made.verdicts["accepted"]).height
    assert sum(row["count"] for row in facts.reasons if row["stage"] == "verify") == rejected
    for one in facts.criteria:
        assert one.graded == 40 and one.interval is not None
        assert one.interval[0] <= one.met <= one.interval[1]
        seen = one.seen_by
        assert seen is None or sum(seen[k] for k in AGREEMENT) == one.graded
    # The verifier does not count words.
    assert sum(one.seen_by["code_alone"] for one in facts.criteria if one.seen_by) > 0
    assert sum(facts.letters["as written"].values()) == 40
    (report,) = facts.contamination
    assert report["items_before_removal"] == made.frame("balance").height
    for row in report["rows"]:
        assert row["of_items"] == report["items"] == facts.published
        assert row["items"]["hits"] <= row["items_before"]["hits"] <= row["of_items_before"]
        assert row["published"]["hits"] <= row["before"]["hits"] <= row["of"]
    # Funnel, table of reasons and rejected samples name a reason alike.
    told = {row["reason"] for row in facts.reasons}
    assert {why for step in facts.steps for why, _ in step.lost} == told
    assert {one.why.partition(" (")[0] for one in read_samples(made.run) if one.why} <= told
    assert any(text.startswith("not met: ") for text in told)
    tabled = set(made.dropped["reason"])
    assert {why for step in made.funnel.steps for why in step.reasons} == tabled


def test_planted_faults_are_counted_by_the_stage_that_caught_them(made: Synthesis) -> None:
    found = {one.planted: one for one in read_facts(made.run).recall}
    planted = read_planted(made.run.path)
    assert sum(one.items for one in found.values()) == 40
    assert sum(one.items for name, one in found.items() if name != NOTHING) == len(planted)
    removed = made.frame("decontaminate").filter(pl.col("removed")).height
    caught = {stage: sum(one.at(stage) for one in found.values()) for stage in STAGES}
    assert caught["verify"] == made.verdicts.filter(~pl.col("accepted")).height
    assert caught["decontaminate"] == removed
    for one in found.values():
        assert one.low <= one.caught / one.items <= one.high and one.missed >= 0
    assert found[NOTHING].sound and found[NOTHING].at("verify") == 0
    page = (made.run.path / "report.html").read_text()
    table = page.partition('<section id="planted">')[2].partition("</section>")[0]
    assert table.count("<tr") == len(found) + 1
    assert "planted on purpose" in (made.run.path / "synth/dataset/README.md").read_text()


def test_the_card_says_only_what_was_done(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    """One article, no shortcut model, one item."""
    path = tmp_path / "run"
    one = figure(path, "PMC1/f", [picture(1, (40, 30))])
    options = ("liver", "spleen", "kidney", "heart", "lung")
    write_run(path, [(item("PMC1/f", "Which organ is it?", options), one)])
    heldout.synth(source="made", stages=("balance", "publish"), out=path, quiet=True)
    facts = read_facts(Run.open(path))
    assert not facts.asked_blind and not facts.recall
    assert all(one.interval is None for one in facts.criteria)
    card = (path / "synth/dataset/README.md").read_text()
    page = (path / "report.html").read_text()
    assert "1 source," in card and "1 sources" not in card + page
    assert "probe" not in card.lower() and "nested" not in card + page
    assert "No intervals" in page and "no intervals" in card
    assert "[" not in card.partition("## Checks")[2].partition("## Overlap")[0].replace("[95 %", "")
    assert "`provenance.json`" in card and "by made: 1 item." in card


def test_the_card_has_front_matter_and_its_figures(made: Synthesis) -> None:
    dataset = made.run.path / "synth/dataset"
    card = (dataset / "README.md").read_text()
    _, front, body = card.split("---\n", 2)
    assert (
        "license: cc0-1.0" in front and "- n<1K" in front and "path: data/train-*.parquet" in front
    )
    assert 'pretty_name: "rendered & fresh <b>"' in front
    for name in re.findall(r"!\[.*?\]\((\S+?)\)", body):
        assert (dataset / name).is_file(), name
    assert "<b>" not in body and "| CC0 | " in body
    for criterion in CRITERIA:  # a row each
        assert f"\n| {criterion.title} | " in body
    assert str(made.run.path) not in card
    (report,) = read_facts(made.run).contamination
    assert (
        report["words"] in body and report["words"] in (made.run.path / "report.html").read_text()
    )
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(
        str(dataset), split="train[:5]", cache_dir=str(dataset.parent / "c")
    )
    assert loaded.num_rows == 5


@pytest.mark.parametrize(
    ("licences", "name"),
    [
        ({"CC BY 4.0": 3}, "cc-by-4.0"),
        ({"CC BY-NC-SA 3.0": 1}, "cc-by-nc-sa-3.0"),
        ({"CC0": 2, "CC BY 4.0": 3}, "other"),
        ({"unknown": 2}, "other"),
    ],
)
def test_the_hub_knows_licences_by_other_names(licences: dict[str, int], name: str) -> None:
    assert hub_licence(licences) == name


def test_report_rebuilds_the_page(made: Synthesis) -> None:
    page = made.run.path / "report.html"
    before = page.read_text()
    page.unlink()
    done = CliRunner().invoke(app, ["report", str(made.run.path), "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["report"] == str(page)
    assert page.read_text() == before


def test_a_run_that_published_nothing_has_a_page(tmp_path: Path) -> None:
    run = tmp_path / "run"
    heldout.synth(source="scenes", limit=3, stages=("ingest", "select"), out=run, quiet=True)
    assert "nothing published yet" in (run / "report.html").read_text()
    with pytest.raises(InputError, match=r"tables/items\.parquet"):
        open_desks(str(run), kind="items", rater="ada")


def test_people_rate_accepted_and_rejected_items(made: Synthesis, tmp_path: Path) -> None:
    (desk,) = open_desks(str(made.run.path), kind="items", rater="ada")
    assert desk.kind == "items" and len(desk.cards) == 40
    assert [card.hint["accepted"] for card in desk.cards[:4]] == [True, False, True, False]
    card = desk.card(1)
    assert card["content"]["metadata"]["caption"] and card["pictures"] and card["hint"]["rubric"]
    assert desk.cards[1].pictures["image 1"].show().origin == "full"
    ratings = {"correctness": 4, "clarity": 3, "grounding": 4, "options": 3}
    rejected = [place for place, one in enumerate(desk.cards) if not one.hint["accepted"]][:6]
    for place in rejected:
        desk.judge(place, "reject" if place != rejected[0] else "accept", ratings=ratings)
    desk.judge(0, "accept", ratings=ratings)
    tables = {table.title: table for table in desk.tables()}
    quality = {row[0]: row for row in tables["Quality as people see it"].rows}
    assert quality["verifier-accepted"][1] == "1" and quality["verifier-rejected"][1] == "6"
    gates = tables["Disputed gates"]
    judged = sum(
        int(cell.split(" of ")[1]) for row in gates.rows for cell in row[1:] if " of " in cell
    )
    failed = sum(len(desk.cards[place].hint["failed"]) for place in rejected)
    assert judged == failed > 0
    run = Run.open(made.run.path)
    assert [table.title for table in item_tables(run)] == list(tables)
    CliRunner().invoke(app, ["report", str(run.path)])
    assert '<section id="people">' in (run.path / "report.html").read_text()


def test_a_blinded_rater_sees_no_opinion(made: Synthesis) -> None:
    (desk,) = open_desks(str(made.run.path), kind="items", rater="bob", blind=True)
    shown = json.dumps(desk.card(0)["content"]) + json.dumps(desk.card(0)["hint"])
    assert "rubric" not in shown and "accepted" not in shown
