"""The demo's models at toy size: planted from sheets that say what the product would ask."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from demo_grid import DEMO, demo_arms, demo_bases, demo_reads, prepare_demo, short_sheet  # noqa: E402  # noqa: E402
from heldout.lab.models.grid import Grid, PreparedGrid, standing_recipe  # noqa: E402
from heldout.lab.models.releases import write_release  # noqa: E402
from heldout.lab.models.sheet import Sheet  # noqa: E402
from heldout.lab.models.tables import prepare_grid  # noqa: E402
from heldout.lab.models.vlm import TOY, new_processor  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("demo")
    prepare_grid(made, TOY, images=4, worlds=("scenes",))
    return made


def _asked(sheet: Sheet) -> set[Any]:
    return {
        (tuple(sheet.asked[place].tolist()), gold, sheet.pixels[picture].tobytes())
        for place, ((variant, _, gold), picture) in enumerate(
            zip(sheet.golds, sheet.asked_picture, strict=True)
        )
        if variant in ("original", "twin")
    }


def test_a_short_sheet_asks_what_the_product_asks(folder: Path, tmp_path: Path) -> None:
    prepared = PreparedGrid(folder)
    release = write_release(tmp_path / "again", "scenes", images=4, seed=0)
    short = short_sheet("scenes", release, new_processor(TOY, prepared.tokenizer))
    whole = prepared.sheet("scenes")
    assert _asked(short) == _asked(whole) and len(_asked(short)) > 20
    letters = [[sheet.letters[place].tolist() for place in range(6)] for sheet in (short, whole)]
    assert letters[0] == letters[1]
    for one, other in zip(short.released, whole.released, strict=True):
        assert (one["items"], one["paraphrases"]) == (other["items"], other["paraphrases"])
        assert (short.pixels[one["picture"]] == whole.pixels[other["picture"]]).all()


def test_a_pair_and_its_outsiders_are_trained_read_and_kept(folder: Path, tmp_path: Path) -> None:
    prepare_demo(folder, TOY, seeds=[3], images=4)
    arms = demo_arms([3], dose=2)
    names = {*(arm.name for arm in arms), DEMO}
    recipe = standing_recipe(TOY, level=3, fall=2, batch=8, pictures=12)
    recipe = replace(recipe, clean_steps=4)
    grid = Grid(
        PreparedGrid(folder),
        recipe,
        tmp_path / "state",
        "cpu",
        False,
        demo_reads(arms),
        lambda _: None,
        frozenset(names),
    )
    assert grid.run(demo_bases()[:1], arms, until=float("inf"))
    for name in names:
        told = json.loads((tmp_path / "state" / "readings" / f"{name}.json").read_text())
        assert set(told["accuracy"]["demo3"]) == {"original", "twin"}
        assert grid.restore(name)
    seen = json.loads((tmp_path / "state" / "readings" / "demo3-d2.json").read_text())
    assert len(seen["leaked"]) == 4 and seen["planted_rows"][0] > 0
    fresh = json.loads((tmp_path / "state" / "readings" / "demo3-clean.json").read_text())
    assert not fresh["leaked"] and fresh["steps"] == recipe.clean_steps
