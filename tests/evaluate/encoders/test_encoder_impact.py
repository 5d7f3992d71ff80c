"""`heldout impact --encoder` end to end: overlap finds what leaked, the encoder is measured on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tiny_duals import picture, write_clip, write_pictures
from typer.testing import CliRunner

from heldout.benchmark import read_benchmark
from heldout.cli.app import app
from heldout.detect.impact import study_encoders
from heldout.errors import InputError
from heldout.evaluate.encoders import EncoderSettings
from heldout.evidence import leaks_of
from heldout.overlap import Bounds, parse_bounds
from heldout.overlap.judgements import regraded
from heldout.store import Run

pytest.importorskip("torch", reason="torch is not installed on this platform's suite")
pytest.importorskip("transformers")
pytest.importorskip("cv2")

CLASSES = ("red", "green", "blue")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty pictures: twelve stand in the training set, half of them under another label."""
    folder = tmp_path_factory.mktemp("world")
    rows = [
        {
            "label": CLASSES[n % 3],
            "caption": f"a {CLASSES[n % 3]} {'bcdefgh'[n % 7]} {'bcdef'[n // 7]}",
        }
        for n in range(30)
    ]
    write_pictures(folder / "test", rows)
    train = folder / "train"
    train.mkdir()
    for n in range(12):
        picture(n).save(train / f"{n:04d}.png")
        label = CLASSES[(n + (n >= 6)) % 3]
        (train / f"{n:04d}.json").write_text(json.dumps({"label": label, "caption": f"copy {n}"}))
    for n in range(40, 60):
        picture(n).save(train / f"{n:04d}.png")
        (train / f"{n:04d}.json").write_text(json.dumps({"label": CLASSES[n % 3], "caption": "x"}))
    write_clip(folder / "clip")
    write_clip(folder / "other", seed=1)
    return folder


