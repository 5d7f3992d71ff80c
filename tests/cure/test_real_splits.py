"""VQA-RAD and SLAKE, cured: the figures a reader can count by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.benchmark import Benchmark
from heldout.benchmark.benchmark import normal
from heldout.benchmark.writers import open_tables
from heldout.corpus import open_corpus
from heldout.cure import Policy, write_clean_split, write_new_splits
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.overlap import scan
from heldout.store import Run


def scanned(bench: Benchmark, train: list[dict[str, str]], images: Path, folder: Path) -> Run:
    """A run against some rows of a training set: all of them would read each image ten times."""
    folder.mkdir()
    (folder / "train.json").write_text(json.dumps(train))
    corpus = open_corpus(str(folder / "train.json"), name="train", images=str(images))
    run = Run.create(folder / "run", command=["test"])
    with run.writing(), open_engine("local", 1) as engine:
        scan(bench, [corpus], run, engine, hashes=False, quiet=True)
    return run


def one_per_image(train: list[dict[str, str]], image: str) -> list[dict[str, str]]:
    return list({row[image]: row for row in train}.values())


def rows(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(path.read_text())
    return found


def asked(row: dict[str, str]) -> tuple[str, str]:
    return row["image_name"], normal(row["question"])


def test_vqa_rad_has_no_unseen_test_image_but_435_unseen_questions(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "vqa_rad"
    train_rows, before = (rows(folder / f"mevf_{name}set.json") for name in ("train", "test"))
    shared = {asked(row) for row in before}
    asked_too = [row for row in train_rows if asked(row) in shared]
    test_images = {row["image_name"] for row in before}
    seen = [row for row in train_rows if row["image_name"] in test_images]
    opened = open_tables(f"{folder}#split=test")
    run = scanned(
        opened.benchmark,
        asked_too + one_per_image(seen, "image_name"),
        folder / "images",
        tmp_path / "scan",
    )
    with pytest.raises(InputError, match="^policy proven: .* 451 items") as told:
        write_clean_split(opened, run, tmp_path / "same", Policy())
    assert "removes the 16 items" in str(told.value)
    assert "the setting resplit" in str(told.value)
    assert not (tmp_path / "same").exists()
    manifest = write_clean_split(opened, run, tmp_path / "full", Policy("full"))
    assert manifest["removed"]["items"] == 16
    assert (manifest["clean"]["items"], manifest["clean"]["images"]) == (435, 203)
    assert manifest["differences"] == []
    train = {
        (*asked(row), normal(str(row["answer"]))) for row in rows(folder / "mevf_trainset.json")
    }
    before = rows(folder / "mevf_testset.json")
    clean = rows(tmp_path / "full/clean/mevf_testset.json")
    leaked = [row for row in before if (*asked(row), normal(str(row["answer"]))) in train]
    assert len(leaked) == 16
    assert clean == [row for row in before if row not in leaked]


def test_vqa_rad_split_anew_shares_no_image_and_loses_no_question(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "vqa_rad"
    opened = [open_tables(f"{folder}#split={split}") for split in ("test", "train")]
    manifest = write_new_splits(opened, tmp_path / "out", stratify="image_organ")
    assert manifest["shared_images"] == 0
    assert manifest["differences"] == []
    names = ("mevf_testset.json", "mevf_trainset.json")
    before = [row for name in names for row in rows(folder / name)]
    test, train = (rows(tmp_path / "out/clean" / name) for name in names)
    assert len(before) == len(test) + len(train) == 3515
    key = json.dumps
    assert sorted(map(key, before)) == sorted(map(key, test + train))
    assert not {row["image_name"] for row in test} & {row["image_name"] for row in train}
    assert not {(*asked(row), row["answer"]) for row in test} & {
        (*asked(row), row["answer"]) for row in train
    }
    assert abs(len(test) - 451) <= 20
    for organ in ("CHEST", "HEAD", "ABD"):  # every organ keeps its share of the union
        whole = sum(row["image_organ"].strip() == organ for row in before)
        new = sum(row["image_organ"].strip() == organ for row in test)
        assert abs(new / len(test) - whole / len(before)) < 0.03, organ


def test_slake_english_test_keeps_the_24_images_that_chinese_training_has_not(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "slake"
    source = f"{folder}#split=test,lang=en"
    chinese = [row for row in rows(folder / "official_train.json") if row["q_lang"] == "zh"]
    test_images = {row["img_name"] for row in rows(folder / "official_test.json")}
    shown = [r for r in one_per_image(chinese, "img_name") if r["img_name"] in test_images]
    opened = open_tables(source)
    run = scanned(opened.benchmark, shown, folder / "images", tmp_path / "scan")
    manifest = write_clean_split(opened, run, tmp_path / "out", Policy())
    assert (manifest["benchmark"]["items"], manifest["benchmark"]["images"]) == (1061, 96)
    assert manifest["clean"]["images"] == 24
    assert manifest["benchmark"]["rows_not_selected"] == 1033
    assert manifest["differences"] == []
    assert manifest["cautions"][-1].startswith("only 24 images ")
    trained = {row["img_name"] for row in chinese}
    expected = [
        row
        for row in rows(folder / "official_test.json")
        if row["q_lang"] == "en" and row["img_name"] not in trained
    ]
    assert rows(tmp_path / "out/clean/official_test.json") == expected
    assert manifest["clean"]["items"] == len(expected)
