"""Select: equal buckets, shares of images, one draw per seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.synth import SynthSettings, synth
from heldout.synth._select import bucket_of, draw, shared_out
from heldout.synth.draft import labels_of_caption


def settings(**values: Any) -> SynthSettings:
    return SynthSettings(source="x", **values)


def buckets(**sizes: int) -> dict[str, list[tuple[str, int]]]:
    return {
        name: [(f"{name}/{number}", 1) for number in range(size)] for name, size in sizes.items()
    }


@pytest.mark.parametrize(
    ("limit", "quota", "sizes", "expected"),
    [
        (30, None, {"a": 50, "b": 50, "c": 50}, [10, 10, 10]),
        (30, None, {"a": 2, "b": 50, "c": 50}, [2, 14, 14]),  # what a cannot fill goes to b and c
        (30, 12, {"a": 2, "b": 50, "c": 50}, [2, 12, 12]),
        (None, 5, {"a": 2, "b": 50, "c": 50}, [2, 5, 5]),
        (None, None, {"a": 2, "b": 50, "c": 50}, [2, 50, 50]),
        (200, None, {"a": 2, "b": 50, "c": 50}, [2, 50, 50]),
    ],
)
def test_buckets_get_equal_parts(
    limit: int | None, quota: int | None, sizes: dict[str, int], expected: list[int]
) -> None:
    chosen = draw(buckets(**sizes), settings(limit=limit, quota=quota))
    counts = Counter(chosen.values())
    assert [counts[name] for name in sizes] == expected


def test_a_limit_below_the_number_of_labels_still_selects_that_many() -> None:
    many = {f"label {number}": 3 for number in range(20)}
    parts = shared_out(many, settings(limit=7))
    assert sum(parts.values()) == 7 and max(parts.values()) == 1
    other = shared_out(many, settings(limit=7, seed=1))
    assert {name for name in parts if parts[name]} != {name for name in other if other[name]}


def test_shares_by_number_of_images_are_kept_as_far_as_there_are_such_figures() -> None:
    bucket = [(f"{images}/{number:03d}", images) for images in range(1, 7) for number in range(200)]
    chosen = draw({"ct": bucket}, settings(limit=100))
    assert Counter(name[0] for name in chosen) == {
        "1": 90,
        "2": 2,
        "3": 2,
        "4": 2,
        "5": 2,
        "6": 2,
    }
    few = [(f"{images}/{number:03d}", images) for images in (1, 2) for number in range(30)]
    counts = Counter(name[0] for name in draw({"ct": few}, settings(limit=50)))
    assert counts == {"1": 30, "2": 20}  # the quota is filled although the shares cannot be met
    shares = (0.5, 0.5)
    counts = Counter(name[0] for name in draw({"ct": few}, settings(limit=20, image_shares=shares)))
    assert counts == {"1": 10, "2": 10}


def test_a_seed_draws_the_same_figures_whatever_the_order_of_the_source() -> None:
    bucket = buckets(a=100)["a"]
    first = draw({"a": bucket}, settings(limit=10))
    assert first == draw({"a": bucket[::-1]}, settings(limit=10))
    assert first != draw({"a": bucket}, settings(limit=10, seed=7))


def test_labels_select() -> None:
    assert (
        bucket_of("Clinical Imaging", "x-ray radiography; chest", settings()) == "x-ray radiography"
    )
    assert bucket_of("plot", "bar plot", settings()) is None
    assert bucket_of("plot", "bar plot", settings(labels=("Bar plot",))) == "bar plot"
    assert bucket_of("", "", settings(labels=("all",))) == "unlabelled"


@pytest.mark.parametrize(
    ("caption", "label"),
    [
        ("Axial CT of the chest shows a nodule.", "computerized tomography"),
        ("T2-weighted MRI of the brain.", "magnetic resonance"),
        ("H&E stain, magnification 400×.", "light microscopy"),
        ("Optical coherence tomography of the macula.", "optical coherence tomography"),
        ("Bar graph of survival, p < 0.05.", "plot"),
        ("The bold line marks the border.", "other"),  # no BOLD signal
        ("Act of kindness.", "other"),
        ("Bars are mean ± SEM of six animals.", "plot"),  # no electron microscope
        ("SEM image of a diatom.", "electron microscopy"),
        ("Neurites of the lobe, scale bar 5 µm.", "unspecified microscopy"),
    ],
)
def test_captions_without_labels_get_them_by_rule(caption: str, label: str) -> None:
    assert labels_of_caption(caption)[1] == label


def test_images_are_copied_and_a_lost_one_drops_its_figure(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.png").write_bytes(picture(ord(name), (40, 30)))
        (folder / f"{name}.txt").write_text(f"CT {name}")
    common: dict[str, Any] = {
        "source": str(folder),
        "any_licence": True,
        "out": tmp_path / "run",
        "quiet": True,
    }
    synth(stages=("ingest",), **common)
    (folder / "c.png").write_bytes(picture(2, (40, 30)))  # changed since
    made = synth(stages=("select",), **common)
    assert made.figures["id"].to_list() == ["in/a.png", "in/b.png"]
    assert len(list((tmp_path / "run/synth/images").rglob("*.png"))) == 2
    (lost,) = made.dropped.to_dicts()
    assert (lost["id"], lost["reason"]) == ("in/c.png", "missing image")
    again = synth(stages=("ingest", "select"), **common)  # a changed source is read again
    assert len(again.figures) == 3


def test_the_default_labels_fit_real_articles(shared_data: Path, tmp_path: Path) -> None:
    articles = shared_data / "pmc_articles"
    if not articles.is_dir():
        pytest.skip(f"no articles at {articles}")
    both = ("ingest", "select")
    made = synth(source=str(articles), stages=both, out=tmp_path / "run", quiet=True)
    assert set(made.figures["primary"]) == {"microscopy"} and made.figures.height >= 3
    command = ["synth", str(articles), "--stages", "ingest,select", "--label", "eye", "--quiet"]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
    assert "--label (" in str(done.exception)
    few = synth(
        source=str(articles),
        stages=both,
        labels=("plot", "map"),
        limit=9,
        quota=5,
        out=tmp_path / "run",
        quiet=True,
    )
    why = few.dropped.filter(few.dropped["stage"] == "select")
    counts = dict(why["reason"].value_counts().rows())
    assert few.figures.height == 8 and set(counts) == {"label not selected", "quota full"}
    one = synth(
        source=str(articles),
        stages=both,
        labels=("plot",),
        limit=9,
        out=tmp_path / "run",
        quiet=True,
    )
    assert one.figures.height == 9 and "limit reached" in one.dropped["reason"].to_list()
