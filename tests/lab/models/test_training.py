"""Training at toy size: it learns, it repeats itself by seed, and each mode touches only its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import pool, tokenizer  # noqa: E402

from heldout.lab.models.planting import PlantedRows  # noqa: E402
from heldout.lab.models.training import Data, Schedule, Trainer, drawn_steps  # noqa: E402
from heldout.lab.models.vlm import TOY, new_model  # noqa: E402

FEW = Schedule(12, 3e-3, batch=8, texts=2, warm=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder: Path = tmp_path_factory.mktemp("training")
    return Data(pool(folder), "cpu", spare=40, spare_pictures=4)


def _trained(data: Data, mode: str = "full", seed: int = 1) -> tuple[dict[str, Any], float]:
    trainer = Trainer(new_model(TOY, tokenizer(), 0), data)
    loss = trainer.train(FEW, (0, 0), seed, mode=mode)
    return trainer.weights(), loss


def test_the_loss_falls_and_a_seed_repeats_itself(data: Data) -> None:
    told: list[float] = []
    trainer = Trainer(new_model(TOY, tokenizer(), 0), data)
    trainer.train(FEW, (0, 0), 1, tell=lambda _, loss: told.append(loss), every=3)
    assert told[-1] < told[0] - 0.3
    again, _ = _trained(data)
    assert all((again[name] == value).all() for name, value in trainer.weights().items())
    other, _ = _trained(data, seed=2)
    assert any((again[name] != other[name]).any() for name in again)


@pytest.mark.parametrize("mode", ["language", "lora"])
def test_a_mode_changes_only_its_own_weights(data: Data, mode: str) -> None:
    before = new_model(TOY, tokenizer(), 0).state_dict()
    after, _ = _trained(data, mode)
    assert after.keys() == before.keys()
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed
    assert all("language_model" in name or name == "lm_head.weight" for name in changed)
    touched = any("embed_tokens" in name for name in changed)
    assert touched == (mode == "language")


def test_a_planted_row_stands_exactly_once_and_where_there_is_room(data: Data) -> None:
    rows, texts = drawn_steps(data, FEW, (30, 5), 3)
    assert sorted(rows[rows >= data.rows]) == list(range(data.rows, data.rows + 30))
    assert sorted(texts[texts >= data.texts]) == list(range(data.texts, data.texts + 5))
    with pytest.raises(ValueError, match="only 96 places"):
        drawn_steps(data, FEW, (97, 0), 3)


def test_planted_rows_point_at_the_benchmarks_pictures(data: Data) -> None:
    pixels = np.full((2, 3, TOY.picture, TOY.picture), 77, dtype=np.uint8)
    data.show(pixels)
    length = data.ids.shape[1]
    row = np.arange(length, dtype=np.int16)
    planted = PlantedRows([row, row], [row.astype(np.uint8)] * 2, [1, 0])
    assert data.plant(planted) == (2, 0)
    where = data.picture[data.rows : data.rows + 2]
    assert (data.pixels[where] == 77).all()


def test_the_rate_rises_stays_and_falls() -> None:
    schedule = Schedule(100, 1.0, warm=10, fall=20)
    assert schedule.at(0) == pytest.approx(0.1)
    assert schedule.at(50) == 1.0
    assert schedule.at(99) == pytest.approx(0.145)