@pytest.fixture(scope="module")
def run(world: Path) -> Path:
    arguments = [
        "overlap",
        str(world / "test/test.jsonl"),
        "--against",
        f"train={world / 'train'}",
        "--encoder",
        f"transformers:{world / 'clip'}",
        "--nearest",
        "1",
        "--workers",
        "1",
        "--quiet",
        "--degrees",
        "hard=.9,soft=-1",
        "--out",
        str(world / "run"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return world / "run"


def impact(world: Path, *more: str, encoder: str = "clip") -> dict:
    arguments = [
        "impact",
        "--encoder",
        f"transformers:{world / encoder}",
        str(world / "test/test.jsonl"),
        "--templates",
        "a photo of the {}.",
        "--json",
        *more,
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_one_command_from_an_encoder_to_the_published_tables(world: Path, run: Path) -> None:
    told = impact(world, "--run", str(run), "--train", f"train={world / 'train'}", "--queries", "5")
    models = [one["model"] for one in told["impacts"]]
    assert models == [
        f"clip: {task}" for task in ("zero-shot", "probe", "image-to-text", "text-to-image")
    ]
    zero = told["impacts"][0]
    lines = {
        (one["subset"], one["leakage"]): one for one in zero["lines"] if one["measure"] == "top-1"
    }
    assert lines["leaked", "copy"]["items"] == 12
    assert lines["same label", "copy"]["items"] == lines["different label", "copy"]["items"] == 6
    assert lines["non-leaked", "copy"]["items"] == 18
    assert lines["random", "copy"]["items"] == 12
    assert lines["random", "copy"]["sd"] is not None
    # Without a bound below, everything else has a neighbour of some degree.
    assert sum(lines[subset]["items"] for subset in lines if subset[0] == "leaked") == 30
    # The probe has seen the copies' labels: the same ones are right, the others wrong.
    probe = {
        one["subset"]: one["value"]
        for one in told["impacts"][1]["lines"]
        if one["leakage"] == "copy" and one["measure"] == "top-1"
    }
    assert probe["same label"] > probe["different label"]
    drawn = told["impacts"][2]["draws"]
    assert {one["subset"] for one in drawn} >= {"random", "leaked", "non-leaked", "same label"}
    assert all(one["items"] <= 5 for one in drawn)
    assert "draws" not in zero
    assert told["encoders"][0]["tasks"]["zero-shot"]["classes"] == 3
    kept = run / "impact-clip.items.parquet"
    frame = pl.read_parquet(kept)
    mean = frame.filter((pl.col("task") == "zero-shot") & (pl.col("measure") == "top-1"))[
        "value"
    ].mean()
    assert mean == pytest.approx(lines["original", ""]["value"])


def test_a_baseline_is_subtracted_item_by_item(world: Path, run: Path) -> None:
    more = ("--run", str(run), "--tasks", "zero-shot")
    both = [impact(world, *more, encoder=name)["impacts"][0] for name in ("clip", "other")]
    less = impact(world, *more, "--baseline", f"transformers:{world / 'other'}")["impacts"][0]
    assert less["model"] == "clip: zero-shot - other: zero-shot"

    def value(one: dict, subset: str, leakage: str) -> float:
        found = [
            line["value"]
            for line in one["lines"]
            if (line["subset"], line["leakage"], line["measure"]) == (subset, leakage, "top-1")
        ]
        return found[0]

    for subset, leakage in (("original", ""), ("leaked", "copy"), ("non-leaked", "copy")):
        apart = value(both[0], subset, leakage) - value(both[1], subset, leakage)
        assert value(less, subset, leakage) == pytest.approx(apart)


def test_degrees_of_the_call_replace_those_of_the_run(world: Path, run: Path) -> None:
    opened = Run.open(run)
    assert opened.manifest()["degrees"]["soft"] == -1
    kinds = {name: item.label for name, item in leaks_of(opened).items()}
    assert len(kinds) == 30
    assert "unknown" not in kinds.values()  # near pictures have a label beside them, too
    strict = leaks_of(opened, Bounds(0.9999999, 0.9999998))
    assert sorted(strict) == sorted(
        f"i{n}" for n in range(12)
    )  # copies stay, whatever their degree
    told = impact(world, "--run", str(run), "--degrees", "hard=.9999999,soft=.9999998")
    assert {one["leakage"] for one in told["impacts"][0]["lines"]} == {"", "copy"}


def test_saying_it_in_python(world: Path, run: Path) -> None:
    benchmark = read_benchmark(str(world / "test/test.jsonl"))
    settings = EncoderSettings(encoder=f"transformers:{world / 'clip'}", templates="{}")
    study = study_encoders(Run.open(run), benchmark, [settings], quiet=True)
    assert set(study.lines.columns) >= {
        "model",
        "subset",
        "leakage",
        "measure",
        "value",
        "low",
        "high",
    }
    assert study.differences.height == len(
        {(r[0], r[1], r[2]) for r in study.differences.iter_rows()}
    )
    assert "<table" in study._repr_html_()
    other = read_benchmark(
        str(write_pictures(world / "more", [{"label": "red"}, {"label": "red"}]))
    )
    with pytest.raises(InputError, match="about 'test'.*benchmark"):
        study_encoders(Run.open(run), other, [settings], quiet=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["impact", "p.csv", "--run", "RUN", "--train", "x"], "--train: "),
        (["impact", "--encoder", "E", "a", "b", "--run", "RUN"], "one benchmark, found 2"),
        (
            ["impact", "--encoder", "E", "a", "--run", "RUN", "--metric", "accuracy"],
            "--metric: ",
        ),
        (["impact", "--encoder", "E", "BENCH", "--run", "RUN", "--tasks", "guess"], "--tasks"),
        (["impact", "--encoder", "E", "BENCH", "--run", "RUN", "--tasks", "probe"], "training set"),
        (["impact", "p.csv", "--leaks", "l.csv", "--degrees", "published"], "--degrees: "),
        (
            ["impact", "p.csv", "--run", "RUN", "--degrees", "hard=.9,soft=.95"],
            "the hard one larger",
        ),
        (
            [
                *("overlap", "BENCH", "--against", "x", "--out", "o"),
                *("--encoder", "none", "--degrees", "published"),
            ],
            "--encoder",
        ),
    ],
)
def test_arguments_that_do_not_fit_get_a_sentence(
    world: Path, run: Path, arguments: list[str], said: str
) -> None:
    words = {
        "RUN": str(run),
        "BENCH": str(world / "test/test.jsonl"),
        "E": f"transformers:{world / 'clip'}",
    }
    done = CliRunner().invoke(app, [words.get(one, one) for one in arguments])
    assert done.exit_code != 0
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


def test_bounds_grade_their_own_encoder_alone() -> None:
    assert parse_bounds("published") == Bounds(0.98, 0.95)
    assert parse_bounds("soft = .5, hard = .75") == Bounds(0.75, 0.5)
    for text in (
        "",
        "hard=.9",
        "hard=x,soft=.5",
        "hard=.9,soft=.5,more=.1",
        "hard=2,soft=.5",
        "hard=nan,soft=.5",
    ):
        with pytest.raises(InputError, match="expected two similarities"):
            parse_bounds(text)
    matches = pl.DataFrame(
        {
            "method": ["mine", "mine", "mine", "bytes", "other"],
            "similarity": [0.75, 0.5, 0.49, 1.0, 0.99],
            "degree": ["none", "none", "hard", "hard", "none"],
        }
    )
    found = regraded(matches, Bounds(0.75, 0.5), ["mine"])["degree"].to_list()
    assert found == ["hard", "soft", "none", "hard", "none"]


def test_a_corpus_of_embeddings_is_graded_by_similarity_where_degrees_are_set(
    tmp_path: Path,
) -> None:
    from heldout.overlap.images.verify import NO_PICTURE
    from heldout.store import make_table

    run = Run.create(tmp_path / "run", command=["test"])
    run.update("stages", {"overlap:laion": {"encoder": "clip", "corpus": "laion"}})
    rows = [
        {
            "benchmark_id": f"i{n}",
            "position": n,
            "cluster": f"i{n}",
            "question": None,
            "options": [],
            "answer": "red",
            "image_names": [],
            "image_digests": ["x"],
            "metadata": "{}",
        }
        for n in range(4)
    ]
    run.write_table("items", make_table("items", rows))
    evidence = {"unverified": NO_PICTURE, "corpus_answer": "Red", "corpus_question": ""}
    matches = [
        {
            "benchmark_id": f"i{n}",
            "image_index": 0,
            "corpus": "laion",
            "corpus_id": str(n),
            "method": "clip",
            "similarity": similarity,
            "degree": "none",
            "relation": "undecided",
            "transform": "",
            "modality": "none",
            "label_relation": "unknown",
            "evidence": json.dumps(evidence),
        }
        for n, similarity in enumerate((0.99, 0.96, 0.9))
    ]
    # A pair with pictures that registration could not decide stays undecided, whatever its similarity.
    matches.append({**matches[0], "benchmark_id": "i3", "evidence": "{}"})
    run.write_table("matches", make_table("matches", matches))
    assert {one.grade.name for one in leaks_of(run).values()} == {"UNDECIDED"}
    found = leaks_of(run, parse_bounds("published"))
    degrees = {name: (item.grade.name, item.gravest.row["degree"]) for name, item in found.items()}
    assert degrees == {
        "i0": ("LOOK_ALIKE", "hard"),
        "i1": ("LOOK_ALIKE", "soft"),
        "i3": ("UNDECIDED", "hard"),
    }
    assert {found[name].label for name in ("i0", "i1")} == {"same"}


def test_planted_effects_come_out_of_saved_rows(tmp_path: Path) -> None:
    """Rows made so that leaked pictures find their caption, others by chance: the interval says so."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    count, leaked = 300, 100
    rows = [{"label": "x" if n % 2 else "y", "caption": f"c {n}"} for n in range(count)]
    path = write_pictures(tmp_path / "b", rows)
    texts = rng.normal(size=(count, 16))
    images = rng.normal(size=(count, 16))
    images[:leaked] = texts[:leaked] + 0.1 * rng.normal(size=(leaked, 16))
    for name, matrix in (("img_emb", images), ("text_emb", texts)):
        (tmp_path / "e" / name).mkdir(parents=True)
        np.save(tmp_path / "e" / name / f"{name}_0.npy", matrix.astype(np.float32))
    (tmp_path / "e/metadata").mkdir()
    table = pa.table(
        {"id": [f"i{n}" for n in range(count)], "caption": [f"c {n}" for n in range(count)]}
    )
    pq.write_table(table, tmp_path / "e/metadata/metadata_0.parquet")
    labels = tmp_path / "labels.jsonl"
    labels.write_text(
        "".join(json.dumps({"id": f"i{n}", "leaked": n < leaked}) + "\n" for n in range(count))
    )
    arguments = [
        "impact",
        "--encoder",
        f"saved:{tmp_path / 'e'}",
        str(path),
        "--leaks",
        str(labels),
        "--json",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["impacts"][0]
    owed = next(one for one in found["owed"] if one["measure"] == "R@1")
    assert owed["interval"]["low"] > 0.2
    lines = {one["subset"]: one for one in found["lines"] if one["measure"] == "R@1"}
    assert lines["leaked"]["value"] > 0.95 > 0.1 > lines["non-leaked"]["value"]
    assert abs(lines["random"]["gain"]) < 3 * lines["random"]["sd"] + 1e-9
