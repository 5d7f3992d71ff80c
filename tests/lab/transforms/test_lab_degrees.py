"""Degrees of an encoder: what light copies, near pictures and different pictures reach."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.lab.transforms.degrees import degrees_page, measure_degrees
from heldout.scenes import random_scene, render
from heldout.scenes.world import rearranged

pytest.importorskip("cv2")


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Scenes, and other scenes with a second view of each."""
    folder = tmp_path_factory.mktemp("degrees")
    for part, name in enumerate(("apart", "near")):
        (folder / name).mkdir()
        for number in range(8):
            rng = np.random.default_rng((part, number))
            scene = random_scene(rng)
            render(scene, 224).save(folder / name / f"{number}.png")
            if part:
                render(rearranged(scene, rng), 224).save(folder / name / f"{number}-near.png")
    return [str(folder / "apart"), str(folder / "near")]


def test_bounds_part_copies_near_and_different_pictures(
    collections: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "degrees.json"
    done = CliRunner().invoke(
        app, ["lab", "degrees", *collections, "--queries", "8", "--out", str(out), "--quiet"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())[0]
    assert f"--degrees hard={found['hard']:g},soft={found['soft']:g}" in done.stdout
    hard, soft = found["degrees"]
    assert 1 >= found["hard"] > found["soft"] > 0
    assert soft["different"]["hits"] == 0
    assert soft["different"]["n"] == 8 * 16
    nearest = {one["name"]: one for one in found["others"]}
    # A second view is nearer than any other scene.
    assert nearest["near, nearest in itself"]["median"] > nearest["apart and near, nearest"]["most"]
    assert hard["near"]["hits"] <= soft["near"]["hits"]
    assert hard["light_copies"]["hits"] <= soft["light_copies"]["hits"] <= soft["light_copies"]["n"]
    assert [row["bound"] for row in found["published"]] == [0.98, 0.95]
    assert "hard, published" in done.stdout


def test_collections_of_one_name_are_kept_apart(collections: list[str], tmp_path: Path) -> None:
    """SLAKE's folder of pictures and VQA-RAD's are both called images."""
    for name, source in zip(("a", "b"), collections, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "images").symlink_to(source)
    sources = [str(tmp_path / name / "images") for name in ("a", "b")]
    found = measure_degrees("pixels", sources, queries=2, quiet=True)
    assert [one.name for one in found.others] == [
        "a/images, nearest in itself",
        "b/images, nearest in itself",
        "a/images and b/images, nearest",
    ]
    assert found.degrees[0].near.n == 24


def test_an_encoder_that_cannot_tell_says_so(collections: list[str]) -> None:
    found = measure_degrees("pixels", collections, queries=4, pictures=6, quiet=True)
    blurred = found.model_copy(
        update={
            "degrees": [
                found.degrees[0].model_copy(update={"light_copies": found.degrees[0].different})
            ]
        }
    )
    assert "Let registration decide" in degrees_page([blurred])
    with pytest.raises(InputError, match="two collections"):
        measure_degrees("pixels", collections[:1], quiet=True)


def test_the_published_degrees_are_reachable_in_lab_transforms(
    collections: list[str], tmp_path: Path
) -> None:
    arguments = [
        "lab",
        "transforms",
        collections[1],
        "--transform",
        "jpeg-75",
        "--queries",
        "2",
        "--quiet",
        "--json",
    ]
    done = CliRunner().invoke(
        app, [*arguments, "--degrees", "published", "--out", str(tmp_path / "a")]
    )
    assert done.exit_code == 0, done.output
    study = json.loads(done.stdout)[0]
    fixed = {one["name"]: one["value"] for one in study["thresholds"] if one["kind"] == "degree"}
    assert fixed == {"hard": 0.98, "soft": 0.95}
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "b")])
    study = json.loads(done.stdout)[0]
    fixed = {one["name"]: one["value"] for one in study["thresholds"] if one["kind"] == "degree"}
    assert fixed == {"hard": 0.63, "soft": 0.5}  # those of the table, for this encoder
