"""A collection holds every picture once: a copy would make a right answer look wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_pictures import benchmark, png, scene
from PIL import Image

from heldout.corpus import open_corpus
from heldout.errors import InputError
from heldout.lab import collect


def test_copies_blank_and_broken_pictures_are_left_out_and_listed() -> None:
    grey = scene(1).convert("L")
    pictures = [
        png(scene(0)),
        png(grey),
        png(grey.convert("RGB")),  # grey stored as colour looks the same to every model
        png(Image.new("RGB", (40, 40), "white")),
        b"not an image",
        png(scene(2)),
    ]
    found = collect(benchmark(pictures))
    assert [item.name for item in found.items] == ["0.png", "1.png", "5.png"]
    assert {entry.id: entry.reason for entry in found.dropped} == {
        "2.png": "duplicate image",
        "3.png": "blank image",
        "4.png": "not an image",
    }
    assert "1.png" in next(e.detail for e in found.dropped if e.id == "2.png")


def test_the_later_of_two_known_copies_is_left_out() -> None:
    pictures = [png(scene(seed)) for seed in range(4)]
    found = collect(benchmark(pictures), copies=[("3.png", "1.png")])
    assert [item.name for item in found.items] == ["0.png", "1.png", "2.png"]
    with pytest.raises(InputError, match="'9.png'"):
        collect(benchmark(pictures), copies=[("1.png", "9.png")])


def test_clusters_are_the_benchmarks_where_it_names_them() -> None:
    pictures = [png(scene(seed)) for seed in range(3)]
    found = collect(benchmark(pictures, ["patient 1", "patient 1", None]))
    assert [item.cluster for item in found.items[:2]] == ["patient 1", "patient 1"]
    assert found.items[2].cluster == found.items[2].digest


def test_a_corpus_is_a_collection_too(tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"{seed}.png").write_bytes(png(scene(seed)))
    (tmp_path / "again.png").write_bytes(png(scene(0)))
    found = collect(open_corpus(str(tmp_path), name="folder"))
    assert len(found) == 3
    assert [entry.reason for entry in found.dropped] == ["duplicate image"]
    assert len(collect(open_corpus(str(tmp_path), name="folder"), limit=2)) == 2


def test_pictures_reserved_for_figures_are_not_searched() -> None:
    found = collect(benchmark([png(scene(seed)) for seed in range(12)]))
    rest, strangers = found.reserve(5, seed=3)
    assert len(rest) == 7
    assert len(strangers) == 5
    assert set(rest.items) | set(strangers) == set(found.items)
    assert strangers == found.reserve(5, seed=3)[1]
    assert strangers != found.reserve(5, seed=4)[1]
    assert rest.sample(None, 0) == list(range(7))
    assert len(set(rest.sample(4, 0))) == 4
