"""scenes.jsonl holds the exact scenes, is no table, and leaves the benchmark as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.scenes import WrittenBenchmark, read_scenes, render, write_benchmark
from heldout.scenes.benchmark import NAME


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> WrittenBenchmark:
    return write_benchmark(tmp_path_factory.mktemp("scenes") / "bench", images=6, seed=3)


def test_scenes_come_back_as_they_were_and_redraw_their_pictures(
    written: WrittenBenchmark,
) -> None:
    drawn = read_scenes(written.folder)
    assert {image: one.scene for image, one in drawn.items()} == written.scenes
    for one in drawn.values():
        assert pixel_digest(render(one.scene, one.size)) == one.pixels


def test_the_folder_is_a_benchmark_and_a_corpus(
    written: WrittenBenchmark,
) -> None:
    assert len(read_benchmark(written.folder)) == written.items
    corpus = open_corpus(written.folder)
    ids = [item.id for shard in corpus.shards() for item in corpus.read(shard)]
    # A corpus is all of its files: what the pictures were drawn from, too.
    assert len([one for one in ids if not one.startswith("scenes")]) == written.items


def test_a_folder_without_scenes_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no scenes.jsonl"):
        read_scenes(tmp_path)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"image": "a.png"}', "line 3: not a scene"),
        ("{", "line 3"),
        ('["a"]', "line 3"),
        ("[" * 100_000, "line 3"),
    ],
)
def test_a_broken_line_is_named(
    line: str, told: str, written: WrittenBenchmark, tmp_path: Path
) -> None:
    whole = (written.folder / NAME).read_text().splitlines()
    (tmp_path / NAME).write_text("\n".join([*whole[:2], line]))
    with pytest.raises(InputError, match=told):
        read_scenes(tmp_path)


@pytest.mark.parametrize(
    ("where", "value"),
    [("size", 10**6), ("objects", []), ("background", {"tone": "void", "angle": 0, "grain": 1})],
)
def test_values_no_scene_has_are_refused(
    where: str, value: object, written: WrittenBenchmark, tmp_path: Path
) -> None:
    header, first, *_ = (written.folder / NAME).read_text().splitlines()
    row = {**json.loads(first), where: value}
    (tmp_path / NAME).write_text(f"{header}\n{json.dumps(row)}\n")
    with pytest.raises(InputError, match="line 2: "):
        read_scenes(tmp_path)


def test_another_version_is_refused(written: WrittenBenchmark, tmp_path: Path) -> None:
    text = (written.folder / NAME).read_text().replace("scenes 1", "scenes 2", 1)
    (tmp_path / NAME).write_text(text)
    with pytest.raises(InputError, match="line 1"):
        read_scenes(tmp_path)
