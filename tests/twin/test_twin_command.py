"""heldout twin from end to end on scenes: describe, render, filter, publish, ask, detect."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from serving import TwinServer
from typer.testing import CliRunner

import heldout
from heldout.benchmark import read_benchmark
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model import parse_variants, read_twins
from heldout.scenes import read_question, read_scenes
from heldout.store.judgements import TWIN, Judgement, append


def call(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.exception or done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sentence(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["twin", *map(str, arguments)])
    assert isinstance(done.exception, InputError), done.exception or done.output
    return str(done.exception)


@pytest.fixture(scope="module")
def run(scenes: Path, server: TwinServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twin") / "run"
    call(
        "twin",
        scenes,
        "--out",
        folder,
        "--renderer",
        "scene",
        "--describer",
        server.url(),
        "--verifier",
        server.url(),
    )
    return folder


def test_every_item_is_a_twin_or_has_a_reason(run: Path, scenes: Path) -> None:
    every = {example.id for example in read_benchmark(scenes)}
    dropped = pl.read_parquet(run / "tables/dropped.parquet")
    kept = set((run / "twin/kept.txt").read_text().split())
    assert kept | set(dropped["id"]) == every and not kept & set(dropped["id"])
    assert set(dropped["stage"]) == {"twin resample", "twin render", "twin filter"}
    assert (dropped["reason"].str.len_chars() > 0).all()
    rejected = dropped.filter(pl.col("stage") == "twin filter")
    assert set(rejected["reason"]) == {"rejected by the verifier"}
    twins = pl.read_parquet(run / "tables/twins.parquet")
    assert set(twins.filter("kept")["benchmark_id"]) == kept
    assert all("circle" in text for text in twins.filter(~pl.col("kept"))["question"])
    pairs = zip(twins["caption"], twins["new_answer"], strict=True)
    assert all(caption.endswith(f"is {new}.") for caption, new in pairs)
    assert set(twins["verifier_reason"]) == {"The picture shows it plainly."}


def test_the_published_twins_pair_with_the_originals(run: Path, scenes: Path) -> None:
    originals = {example.id: example for example in read_benchmark(scenes)}
    published = json.loads((run / "twin/publish.json").read_text())
    kept = (run / "twin/kept.txt").read_text().split()
    drawn = read_scenes(scenes)
    for place in ("benchmark", "vlmevalkit"):
        twins = read_benchmark(run / published[place])
        assert [twin.id for twin in twins] == kept
        assert all(twin.answer != originals[twin.id].answer for twin in twins)
        assert all(read_question(twin.question or "") is not None for twin in twins)
    assert len(drawn) == 20


def test_nothing_is_asked_or_drawn_again(run: Path, scenes: Path, server: TwinServer) -> None:
    before = server.posted("plain")
    pictures = {path: path.stat().st_mtime_ns for path in (run / "twin/pictures").iterdir()}
    made = call(
        "twin",
        scenes,
        "--out",
        run,
        "--renderer",
        "scene",
        "--describer",
        server.url(),
        "--verifier",
        server.url(),
    )
    assert server.posted("plain") == before and set(server.answered("plain")) == {1}
    assert pictures == {path: path.stat().st_mtime_ns for path in (run / "twin/pictures").iterdir()}
    stages = made["stages"]
    assert (stages["describe"]["asked"], stages["render"]["drawn"], stages["filter"]["asked"]) == (
        0,
        0,
        0,
    )
    assert stages["describe"]["reused"] == stages["resample"]["items"]


def recorded(run: Path, scenes: Path, path: Path) -> Path:
    """A memoriser repeats the old answers; honest models look, and err at times."""
    published = json.loads((run / "twin/publish.json").read_text())
    originals = {example.id: example for example in read_benchmark(scenes)}
    rows = []
    for twin in read_benchmark(run / published["ask_with"]):
        old, new = originals[twin.id].answer, twin.answer
        wrong = [option for option in twin.options if option not in (old, new)] or ["maybe"]
        for model in ("memoriser", "honest", "reference"):
            dice = random.Random(f"{model} {twin.id}")
            seen = model == "memoriser" and dice.random() < 0.8
            for variant, right in (("original", old), ("twin", new)):
                said = right if dice.random() < 0.75 else dice.choice(wrong)
                rows.append(
                    {
                        "id": twin.id,
                        "model": model,
                        "variant": variant,
                        "gold": right,
                        "reply": old if seen else said,
                    }
                )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_memoriser_is_found_and_an_honest_model_is_not(
    run: Path, scenes: Path, tmp_path: Path
) -> None:
    answers = recorded(run, scenes, tmp_path / "answers.jsonl")
    call("ask", scenes, "--out", run, "--recorded", answers)
    told = call("detect", run, "--detector", "twin-drop", "--baseline", "reference")
    status = {claim["id"]: claim["status"] for claim in told["claims"]}
    why = {claim["id"]: claim["why"] for claim in told["claims"]}
    assert "reference of 1 family" in why["twin-drop/memoriser"]
    # 62 pairs on 20 images would show an effect of .52 after correction: too few to clear anybody.
    assert status == {"twin-drop/memoriser": "qualified", "twin-drop/honest": "qualified"}
    found = {one["id"]: one for one in told["findings"]}
    kept = len((run / "twin/kept.txt").read_text().split())
    assert found["twin-drop/memoriser"]["direction"] == "seen"
    assert found["twin-drop/memoriser"]["n"] == found["twin-drop/honest"]["n"] == kept
    # Items that share a picture in the release are one cluster, though their twins do not share one.
    assert found["twin-drop/honest"]["clusters"] < kept


def test_a_model_is_asked_about_originals_and_twins(
    run: Path, scenes: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    import importlib.util

    place = Path(__file__).parents[1] / "model/local/tiny_models.py"
    spec = importlib.util.spec_from_file_location("tiny_models_of_twins", place)
    assert spec is not None and spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
    tiny.save("qwen2_5_vl", tmp_path / "tiny")
    published = json.loads((run / "twin/publish.json").read_text())
    made = call(
        "ask",
        scenes,
        "--model",
        tmp_path / "tiny",
        "--out",
        run,
        "--dtype",
        "float32",
        "--device",
        "cpu",
        "--limit",
        "8",
        "--max-new-tokens",
        "2",
        "--variants",
        f"original,twin={run / published['ask_with']}",
    )["models"][0]
    answers = pl.read_parquet(run / "tables/answers.parquet").filter(pl.col("model") == "tiny")
    pairs = answers.pivot(on="variant", index="benchmark_id", values="gold").drop_nulls()
    assert len(pairs) >= 3 and (pairs["original"] != pairs["twin"]).all()
    assert made["dropped"].keys() <= {"no twin", "twin of no item"}


def test_people_and_verifier_together(run: Path, scenes: Path, tmp_path: Path) -> None:
    twins = pl.read_parquet(run / "tables/twins.parquet")
    # Rejected ones first: of both kinds about every tenth is judged the other way.
    rows = twins.sort("verifier", descending=True, maintain_order=True).to_dicts()
    for number, row in enumerate(rows):
        same = number % 10 != 0
        verdict = row["verifier"] if same else {"keep": "reject", "reject": "keep"}[row["verifier"]]
        append(run, Judgement("ada", TWIN, row["benchmark_id"], verdict))
    kept = {}
    for policy in ("verifier", "people", "both", "either"):
        made = call("twin", scenes, "--out", run, "--stage", "filter", "--keep", policy)
        kept[policy] = set((run / "twin/kept.txt").read_text().split())
        told = made["agreement"]
        assert told["n"] == len(twins) and told["raw"] == pytest.approx(0.9, abs=0.02)
        assert told["kappa_interval"]["low"] < told["kappa"] < told["kappa_interval"]["high"]
        assert made["policy"] == policy
    assert kept["both"] == kept["verifier"] & kept["people"]
    assert kept["either"] == kept["verifier"] | kept["people"]
    assert kept["both"] < kept["verifier"] < kept["either"]
    done = CliRunner().invoke(app, ["twin", str(scenes), "--out", str(run), "--stage", "filter"])
    assert re.search(r"agreement (?:89|9\d)\.\d % \[.*\], kappa 0\.\d\d \[", done.output)
    assert json.loads((run / "twin/agreement.json").read_text())["both_keep"] == len(kept["both"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "the setting renderer"),
        (["--renderer", "oil"], "--renderer: there are scene"),
        (["--renderer", "flux", "--unfiltered"], "--renderer: flux draws"),
        (["--renderer", "scene"], "the setting verifier"),
        (["--renderer", "scene", "--keep", "me"], "--keep: expected one"),
        (["--renderer", "scene", "--edges", "9"], "--edges: expected two"),
        (["--until", "paint"], "there is no stage 'paint'"),
        (["--stage", "render", "--until", "render"], "--stage is one stage alone"),
        (
            ["--renderer", "scene", "--unfiltered", "--render-set", "steps=3"],
            "unexpected keyword argument 'steps'",
        ),
        (["--renderer", "scene", "--unfiltered", "--render-set", "x"], "expected KEY=VALUE"),
    ],
)
def test_mistakes_get_a_sentence(
    scenes: Path, tmp_path: Path, arguments: list[str], told: str
) -> None:
    assert told in sentence(scenes, "--out", tmp_path / "run", *arguments)


def test_from_python_twins_are_frames_and_the_run_answers_to_twin(
    scenes: Path, server: TwinServer, tmp_path: Path
) -> None:
    made = heldout.twin(
        scenes, renderer="scene", unfiltered=True, limit=6, run=tmp_path / "run", quiet=True
    )
    assert made.twins.height == made.stages.filter(stage="render")["items"].item() > 0
    assert made.published is not None and made.published.exists()
    assert "publish" in made._repr_html_()
    assert "\n" not in repr(made) and len(repr(made)) < 400
    twins = read_twins(parse_variants("twin"), read_benchmark(scenes), made.run)
    assert len(twins["twin"]) == made.twins.height
    with pytest.raises(InputError, match="^edges: "):
        heldout.twin(scenes, edges=(1,))
