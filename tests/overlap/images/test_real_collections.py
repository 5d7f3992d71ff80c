"""What is known of the real collections, found without an encoder: every copy, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from heldout.audit import Conclusion, audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine

pytest.importorskip("cv2", reason="registration needs heldout[vision]")


def audit(
    bench: str, run: Path, *, hashes: bool = True, images: Path | None = None, **corpora: str | Path
) -> Conclusion:
    benchmark = read_benchmark(bench)
    opened = [open_corpus(source, name=name, images=images) for name, source in corpora.items()]
    with LocalEngine(1) as engine:
        return audit_overlap(
            benchmark,
            opened,
            run,
            engine,
            exact=not hashes,
            encoder="none",
            text=False,
            quiet=True,
        ).conclusion


def one_per_image(source: Path, path: Path, image: str, **wanted: str) -> Path:
    """``path``, with one row of each picture in ``source``: all rows would read each ten times."""
    rows = json.loads(source.read_text())
    chosen = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    path.write_text(json.dumps(list({row[image]: row for row in chosen}.values())))
    return path


def pairs(found: Conclusion) -> pl.DataFrame:
    """One row per pair of pictures, however many questions are asked about it."""
    matches = pl.from_arrow(found.run.read_table("matches"))
    assert isinstance(matches, pl.DataFrame)
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    return matches.with_columns(picture).unique(["picture", "corpus", "corpus_id"])


def test_vqa_rad_is_in_vqa_med_and_neighbouring_slices_are_not_called_copies(
    shared_data: Path, tmp_path: Path
) -> None:
    """38 of the images at hand are byte-identical; others are neighbouring slices of a study. All that
    are identical are searched, and of the others every sixth."""
    med = shared_data / "vqa_med_2019"
    rad = {path.read_bytes() for path in (shared_data / "vqa_rad/images").iterdir()}
    copied: dict[str, int] = {}
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
        images = sorted((med / f"{name}_images").iterdir())
        same = {path for path in images if path.read_bytes() in rad}
        copied[name] = len(same)
        for path in same.union(images[::6]):
            shutil.copy(path, tmp_path / name)
    assert copied == {"train": 32, "val": 6}
    found = audit(
        f"{shared_data}/vqa_rad/vqa_rad_public.json",
        tmp_path / "run",
        train=tmp_path / "train",
        val=tmp_path / "val",
    )
    matches = pairs(found)
    copies = matches.filter(pl.col("relation") == "same image")
    assert dict(copies["corpus"].value_counts().iter_rows()) == copied
    assert set(copies["method"]) == {"bytes"}
    alike = matches.filter(pl.col("relation") != "same image")
    assert len(alike) >= 3  # their hashes are as near as those of copies: registration must tell
    assert set(alike["relation"]) == {"look-alike"}


def test_every_test_image_of_vqa_rad_is_in_its_training_split(
    shared_data: Path, tmp_path: Path
) -> None:
    rad = shared_data / "vqa_rad"
    train = one_per_image(rad / "mevf_trainset.json", tmp_path / "train.json", "image_name")
    found = audit(
        f"{rad}/mevf_testset.json",
        tmp_path / "run",
        hashes=False,
        images=rad / "images",
        train=train,
    )
    images = next(finding for finding in found.findings if finding.unit == "images")
    assert (images.statistic.value, images.n) == (203, 203)
    copies = pairs(found).filter(pl.col("relation") == "same image")
    assert copies["picture"].n_unique() == 203


def test_slake_s_english_test_images_are_in_its_chinese_training_split(
    shared_data: Path, tmp_path: Path
) -> None:
    slake = shared_data / "slake"
    zh = one_per_image(slake / "official_train.json", tmp_path / "zh.json", "img_name", q_lang="zh")
    found = audit(
        f"{slake}#split=test,lang=en",
        tmp_path / "run",
        hashes=False,
        images=slake / "images",
        zh=zh,
    )
    images = next(finding for finding in found.findings if finding.unit == "images")
    assert (images.statistic.value, images.n) == (72, 96)
    questions = next(finding for finding in found.findings if finding.unit == "questions")
    assert (questions.statistic.value, questions.n) == (781, 1061)
