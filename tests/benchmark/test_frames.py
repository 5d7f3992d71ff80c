"""What people hold in Python: frames of pandas and Polars, Arrow tables, datasets."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import heldout
from heldout.benchmark import read_benchmark
from heldout.errors import InputError

ROWS = {
    "stem": ["Which lantern did the keeper carry?", "Who mended the old mill wheel in May?"],
    "right": ["the green one", "the miller's aunt"],
}
COLUMNS = {"question": "stem", "answer": "right"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path / "cache"))


def frames() -> list[Any]:
    made: list[Any] = [pl.DataFrame(ROWS), pl.LazyFrame(ROWS), pa.table(ROWS)]
    pandas = pytest.importorskip("pandas")
    datasets = pytest.importorskip("datasets")
    return [*made, pandas.DataFrame(ROWS), datasets.Dataset.from_dict(ROWS)]


def test_a_frame_is_a_benchmark_and_a_corpus(tmp_path: Path) -> None:
    benches = [read_benchmark(frame, mapping=COLUMNS) for frame in frames()]
    assert {bench.name for bench in benches} == {"frame"}
    assert len({bench.fingerprint for bench in benches}) == 1
    for number, frame in enumerate(frames()):
        result = heldout.overlap(
            pl.DataFrame(ROWS),
            {"train": frame},
            tmp_path / str(number),
            map=COLUMNS,
            encoder="none",
            text_encoder="none",
            quiet=True,
        )
        assert set(result.matches["corpus"]) | set(result.text_matches["corpus"]) == {"train"}
        assert result.text_matches["benchmark_id"].n_unique() == 2


def test_the_same_frame_is_the_same_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": "none", "text_encoder": "none", "quiet": True}
    for _ in range(2):
        heldout.overlap(
            pl.DataFrame(ROWS), pa.table(ROWS), tmp_path / "run", map=COLUMNS, **options
        )
    with pytest.raises(
        InputError, match="another mapping: question=stem.* then, now question=stem,"
    ):
        columns = {**COLUMNS, "id": "stem"}
        heldout.overlap(
            pl.DataFrame(ROWS), pa.table(ROWS), tmp_path / "run", map=columns, **options
        )


def test_pictures_of_a_dataset_are_pictures(picture: Callable[..., bytes]) -> None:
    datasets = pytest.importorskip("datasets")
    shown = [Image.open(io.BytesIO(picture(k))) for k in range(2)]
    rows = {"image": shown, "question": ["What is it?"] * 2, "label": [0, 1]}
    kinds = datasets.Features(
        image=datasets.Image(),
        question=datasets.Value("string"),
        label=datasets.ClassLabel(names=["lung", "liver"]),
    )
    bench = read_benchmark(datasets.Dataset.from_dict(rows, features=kinds))
    assert [example.answer for example in bench] == ["lung", "liver"]
    assert all(example.images[0].open().size == shown[0].size for example in bench)


def test_what_is_no_frame_and_what_no_file_can_hold_is_one_sentence() -> None:
    with pytest.raises(InputError, match="expected a path, a name, a data frame"):
        read_benchmark(3)  # type: ignore[arg-type]
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="cannot be kept"):
        read_benchmark(pandas.DataFrame({"question": [object()]}))
    with pytest.raises(InputError, match="no row"):
        read_benchmark(pl.DataFrame({"question": []}))
