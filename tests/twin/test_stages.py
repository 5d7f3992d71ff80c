"""Stages one by one: what is drawn is drawn once, what changes withdraws what hangs on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from drawing_tools import Inverted, twinned
from PIL import Image

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.model.asking.twins import twin_origin
from heldout.store import Run
from heldout.store.judgements import TWIN, Judgement, append, current


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    path = tmp_path / "bench.jsonl"
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    path.write_text(
        "".join(
            json.dumps(
                {"id": f"q{n}", "image": f"{n // 2}.png", "question": "Is it red?", "answer": "yes"}
            )
            + "\n"
            for n in range(6)
        )
    )
    return path


def test_a_picture_of_no_use_has_a_reason_and_is_not_drawn_twice(
    bench: Path, tmp_path: Path
) -> None:
    how = {"q0": "same", "q1": "small", "q2": "error"}
    first = Inverted(how)
    made = twinned(bench, tmp_path / "run", renderer=first)
    assert made.stages["render"]["left_out"] == {
        "no room": 1,
        "picture of another size": 1,
        "picture unchanged": 1,
    }
    assert sorted(first.drawn) == [f"q{n}" for n in range(6)]
    dropped = pl.read_parquet(tmp_path / "run/tables/dropped.parquet")
    assert dict(zip(dropped["id"], dropped["reason"], strict=True)) == {
        "q0": "picture unchanged",
        "q1": "picture of another size",
        "q2": "no room",
    }
    again = Inverted(how)
    made = twinned(bench, tmp_path / "run", renderer=again)
    assert again.drawn == ["q2"]  # what could not be drawn is tried anew, nothing else
    assert (made.stages["render"]["drawn"], made.stages["render"]["reused"]) == (0, 5)
    twins = pl.read_parquet(tmp_path / "run/tables/twins.parquet")
    assert twins["benchmark_id"].to_list() == ["q3", "q4", "q5"] and twins["kept"].all()
    for column in ("original", "edges", "picture"):
        assert all((tmp_path / "run" / path).is_file() for path in twins[column])


def test_edge_maps_that_keep_nothing_are_told(bench: Path, tmp_path: Path) -> None:
    made = twinned(bench, tmp_path / "noisy", last="edges")
    assert made.stages["edges"]["faint"] == 0
    for number in range(3):  # two flat halves: one line, and letters at the border
        flat = Image.new("L", (240, 160), 90 + number)
        flat.paste(200, (0, 0, 240, 12))
        flat.save(tmp_path / f"{number}.png")
    made = twinned(bench, tmp_path / "flat", last="edges")
    assert made.stages["edges"]["faint"] == 1


def test_a_stage_needs_the_one_before(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="stage 'resample'"):
        twinned(bench, tmp_path / "run", first="render", last="render")
    with pytest.raises(InputError, match="comes before"):
        twinned(bench, tmp_path / "run", first="render", last="edges")
    with pytest.raises(InputError, match="no stage 'paint'"):
        twinned(bench, tmp_path / "run", first="paint")


def test_stage_by_stage_is_the_same_as_at_once(bench: Path, tmp_path: Path) -> None:
    twinned(bench, tmp_path / "whole")
    for stage in ("resample", "describe", "edges", "render", "filter", "publish"):
        twinned(bench, tmp_path / "parts", first=stage, last=stage)
    one, other = (
        {file.relative_to(root): file.read_bytes() for file in root.rglob("*.*") if file.is_file()}
        for root in (tmp_path / "whole/twin", tmp_path / "parts/twin")
    )
    assert one == other and len(one) > 20


def test_another_setting_withdraws_what_was_made_of_the_old_one(
    bench: Path, tmp_path: Path
) -> None:
    twinned(bench, tmp_path / "run")
    published = tmp_path / "run/twin/publish.json"
    assert published.exists()
    twinned(bench, tmp_path / "run", first="edges", last="edges")
    assert published.exists()  # the same once more: nothing is withdrawn
    twinned(bench, tmp_path / "run", first="edges", last="edges", edges=(10, 30))
    assert not published.exists() and not (tmp_path / "run/tables/twins.parquet").exists()
    assert not (tmp_path / "run/twin/benchmark").exists()


def test_nobody_judged(bench: Path, tmp_path: Path) -> None:
    drawing = Inverted()
    with pytest.raises(InputError, match="the setting verifier"):
        twinned(bench, tmp_path / "run", unfiltered=False, renderer=drawing)
    assert drawing.drawn == []  # said before anything was paid for
    with pytest.raises(InputError, match="the setting verifier"):
        twinned(bench, tmp_path / "run", unfiltered=False, keep="either")
    with pytest.raises(InputError, match="^unfiltered: "):
        twinned(bench, tmp_path / "run", keep="people")


def test_people_decide_by_majority_and_a_tie_keeps_nothing(bench: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    twinned(bench, run, last="render")
    assert pl.read_parquet(run / "tables/twins.parquet")["kept"].null_count() == 6
    said = {"q0": "kk", "q1": "kr", "q2": "krr", "q3": "kkr", "q4": "r"}
    for item, votes in said.items():
        for rater, vote in enumerate(votes):
            verdict = "keep" if vote == "k" else "reject"
            append(run, Judgement(f"rater {rater}", TWIN, item, verdict))
    made = twinned(bench, run, first="filter", unfiltered=False)
    assert made.policy == "people"
    assert (run / "twin/kept.txt").read_text() == "q0\nq3\n"
    assert made.stages["filter"]["left_out"] == {
        "rejected by people": 2,
        "people are divided": 1,
        "not judged by people": 1,
    }
    twins = pl.read_parquet(run / "tables/twins.parquet")
    assert twins["people"].to_list() == ["keep", "tie", "reject", "keep", "reject", None]


def test_what_a_person_threw_out_stays_out_and_unjudged_twins_say_so(
    bench: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    twinned(bench, run, last="render")
    append(run, Judgement("ada", TWIN, "q1", "reject"))
    made = twinned(bench, run, first="filter", unfiltered=True)
    assert (run / "twin/kept.txt").read_text() == "q0\nq2\nq3\nq4\nq5\n"
    assert made.stages["filter"]["left_out"] == {"rejected by people": 1}
    for name in ("benchmark", "vlmevalkit"):
        published = read_benchmark(run / json.loads((run / "twin/publish.json").read_text())[name])
        assert twin_origin(published) == {"items": 5, "unjudged": 5}, name


def test_a_judgement_of_another_picture_is_taken_back(bench: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    twinned(bench, run, last="render")
    for item in ("q0", "q1"):
        append(run, Judgement("ada", TWIN, item, "keep"))
    twinned(bench, run, last="render")
    assert len(current(run, TWIN)) == 2  # the same pictures: they stand
    twinned(bench, run, last="render", edges=(10, 30))
    assert current(run, TWIN) == {}
    with pytest.raises(InputError, match="^keep "):
        twinned(bench, run, first="filter", unfiltered=False, keep="people")


def test_a_run_is_about_one_seed(bench: Path, tmp_path: Path) -> None:
    twinned(bench, tmp_path / "run", last="resample")
    with pytest.raises(InputError, match="seed"):
        Run.create(tmp_path / "run", seed=1)
