"""The gate before training: what is not compared, or leaks, is not trained on unless somebody says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from colour_rows import write_rows
from PIL import Image

import heldout
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.report.training import model_card, read_training
from heldout.store import Run
from heldout.train import GateError, GateRecord, TrainSettings
from heldout.train._training_set import TrainingSet, read_training_set
from heldout.train.gate import guard, take_comparisons


def through_gate(
    out: Path, data: Path, *against: Path, compared: Path | None = None, **values: object
) -> tuple[TrainingSet, GateRecord]:
    settings = TrainSettings(
        data=str(data), model="unused", against=tuple(map(str, against)), **values
    )
    run = Run.create(out, seed=settings.seed)
    if compared is not None:
        take_comparisons(run, compared)
    with open_engine("local", workers=1) as engine:
        return guard(settings, read_training_set(str(data)), run, engine, quiet=True)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("bench"), 6, seed=7, name="test.jsonl")


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory, bench: Path) -> Path:
    """Eight rows of their own, and copies of two benchmark items: saved anew, under other names."""
    path = write_rows(tmp_path_factory.mktemp("leaking"), 8, seed=3)
    lines = path.read_text().splitlines()
    for number in (1, 4):
        item = json.loads(bench.read_text().splitlines()[number])
        Image.open(bench.parent / item["image"]).save(
            path.parent / f"copy-{number}.jpg", quality=92
        )
        lines.append(
            json.dumps({**item, "id": f"smuggled-{number}", "image": f"copy-{number}.jpg"})
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory, leaking: Path, bench: Path
) -> tuple[Path, GateError]:
    """The run of the leaking set, and why it ended; its comparisons serve other runs."""
    out = tmp_path_factory.mktemp("refused") / "run"
    with pytest.raises(GateError) as raised:
        through_gate(out, leaking, bench)
    return out, raised.value


def test_a_set_that_was_compared_with_nothing_is_refused(tmp_path: Path, rows: Path) -> None:
    with pytest.raises(GateError, match="no benchmark") as raised:
        through_gate(tmp_path / "run", rows)
    assert raised.value.exit_code == 1


def test_without_a_comparison_the_reason_is_recorded(tmp_path: Path, rows: Path) -> None:
    kept, record = through_gate(tmp_path / "run", rows, open_gate="a dry run")
    assert len(kept.items) == 12
    assert not record.passed
    assert record.verdict.endswith(": a dry run")


def test_without_a_comparison_rows_whose_image_is_missing_are_dropped(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows", 4, seed=5)
    missing = json.loads(path.read_text().splitlines()[1])
    (path.parent / missing["image"]).unlink()
    kept, _ = through_gate(tmp_path / "run", path, open_gate="a dry run")
    assert len(kept.items) == 3
    assert [dropped.id for dropped in kept.dropped] == [missing["id"]]


def test_a_clean_set_passes_with_all_its_rows(tmp_path: Path, rows: Path, bench: Path) -> None:
    kept, record = through_gate(tmp_path / "run", rows, bench)
    assert len(kept.items) == 12
    assert record.passed
    assert record.verdict.startswith("No training row ") and " test." in record.verdict
    # A reason that nobody needed changes nothing.
    assert through_gate(tmp_path / "run", rows, bench, open_gate="why not")[1].forced == ""


def test_a_leaking_set_is_refused_and_says_what_to_do(refused: tuple[Path, GateError]) -> None:
    run, error = refused
    assert re.search("Gate failed: 2 .*remove_leaks", str(error))
    removed = (run / "gate/remove_ids.txt").read_text().split()
    assert removed == ["smuggled-1", "smuggled-4"]
    record = json.loads((run / "gate/record.json").read_text())
    assert (record["leaking"], record["removed"]) == (2, 0)
    assert "Nothing was trained" in record["verdict"]


def test_leaks_are_removed_with_their_reasons(
    tmp_path: Path, leaking: Path, bench: Path, refused: tuple[Path, GateError]
) -> None:
    """With the comparisons of another run, which are of the same rows."""
    kept, record = through_gate(
        tmp_path / "run", leaking, bench, compared=refused[0], remove_leaks=True
    )
    assert [item.id for item in kept.items] == [f"row-3-{number}" for number in range(8)]
    assert (record.leaking, record.removed, record.forced) == (2, 2, "")
    told = {one.id: one for one in kept.dropped}
    assert told["smuggled-4"].reason == "removed by the gate"
    assert ": test row-7-4" in told["smuggled-4"].detail
    (compared,) = (tmp_path / "run/gate/overlap").iterdir()
    (stage,) = Run.open(compared).manifest()["stages"].values()
    assert stage["reused"] == stage["shards"] == 1


def test_a_gate_opened_by_hand_keeps_the_rows_and_says_so(
    tmp_path: Path, leaking: Path, bench: Path, refused: tuple[Path, GateError]
) -> None:
    kept, record = through_gate(
        tmp_path / "run", leaking, bench, compared=refused[0], open_gate="an experiment"
    )
    assert len(kept.items) == 10
    assert record.forced == "an experiment"
    assert record.verdict.startswith("CONTAMINATED: trained on 2 rows ")
    assert json.loads((tmp_path / "run/gate/record.json").read_text())["forced"] == "an experiment"


def test_words_leak_without_their_picture(
    tmp_path: Path, make_rows: Callable[..., Path], bench: Path
) -> None:
    """A question and its answer, word for word, beside no picture at all."""
    path = make_rows(8, seed=5)
    long = "Which of the four colours fills most of the picture that was taken on the second visit?"
    told = [json.loads(line) for line in bench.read_text().splitlines()]
    told[2]["question"] = long
    bench = bench.with_name("asked.jsonl")
    bench.write_text("".join(json.dumps(one) + "\n" for one in told))
    stolen = {key: told[2][key] for key in ("question", "options", "answer")}
    with path.open("a") as file:
        file.write(json.dumps({"id": "words", **stolen}) + "\n")
    kept, record = through_gate(
        tmp_path / "run", path, bench, remove_leaks=True, image_encoder=None
    )
    assert record.removed == 1
    assert "words" not in {item.id for item in kept.items}


def test_the_second_picture_of_a_row_is_compared_too(
    tmp_path: Path, make_rows: Callable[..., Path], bench: Path
) -> None:
    path = make_rows(8, seed=5)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    item = json.loads(bench.read_text().splitlines()[0])
    Image.open(bench.parent / item["image"]).save(path.parent / "hidden.png")
    for number, line in enumerate(lines):
        first = line.pop("image")
        line["images"] = [first, "hidden.png" if number == 6 else first]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept, _ = through_gate(tmp_path / "run", path, bench, remove_leaks=True)
    assert {item.id for item in kept.items} == {
        f"row-5-{number}" for number in range(8) if number != 6
    }


def test_a_picture_that_nobody_can_read_is_not_trained_on(
    tmp_path: Path, make_rows: Callable[..., Path], bench: Path
) -> None:
    path = make_rows(8, seed=5)
    (path.parent / "images/5-2.png").write_bytes(b"not a picture")
    kept, _ = through_gate(tmp_path / "run", path, bench, image_encoder=None)
    assert "row-5-2" not in {item.id for item in kept.items}
    assert any(one.id == "row-5-2" for one in kept.dropped)


def test_comparisons_of_other_rows_are_not_taken_over(
    tmp_path: Path, bench: Path, rows: Path, refused: tuple[Path, GateError]
) -> None:
    kept, record = through_gate(tmp_path / "run", rows, bench, compared=refused[0])
    assert (len(kept.items), record.passed) == (12, True)
    with pytest.raises(InputError, match="^gate_from "):
        take_comparisons(Run.open(tmp_path / "run"), tmp_path)


def test_a_suite_stands_for_all_its_benchmarks(
    tmp_path: Path, leaking: Path, bench: Path, make_rows: Callable[..., Path]
) -> None:
    other = make_rows(4, seed=8, name="other.jsonl")
    suite = bench.parent / "suite.yaml"
    suite.write_text(
        f"name: two\nbenchmarks:\n  - {{name: First, source: {bench.name}}}\n"
        f"  - {{name: Second, source: {other}}}\n"
    )
    values = {
        "data": str(leaking),
        "model": "unused",
        "recipe": "grpo",
        "against": (str(suite),),
        "to": "verl",
        "workers": 1,
        "quiet": True,
        "batch": 4,
        "mini_batch": 2,
        "image_encoder": None,
    }
    with pytest.raises(GateError, match="Gate failed: 2 .*First"):
        heldout.train(out=tmp_path / "run", **values)
    made = heldout.train(out=tmp_path / "run", remove_leaks=True, **values)
    assert [(one["benchmark"], one["items"], one["leaked"]) for one in made.gate.benchmarks] == [
        ("First", 6, 2),
        ("Second", 4, 0),
    ]
    assert (made.rows, made.gate.removed) == (8, 2)
    first = made.gate.benchmarks[0]
    card = model_card(read_training(made.run))
    assert f"({Path(first['source']).name}, revision `{first['revision'][:12]}`)" in card
    suite.write_text("name: two\nbenchmarks:\n  - {name: First, source: ./gone.jsonl}\n")
    with pytest.raises(InputError, match=r"suite two, .*First"):
        heldout.train(out=tmp_path / "gone", **values)


def test_names_are_suites_where_no_benchmark_has_them() -> None:
    from heldout.audit.verbs import _is_suite

    assert [_is_suite(name) for name in ("medvlsynther", "mmstar", "rows.jsonl", "mine.yml")] == [
        True,
        False,
        False,
        True,
    ]
