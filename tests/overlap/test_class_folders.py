"""Folders of classes are labels: of the benchmark, and of a corpus whose folders are called alike."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import heldout
from heldout.overlap.judgements import FolderLabels
from heldout.store import make_table


def frame(name: str, rows: Iterable[dict[str, Any]]) -> pl.DataFrame:
    table = pl.from_arrow(make_table(name, rows))
    assert isinstance(table, pl.DataFrame)
    return table


def labelled(
    corpus_ids: list[str], *, question: str = "", relation: str = "same image"
) -> list[str]:
    """Label relations of copies of one cat and of dogs after it."""
    items = [
        {"benchmark_id": str(n), "question": question, "answer": "Dog" if n else "cat"}
        for n in range(len(corpus_ids))
    ]
    matches = [
        {
            "benchmark_id": str(n),
            "corpus": "web",
            "corpus_id": name,
            "relation": relation,
            "modality": "image only",
            "label_relation": "unknown",
            "evidence": json.dumps({"corpus_answer": ""}),
        }
        for n, name in enumerate(corpus_ids)
    ]
    labels = FolderLabels.of(frame("items", items))
    labels.look(frame("matches", matches))
    found = labels.give(frame("matches", matches))
    assert all(
        (row["modality"] == "full") == (row["label_relation"] == "same")
        for row in found.iter_rows(named=True)
    )
    return found["label_relation"].to_list()


@pytest.mark.parametrize(
    ("corpus_ids", "expected"),
    [
        (["cat/1.jpg", "dog/2.jpg"], ["same", "same"]),
        (["train/dog/1.jpg", "train/dog/2.jpg"], ["different", "same"]),
        (["cat/1.jpg", "dog/2.jpg", "bird/3.jpg"], ["same", "same", "different"]),
        (["a/1.jpg", "b/2.jpg"], ["unknown", "unknown"]),  # other names say nothing
        (["cat/1.jpg", "x/2.jpg", "y/3.jpg", "z/4.jpg"], ["unknown"] * 4),  # one name by chance
        (["cat.jpg", "dog.jpg"], ["unknown", "unknown"]),  # a file's name is no class
    ],
)
def test_the_folder_of_a_copy_is_its_label(corpus_ids: list[str], expected: list[str]) -> None:
    assert labelled(corpus_ids) == expected


def test_folders_say_nothing_of_questions_or_of_look_alikes() -> None:
    names = ["cat/1.jpg", "dog/2.jpg"]
    assert labelled(names, question="What animal is this?") == ["unknown", "unknown"]
    assert labelled(names, relation="look-alike") == ["unknown", "unknown"]


def test_a_copy_under_another_class_is_a_label_conflict(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def save(name: str, pixels: np.ndarray) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)

    for n in range(6):
        pixels = rng.integers(0, 255, (48, 48, 3), dtype=np.uint8)
        label = "cat" if n % 2 else "dog"
        save(f"bench/{label}/{n}.png", pixels)
        if n < 3:  # two dogs and a cat; all are dogs in the corpus
            save(f"corpus/dog/copy{n}.png", pixels)
    result = heldout.overlap(
        tmp_path / "bench", against=[f"web={tmp_path / 'corpus'}"], run=tmp_path / "run", quiet=True
    )
    (claim,) = result.claims.filter(pl.col("claim") == "overlap/web").to_dicts()
    assert "3 of 6" in claim["sentence"] and "question" not in claim["sentence"]
    assert "2 items leaked" in claim["sentence"]
    assert "Label conflict: 1 item" in claim["sentence"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert '<span class="tag full">label conflict</span>' in page
    assert "<strong>Label conflict:</strong> 1 item" in page
    assert "2 items: copy" in page and "image and label" in page
    assert "label conflict (1)" in page and "same label (2)" in page
