"""Decontaminate: copies of a benchmark go, in whatever form, and near misses stay."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from made_items import figure, five, item, png, write_run
from PIL import Image

from heldout.errors import InputError
from heldout.report.synthesis import read_facts
from heldout.scenes import SCENES, render
from heldout.store import Run
from heldout.synth import Draft, PaperFigure, Synthesis, synth
from heldout.synth.decontaminate import NEAR_MISS, STOCK, article_ids
from heldout.synth.planting import (
    CROPPED,
    ELSEWHERE,
    ONE_CHANGED,
    PANEL,
    RECODED,
    RESIZED,
    copied,
    near_miss,
)

pytest.importorskip("cv2", reason="registration needs OpenCV")

ORGANS = ("hepatic flexure", "splenic flexure", "caecum", "rectum", "sigmoid colon")
QUESTION = (
    "Which segment of the large bowel shows the circumferential wall thickening with luminal "
    "narrowing that explains the proximal dilatation?"
)
REWORDED = (
    "Circumferential wall thickening with luminal narrowing explains the proximal dilatation in "
    "which segment of the large bowel?"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    folder = tmp_path_factory.mktemp("clean")
    rng = np.random.default_rng(3)
    scenes = [SCENES.draw(np.random.default_rng((8, number))) for number in range(6)]
    pictures = [render(scene, 224) for scene in scenes]
    _write_benchmark(folder / "bench", pictures)
    others = [render(SCENES.draw(np.random.default_rng((9, n))), 224) for n in range(15)]
    drawn: dict[str, Image.Image] = {
        "resized": copied(RESIZED, pictures[0], rng, ()),
        "cropped": copied(CROPPED, pictures[1], rng, ()),
        "recoded": copied(RECODED, pictures[2], rng, ()),
        "panel": copied(PANEL, pictures[3], rng, others[:3]),
        "near-miss": render(near_miss(ELSEWHERE, scenes[4], rng), 224),
        "second-image": pictures[5],
        "same-words": others[4],
        "reworded": others[5],
        "other-answer": others[6],
        "stock": others[7],
        "same-article": others[8],
        "fresh": others[9],
        "short": others[10],
        "beneath": others[11],
        "common": others[12],
        "one-changed": render(near_miss(ONE_CHANGED, scenes[4], rng), 224),
        "changed-and-asked": render(near_miss(ONE_CHANGED, scenes[5], rng), 224),
    }
    path = folder / "run"
    items: list[tuple[Draft, PaperFigure]] = []
    for number, (name, picture) in enumerate(drawn.items()):
        first = [png(others[3])] if name == "second-image" else []
        article = "PMC7654321" if name == "same-article" else f"PMC{number}"
        source = f"Ada. {name}. doi:10.5555/{name}"  # an article has a PMC number and a DOI
        one = figure(path, f"{article}/{name}", [*first, png(picture)], attribution=source)
        # Questions of their own, so that words alone mark those that are meant to be found by words.
        question = f"Which of these things named {name} can be counted in picture {number}?"
        options = five(*(f"{word} {number}" for word in ("cup", "jar", "box", "pan", "lid")))
        items.append((item(one.id, question, options), one))
    by_name = {one.id.partition("/")[2]: place for place, (one, _) in enumerate(items)}

    def words(name: str, question: str, options: tuple[str, ...], answer: str = "A") -> None:
        draft, one = items[by_name[name]]
        items[by_name[name]] = (
            dataclasses.replace(draft, question=question, options=options, answer=answer),
            one,
        )

    words("same-words", QUESTION, ORGANS)
    words("reworded", REWORDED, ORGANS)
    words("other-answer", QUESTION, ORGANS, "C")
    words("stock", "What is shown?", five("cups", "jars", "boxes", "pans", "lids"))
    air = five("free air", "free fluid", "liver mass", "bowel loop", "hepatic cyst")
    words("short", "What is under the right hemidiaphragm?", air)
    words("beneath", "What is beneath the right hemidiaphragm?", air)
    planes = five("axial", "coronal", "sagittal", "oblique", "lateral")
    words("common", "Which plane is it?", planes)
    words("changed-and-asked", "Which plane is it?", planes)
    write_run(path, items)
    return synth(
        source="made",
        stages=("balance", "decontaminate", "publish"),
        against=(str(folder / "bench"),),
        out=path,
        quiet=True,
        workers=1,
    )


def _write_benchmark(folder: Path, pictures: list[Image.Image]) -> None:
    folder.mkdir()
    source = "(https://doi.org/10.5555/Same-article)."
    rows = [
        {
            "id": f"b{n}",
            "image": f"{n}.png",
            "question": f"How many shapes has drawing {n} of them?",
            "answer": str(n),
            "source": source if n == 0 else "",
        }
        for n in range(len(pictures))
    ]
    # Words of picture 4, which no item has: only the words can give it away.
    rows[4] |= {"question": QUESTION, "options": list(ORGANS), "answer": ORGANS[0]}
    rows.append({"id": "s", "image": "4.png", "question": "What is shown?", "answer": "shapes"})
    asked = {"id": "w", "image": "4.png", "question": "What is under the right hemidiaphragm?"}
    rows.append({**asked, "answer": "Free air"})
    stock = {"question": "Which plane is it?", "answer": "axial"}
    rows += [{"id": f"p{n}", "image": f"{n}.png", **stock} for n in range(len(pictures))]
    rows.append({"id": "zh", "image": "0.png", "question": "图中是什么?", "answer": "肝脏"})
    for number, picture in enumerate(pictures):
        picture.save(folder / f"{number}.png")
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def removed(made: Synthesis) -> dict[str, str]:
    return {
        row["id"].partition("/")[2]: row["relation"]
        for row in made.frame("decontaminate").to_dicts()
        if row["removed"]
    }


@pytest.mark.parametrize("name", ["resized", "cropped", "recoded", "panel", "second-image"])
def test_a_changed_copy_of_a_picture_is_removed(made: Synthesis, name: str) -> None:
    wanted = ("undecided image",) if name == "panel" else ("image copy", "image and text copy")
    assert removed(made)[name] in (*wanted, "image copy")


@pytest.mark.parametrize("name", ["same-words", "reworded", "short", "beneath"])
def test_question_and_answer_are_removed_also_in_other_words(made: Synthesis, name: str) -> None:
    assert removed(made)[name].endswith("and answer")


def test_an_article_that_the_benchmark_names_is_removed(made: Synthesis) -> None:
    assert removed(made)["same-article"] == "same article"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("PMC7654321_Fig2.jpg", {"pmc7654321"}),
        ("images/PMC8887776-F1.jpg", {"pmc8887776"}),
        ("https://doi.org/10.5555/Heart.2020.17.", {"10.5555/heart.2020.17"}),
        ("(doi: 10.5555/liver.2021.3), and", {"10.5555/liver.2021.3"}),
        ("10.1016/S0140-6736(20)30183-5", {"10.1016/s0140-6736(20)30183-5"}),
        ("(see 10.1016/S0140-6736(20)5).", {"10.1016/s0140-6736(20)5"}),
        ("https://x.org/articles/10.3389/fnins.2020.1/full?a=b", {"10.3389/fnins.2020.1"}),
        ("https://doi.org/10.5555%2Fboth.1", {"10.5555/both.1"}),
        ("10.5555/a;10.5555/b", {"10.5555/a", "10.5555/b"}),
        ("version 110.5555/x, APMC12345, PMC12", set()),
    ],
)
def test_article_ids_are_found_in_names_sentences_and_addresses(text: str, ids: set[str]) -> None:
    assert article_ids(text) == ids


@pytest.mark.parametrize(
    "name", ["near-miss", "one-changed", "stock", "fresh", "other-answer", "common"]
)
def test_a_near_miss_is_kept(made: Synthesis, name: str) -> None:
    assert name not in removed(made)


def test_an_image_changed_in_part_is_kept_unless_the_item_asks_the_benchmarks_question(
    made: Synthesis,
) -> None:
    relations = {
        row["id"].partition("/")[2]: row["relation"]
        for row in made.frame("decontaminate").to_dicts()
    }
    assert relations["one-changed"] == NEAR_MISS
    assert relations["changed-and-asked"] == "undecided image"
    (report,) = made.run.read_json("synth/contamination.json")["benchmarks"]
    assert report["near_misses_kept"] == 1


def test_the_funnel_counts_every_item_once(made: Synthesis) -> None:
    steps = {step.name: step for step in made.funnel.steps}
    rows = made.frame("decontaminate")
    assert steps["decontaminate"].entered == len(rows) == 17
    assert steps["decontaminate"].left == 17 - rows["removed"].sum() == steps["publish"].left
    assert sum(steps["decontaminate"].reasons.values()) == rows["removed"].sum()
    published = {json.loads(row["misc"])["id"] for row in made.items.to_dicts()}
    assert published == set(rows.filter(~rows["removed"])["id"])


def test_the_report_is_about_what_is_left(made: Synthesis) -> None:
    (report,) = made.run.read_json("synth/contamination.json")["benchmarks"]
    assert report["items"] == len(made.items)
    assert sum(report["removed"].values()) == 17 - len(made.items)
    assert report["hashes"]["overlap_at"]["4"]["hits"] <= 1  # the near miss may hash alike
    assert {row["of"] for row in report["found"]} == {"image", "text"}
    text, asked = report["text"], report["questions"]
    assert text["queries"] == asked["questions"] == 15 and text["threshold"] == 0.88
    # Like with like: the item's five options do not hide that it asks the benchmark's question.
    assert text["fields"] == {"question": 14, "question and options": 1}
    assert text["before_removal"]["max_similarity"]["max"] == pytest.approx(1)
    assert text["by_item"]["before_removal"]["overlap_at"]["0.88"]["hits"] >= 4
    # Six times the plane; the Chinese question; the others could have been found.
    assert (asked["stock"], asked["other_script"], asked["findable"]) == (6, 1, 8)
    assert asked["scripts"] == {"latin": 14, "cjk": 1} and asked["items_kept"] == 1
    (kept,) = made.frame("decontaminate").filter(pl.col("relation") == STOCK).to_dicts()
    assert kept["id"].endswith("/common") and not kept["removed"]
    (shown,) = read_facts(made.run).contamination
    assert "cjk 1" in shown["words"] and "question and options" in shown["rows"][0]["what"]
    assert set(report["embeddings"]["overlap_at"]) == {"0.85", "0.88", "0.9"}


def test_copies_behind_copies_are_found(tmp_path: Path) -> None:
    """Eight copies of one picture: the five nearest alone would let three through."""
    picture = render(SCENES.draw(np.random.default_rng((8, 1))), 160)
    _write_benchmark(tmp_path / "bench", [picture] * 5)
    items = []
    for number in range(8):
        shown = picture.resize((120 + 12 * number,) * 2, Image.Resampling.LANCZOS)
        one = figure(tmp_path / "run", f"PMC{number}/copy", [png(shown)])
        options = five(*(f"{word} {number}" for word in ("cup", "jar", "box", "pan", "lid")))
        items.append(
            (item(one.id, f"Which of these can be counted in picture {number}?", options), one)
        )
    write_run(tmp_path / "run", items)
    found = synth(
        source="made",
        stages=("balance", "decontaminate"),
        against=(str(tmp_path / "bench"),),
        out=tmp_path / "run",
        quiet=True,
        workers=1,
    )
    assert found.frame("decontaminate")["removed"].all()


def test_without_a_benchmark_the_stage_says_so(made: Synthesis) -> None:
    with pytest.raises(InputError, match="against"):
        synth(source="made", stages=("decontaminate",), out=made.run.path, quiet=True)
    assert Run.open(made.run.path)


def test_two_benchmarks_of_one_name_are_two(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    """Both files are called test.jsonl; a later revision of one is searched anew."""
    items = []
    for number, name in enumerate(("first", "second", "fresh")):
        one = figure(tmp_path / "run", f"PMC{number}/f", [picture(number, (60, 50))])
        options = five(*(f"{word} {number}" for word in ("cup", "jar", "box", "pan", "lid")))
        items.append((item(one.id, f"Which of these has picture {number}?", options), one))
        _write_bench(tmp_path / name, picture(number, (60, 50)), "What is it called?")
    write_run(tmp_path / "run", items)
    values = {
        "source": "made",
        "stages": ("balance", "decontaminate"),
        "out": tmp_path / "run",
        "against": tuple(str(tmp_path / name / "test.jsonl") for name in ("first", "second")),
        "image_encoder": None,
        "quiet": True,
        "workers": 1,
    }
    found = synth(**values)
    assert removed(found) == {"f": "image copy"}
    rows = found.frame("decontaminate")
    assert rows.filter(rows["removed"])["id"].to_list() == ["PMC0/f", "PMC1/f"]
    assert rows["benchmark"].n_unique() == 3  # two, and none for the fresh one
    _write_bench(tmp_path / "second", picture(2, (60, 50)), "What is it?")
    rows = synth(**values).frame("decontaminate")
    assert rows.filter(rows["removed"])["id"].to_list() == ["PMC0/f", "PMC2/f"]
    # Images that cannot be read are told; where none can, words alone would be compared.
    with (tmp_path / "second" / "test.jsonl").open("a") as file:
        file.write(json.dumps({"id": 2, "image": "gone.png", "question": "Why?"}) + "\n")
    found = synth(**values)
    _, report = found.run.read_json("synth/contamination.json")["benchmarks"]
    assert (report["images"]["images"], report["images"]["compared"]) == (2, 1)
    (message,) = found.unreadable
    assert "1 of 2 images" in message and "gone.png" in message
    assert message in read_facts(found.run).contamination[1]["words"]
    (tmp_path / "second" / "b.png").unlink()
    values["against"] = values["against"][1:]
    values["out"] = tmp_path / "other"
    values["source"] = str(tmp_path)
    with pytest.raises(InputError, match="of its 2 images"):
        synth(**values)


def _write_bench(folder: Path, image: bytes, question: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "b.png").write_bytes(image)
    row = {"id": 1, "image": "b.png", "question": question, "answer": "a thing"}
    (folder / "test.jsonl").write_text(json.dumps(row) + "\n")
