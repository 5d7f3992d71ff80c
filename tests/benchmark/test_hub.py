"""Datasets of the hub: read from the cache without loading images, refused with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark.hub import _reachable, hub_name, hub_rows
from heldout.errors import InputError
from heldout.image import ArrowCell, InlineBytes

Picture = Callable[..., bytes]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.fixture
def published(tmp_path: Path, picture: Picture) -> Path:
    import datasets

    folder = tmp_path / "published" / "data"
    folder.mkdir(parents=True)
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "question": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["normal", "fracture"]),
        }
    )
    for split, first in (("train", 0), ("validation", 4)):
        rows = {
            "image": [{"bytes": picture(i), "path": f"{i}.png"} for i in range(first, first + 4)],
            "question": [f"q{i}" for i in range(first, first + 4)],
            "label": [i % 2 for i in range(4)],
        }
        data = datasets.Dataset.from_dict(rows, features=features)
        data.to_parquet(str(folder / f"{split}-00000-of-00001.parquet"))
    return folder.parent


def test_original_bytes_by_reference(published: Path, picture: Picture) -> None:
    rows = list(hub_rows(str(published), None, "validation"))
    assert [row.number for row in rows] == [1, 2, 3, 4]  # type: ignore[union-attr]
    images = [row.values["image"] for row in rows]  # type: ignore[union-attr]
    assert all(isinstance(image.location, ArrowCell) for image in images)
    assert [image.read() for image in images] == [picture(i) for i in range(4, 8)]
    assert [row.values["label"] for row in rows] == ["normal", "fracture"] * 2  # type: ignore[union-attr]


def test_split_is_found_under_its_other_spelling(published: Path) -> None:
    first = next(hub_rows(str(published), None, "val"))
    assert first.values["question"] == "q4"  # type: ignore[union-attr]


def test_rows_that_exist_only_in_memory(
    published: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.IN_MEMORY_MAX_SIZE", 1 << 30)
    rows = list(hub_rows(str(published), None, "train"))
    found = [row.values["image"] for row in rows]  # type: ignore[union-attr]
    assert all(not isinstance(getattr(image, "location", None), InlineBytes) for image in found)
    assert [image["bytes"] for image in found] == [picture(i) for i in range(4)]


def test_files_that_datasets_unpacked_are_found_only_below_the_dataset(
    tmp_path: Path, picture: Picture
) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "1.png").write_bytes(picture(1))
    (tmp_path / "secret.png").write_bytes(picture(2))
    paths = [str(folder / "1.png"), str(tmp_path / "secret.png")]
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    cells = pa.array([{"bytes": None, "path": path} for path in paths], struct)
    described = '{"info": {"features": {"image": {"_type": "Image"}}}}'
    table = pa.table({"image": cells}).replace_schema_metadata({"huggingface": described})
    pq.write_table(table, folder / "train.parquet")
    inside, outside = (r.values["image"] for r in hub_rows(str(folder), None, "train"))  # type: ignore[union-attr]
    assert inside.read() == picture(1)
    assert outside == paths[1]  # a name: ImageFinder will refuse it


def test_what_is_a_name_and_what_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert hub_name("owner/name") == "owner/name"
    assert hub_name("hf://owner/name") == "owner/name"
    assert hub_name("data/tset") is None
    assert hub_name("owner/test.json") is None
    assert hub_name("name") is None
    assert hub_name("/owner/name") is None
    (tmp_path / "owner" / "name").mkdir(parents=True)
    assert hub_name("owner/name") is None


def test_unknown_split_is_a_sentence(published: Path) -> None:
    with pytest.raises(InputError, match=r"split 'testmini'.*#split=…,config=…"):
        list(hub_rows(str(published), None, "testmini"))


def test_a_hub_that_takes_no_connection_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heldout.benchmark.hub._reachable", lambda: False)
    asked: list[bool] = []

    def load(*_: object, **__: object) -> None:
        from huggingface_hub import constants

        asked.append(constants.HF_HUB_OFFLINE)
        raise ConnectionError("offline")

    monkeypatch.setattr("datasets.load_dataset", load)
    with pytest.raises(InputError, match="cannot be reached"):
        list(hub_rows("nobody/nothing-here", None, None))
    assert asked == [True]


def test_a_closed_port_is_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert not _reachable()


def test_unreachable_hub_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "from heldout.benchmark import read_benchmark\n"
        "from heldout.errors import InputError\n"
        "for name in ('nobody/nothing-here', 'slake-en'):\n"
        "    try:\n        read_benchmark(name)\n"
        "    except InputError as error:\n        print(error)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert "'nobody/nothing-here'" in lines[0]
    assert "mdwiratathya/SLAKE-vqa-english" in lines[1]
    assert all("setting preset" in line for line in lines)
