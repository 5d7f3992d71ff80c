"""Publish: the fields as published, readable by those who train and by our own verbs."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from made_items import figure, item, write_run
from PIL import Image
from typer.testing import CliRunner

from heldout.benchmark import read_benchmark
from heldout.cli.app import app
from heldout.corpus import open_corpus
from heldout.errors import InputError
from heldout.report.synthesis_page import write_synthesis_report
from heldout.store import Dropped
from heldout.synth import LETTERS, Synthesis, SynthStage, synth
from heldout.synth.ledger import writing
from heldout.train._training_set import asked, read_training_set
from heldout.train.reward import compute_score, grade

ORGANS = ("liver", "spleen", "kidney", "heart", "lung")
FIELDS = {
    "images": "list<element: struct<bytes: binary, path: string>>",
    "question": "string",
    "options": "string",
    "answer_label": "string",
    "answer": "string",
    "reasoning": "string",
    "dataset_name": "string",
    "dataset_index": "int64",
    "hash": "string",
    "misc": "string",
    "licence": "string",
    "licence_url": "string",
    "attribution": "string",
    "provenance": "string",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    path = tmp_path_factory.mktemp("publish") / "run"
    items = []
    for number in range(12):
        name = f"PMC{number}/f"
        images = [_picture(number), _picture(99)] if number % 4 == 0 else [_picture(number)]
        long = " and of the neighbouring vessels in this plane" if number == 11 else ""
        draft = item(
            name, f"Which organ number {number} is shown{long}?", ORGANS, LETTERS[number % 5]
        )
        items.append((draft, figure(path, name, images)))
    write_run(path, items)
    return synth(
        source="made",
        stages=("balance", "publish"),
        subsets=(4, 8, 1000),
        name="fresh",
        out=path,
        quiet=True,
    )


def _picture(seed: int) -> bytes:
    image = Image.new("RGB", (48, 40), (40, 90, seed))
    image.putpixel((seed % 48, 0), (255, 0, seed))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def dataset(made: Synthesis) -> Path:
    return made.run.path / "synth" / "dataset"


def test_fields_and_types_are_the_published_ones(dataset: Path) -> None:
    (path,) = (dataset / "data").glob("*.parquet")
    assert path.name == "train-00000-of-00001.parquet"
    schema = pq.read_schema(path)
    assert {field.name: str(field.type) for field in schema} == FIELDS


def test_a_row_says_what_it_is_and_where_it_comes_from(made: Synthesis, dataset: Path) -> None:
    rows = pq.read_table(dataset / "data").to_pylist()
    assert [row["dataset_index"] for row in rows] == list(range(12))
    for row in rows:
        options = json.loads(row["options"])
        assert list(options) == list(LETTERS) and options[row["answer_label"]] == row["answer"]
        assert row["dataset_name"] == "fresh" and row["attribution"].startswith("Ada.")
        misc, provenance = json.loads(row["misc"]), json.loads(row["provenance"])
        assert misc["question_type"] and misc["modality"] == "CT" and len(misc["rubric"]) == 17
        assert provenance["figure"] == misc["id"] and provenance["article"].startswith("PMC")
        # As the card says: whatever the order of the options.
        digests = sorted(hashlib.sha256(image["bytes"]).hexdigest() for image in row["images"])
        words = (row["question"], *sorted(map(str.casefold, options.values())), row["answer"])
        content = "\0".join((*map(str.casefold, words), *digests))
        assert row["hash"] == hashlib.sha256(content.encode()).hexdigest()
        number = int(provenance["article"][3:])
        assert row["images"][0]["bytes"] == _picture(number)
        assert len(row["images"]) == (2 if number % 4 == 0 else 1)
    assert len({row["hash"] for row in rows}) == 12
    assert made.items.drop("rubric", strict=False).height == 12


def test_the_hub_library_reads_the_folder(dataset: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(dataset), split="train", cache_dir=str(tmp_path))
    assert loaded.num_rows == 12 and loaded[0]["images"][0].size == (48, 40)
    assert set(loaded.column_names) == set(FIELDS)


def test_our_own_reader_and_check_take_it_as_a_benchmark(dataset: Path) -> None:
    (dataset / "README.md").write_text("---\nlicense: other\n---\n")
    benchmark = read_benchmark(str(dataset))
    rows = pq.read_table(dataset / "data").to_pylist()
    assert len(benchmark) == 12 and benchmark.name == "fresh"
    for example, row in zip(benchmark, rows, strict=True):
        assert example.question == row["question"] and example.answer == row["answer"]
        assert example.options == tuple(json.loads(row["options"]).values())
        assert len(example.images) == len(row["images"])
    corpus = open_corpus(dataset)
    ids = [item.id for shard in corpus.shards() for item in corpus.read(shard)]
    assert len({one.split("/")[2] for one in ids if one.startswith("data/")}) == 12
    assert len(read_training_set(str(dataset)).items) == 12
    done = CliRunner().invoke(app, ["check", str(dataset), "--json"])
    checked = json.loads(done.stdout)
    assert checked["facts"]["items"] == 12 and done.exit_code in (0, 1)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _exists(dataset: Path, name: str) -> bool:
    with Image.open(dataset / name) as image:
        return image.size == (48, 40)


def test_lines_for_trl_verl_and_llava(dataset: Path) -> None:
    trained = read_training_set(str(dataset / "data")).items
    rows = pq.read_table(dataset / "data").to_pylist()
    for line, row in zip(_lines(dataset / "trl.jsonl"), rows, strict=True):
        content = line["prompt"][0]["content"]
        assert [part["type"] for part in content] == ["image"] * len(line["images"]) + ["text"]
        assert row["question"] in content[-1]["text"] and row["answer"] in content[-1]["text"]
        # What the prompt asks for is the solution, and is worth the reward.
        (item,) = [one for one in trained if one.question == row["question"]]
        assert content[-1]["text"] == asked(item) and line["solution"] == row["answer_label"]
        right = f"<think>x</think><answer>{line['solution']}</answer>"
        assert grade(right, item.solution).reward == 1.0
        assert all(_exists(dataset, name) for name in line["images"])
    for line, row in zip(_lines(dataset / "verl.jsonl"), rows, strict=True):
        prompt = line["prompt"][0]["content"]
        assert prompt.count("<image>") == len(line["images"]) == len(row["images"])
        truth = line["reward_model"]["ground_truth"]
        assert line["reward_model"] == {"style": "rule", "ground_truth": row["answer_label"]}
        for said, score in ((truth, 1.0), (row["answer"], 1.0), ("no option", 0.0)):
            reply = f"<think>x</think><answer>{said}</answer>"
            told = compute_score(line["data_source"], reply, truth, line["extra_info"])
            assert told["score"] == score
        assert all(_exists(dataset, one["image"]) for one in line["images"])
    llava = read_benchmark(str(dataset / "llava.jsonl"), images=str(dataset))
    assert len(llava) == 12 and all(_exists(dataset, one.images[0].name) for one in llava)


@pytest.mark.parametrize("name", ["trl", "verl", "llava"])
def test_the_hub_library_reads_the_lines(dataset: Path, tmp_path: Path, name: str) -> None:
    """One type a column, although some items have two images."""
    datasets = pytest.importorskip("datasets")
    files = str(dataset / f"{name}.jsonl")
    loaded = datasets.load_dataset("json", data_files=files, split="train", cache_dir=str(tmp_path))
    assert loaded.num_rows == 12
    images = loaded["image" if name == "llava" else "images"]
    assert sorted(map(len, images)) == [1] * 9 + [2] * 3
    if name == "trl":  # as TRL needs them, from the folder of the dataset
        with contextlib.chdir(dataset):
            opened = loaded.cast_column("images", datasets.List(datasets.Image()))
            assert opened[0]["images"][0].size == (48, 40)


def test_subsets_are_the_first_rows_and_statistics_count_them(dataset: Path) -> None:
    known = json.loads((dataset / "statistics.json").read_text())
    assert known["subsets"] == [4, 8, 12] and known["items"] == 12 and known["articles"] == 12
    assert known["images"] == 13 and known["images_per_item"] == {"1": 9, "2": 3}
    for name in ("question_type", "modality", "anatomy", "answer_label", "licence"):
        assert sum(known[name].values()) == 12
    assert known["funnel"][-1]["name"] == "balance" and known["words_per_question"]["max"] == 14


def test_nothing_of_an_earlier_dataset_stays(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    path = tmp_path / "run"
    one = figure(path, "PMC1/f", [picture(1, (40, 30))])
    write_run(path, [(item("PMC1/f", "Which organ is it?", ORGANS), one)])
    synth(source="made", stages=("balance", "publish"), out=path, quiet=True)
    (path / "synth/dataset/data/old.parquet").write_bytes(b"x")
    synth(source="made", stages=("balance", "publish"), out=path, name="other", quiet=True)
    assert not (path / "synth/dataset/data/old.parquet").exists()


def test_the_filter_log_names_every_rejection(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    path = tmp_path / "run"
    good = item("PMC1/f", "Which organ is it?", ORGANS)
    bad = item("PMC2/f", "According to the caption, which organ is it?", ORGANS)
    figures = [figure(path, name, [picture(1, (40, 30))]) for name in ("PMC1/f", "PMC2/f")]
    run = write_run(path, [(good, figures[0]), (bad, figures[1])])
    source = tmp_path / "articles"
    with writing(run, SynthStage.INGEST, "made") as table:
        table.drop(
            Dropped("ingest", f"{source}/x.xml", "unreadable XML", f"{source}/x.xml: line 1")
        )
    synth(source=str(source), stages=("balance", "publish"), out=path, quiet=True)
    unread, line = _lines(path / "synth/dataset/filter_log.jsonl")
    # Where the source lies on this machine is nobody's business.
    assert (unread["id"], unread["detail"]) == ("articles/x.xml", "articles/x.xml: line 1")
    assert (line["stage"], line["id"]) == ("verify", "PMC2/f")
    assert line["reason"] == "essential: self-contained" and "points to" in line["detail"]


def test_digests_can_be_looked_up_beside_the_rows(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    path = tmp_path / "run"
    drafts = [item(f"PMC{n}/f", f"Which organ is number {n}?", ORGANS) for n in range(3)]
    drafts[2] = dataclasses.replace(drafts[2], generator="other")
    items = [(one, figure(path, one.id, [picture(n, (40, 30))])) for n, one in enumerate(drafts)]
    run = write_run(path, items)
    answered = [
        {
            "model": name,
            "fingerprint": "",
            "digest": digest,
            "replies": 2,
            "first": "t",
            "last": "t",
        }
        for name, digest in (("writer", "made"), ("writer-2", "other"), ("unused", "none"))
    ]
    entry = {
        "model": "writer",
        "template": "t/1",
        "answered_by": answered,
        "spent": {"stage": "generate"},
    }
    run.update("synth", {"generator": entry})
    synth(source="made", stages=("balance", "publish"), out=path, quiet=True)
    dataset = path / "synth/dataset"
    models = json.loads((dataset / "provenance.json").read_text())["models"]
    told = {
        role: {name: (one["model"], one["items"]) for name, one in found.items()}
        for role, found in models.items()
    }
    assert told == {
        "generator": {"made": ("writer", 2), "other": ("writer-2", 1)},
        "verifier": {"made": ("made", 3)},
    }
    assert models["generator"]["other"]["asked"]["template"] == "t/1"
    for row in pq.read_table(dataset / "data").to_pylist():
        named = json.loads(row["provenance"])
        assert all(named[role] in models[role] for role in ("generator", "verifier"))


def test_a_later_stage_keeps_the_settings_of_the_finished_ones(tmp_path: Path) -> None:
    run = tmp_path / "run"
    synth(source="scenes", limit=6, threshold=0.9, out=run, quiet=True)
    again = synth(source="scenes", stages="publish", out=run, quiet=True)
    kept = again.run.manifest()["synth"]["settings"]
    assert (kept["limit"], kept["threshold"]) == (6, 0.9)  # what card and page speak of
    with pytest.raises(InputError, match=r"threshold: .*\bverify\b.*0\.9\b.*0\.3"):
        synth(source="scenes", stages="publish", threshold=0.3, out=run, quiet=True)
    with pytest.raises(InputError, match=r"limit: .*\b(ingest|select)\b"):
        synth(source="scenes", stages="balance,publish", limit=4, out=run, quiet=True)
    assert synth(
        source="scenes", limit=4, out=run, quiet=True
    ).funnel.steps  # all stages: runs again


def test_items_are_not_published_before_they_are_compared(tmp_path: Path) -> None:
    run, benchmark = tmp_path / "run", tmp_path / "benchmark.jsonl"
    benchmark.write_text(json.dumps({"id": "a", "question": "What is it?", "answer": "a cube"}))
    stages = "ingest,select,generate,verify,shortcut,balance"
    synth(source="scenes", limit=6, stages=stages, out=run, quiet=True)
    with pytest.raises(InputError, match=r"against: .*\bdecontaminate\b"):
        synth(source="scenes", stages="publish", against=benchmark, out=run, quiet=True)
    published = synth(source="scenes", stages="publish", out=run, quiet=True)
    assert not published.compared
    write_synthesis_report(published.run)
    card = (run / "synth" / "dataset" / "README.md").read_text(encoding="utf-8")
    assert "with no benchmark" in card and "named benchmarks" not in card


def test_a_benchmark_that_is_not_there_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        synth(
            source="scenes",
            limit=2,
            against=tmp_path / "missing.jsonl",
            out=tmp_path / "run",
            quiet=True,
        )
    assert not (tmp_path / "run").exists()


def test_what_was_made_of_other_items_is_forgotten(tmp_path: Path) -> None:
    run, benchmark = tmp_path / "run", tmp_path / "benchmark.jsonl"
    benchmark.write_text(json.dumps({"id": "a", "question": "What is it?", "answer": "a cube"}))
    first = synth(source="scenes", limit=4, against=benchmark, out=run, quiet=True)
    assert first.compared and len(first.items) == 4
    again = synth(source="scenes", limit=9, out=run, quiet=True)  # more items, and no benchmark
    assert not again.compared
    steps = [(step.entered, step.left) for step in again.funnel.steps]
    assert [entered for entered, _ in steps[1:]] == [left for _, left in steps[:-1]]
    write_synthesis_report(again.run)
    assert "with no benchmark" in (run / "synth/dataset/README.md").read_text()
    with pytest.raises(InputError, match=r"\bdecontaminate\b"):
        stages = "ingest,select,generate,verify,shortcut,balance,publish"
        synth(source="scenes", limit=12, stages=stages, against=benchmark, out=run, quiet=True)
    synth(source="scenes", limit=5, stages="ingest,select", out=run, quiet=True)
    assert not (run / "synth" / "dataset").exists()
    with pytest.raises(InputError, match="through the stage '"):
        synth(source="scenes", stages="publish", out=run, quiet=True)
