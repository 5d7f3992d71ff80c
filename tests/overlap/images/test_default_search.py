"""The search that nobody configured: known copies are found with the default encoder, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from command_line import run_inside
from heldout.scenes import SCENES, render
from heldout.store import Run

pytest.importorskip("cv2", reason="the default encoder is for those who have heldout[vision]")
pytestmark = pytest.mark.usefixtures("default_encoder")

ROOT = Path(__file__).resolve().parents[3]


def pictures() -> list[Image.Image]:
    """Radiographs of eight patients; rendered scenes where there is no real data."""
    shared = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared"))
    images = sorted((shared / "data/slake/images").glob("*.jpg"))
    if images:
        return [Image.open(path).convert("RGB") for path in images[3:480:60]]
    return [render(SCENES.draw(np.random.default_rng((4, number))), 256) for number in range(8)]


def test_known_copies_are_found_and_nothing_else(tmp_path: Path) -> None:
    for folder in ("bench", "corpus"):
        (tmp_path / folder).mkdir()
    *ours, first, second, third, fourth = pictures()
    rows = []
    for number, picture in enumerate(ours):
        picture.save(tmp_path / f"bench/{number}.png")
        question = f"What is to be seen in picture {number}?"
        rows.append({"id": str(number), "image": f"{number}.png", "question": question})
        rows[-1]["answer"] = "abcd"[number]
    (tmp_path / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    width, height = ours[2].size
    half = ours[2].crop((0, 0, round(0.7 * width), round(0.7 * height)))
    copies = {
        "same.png": ours[0],
        "flipped.jpg": ImageOps.mirror(ours[1]),
        "cropped.png": half,
        "other.png": first,
        "another.jpg": second,
        "third.png": third,
        "fourth.jpg": fourth,
    }
    for name, picture in copies.items():
        picture.save(tmp_path / "corpus" / name)
    words = ("overlap", tmp_path / "bench", "--against", tmp_path / "corpus")
    done = run_inside(*words, "--out", tmp_path / "run", "--workers", "1", "--quiet")
    assert done.returncode == 0, done.stderr
    matches = Run.open(tmp_path / "run").read_table("matches").to_pylist()
    called = {
        (match["benchmark_id"], match["corpus_id"]): match["method"]
        for match in matches
        if match["relation"] in ("same image", "transformed copy")
    }
    assert set(called) == {("0", "same.png"), ("1", "flipped.jpg"), ("2", "cropped.png")}
    # Hashes do not see it: it is the encoder that does.
    assert called["2", "cropped.png"] not in ("bytes", "pixels", "pdq", "phash")
    claim = json.loads((tmp_path / "run/claims.json").read_text())["claims"][0]
    assert claim["status"] == "survives" and claim["sentence"].startswith("3 of 4 ")


def test_a_pair_that_hashes_and_encoder_propose_is_one_row(tmp_path: Path) -> None:
    for folder in ("bench", "corpus"):
        (tmp_path / folder).mkdir()
    picture = pictures()[0]
    picture.save(tmp_path / "bench/0.png")
    row = {"id": "0", "image": "0.png", "question": "What is to be seen?", "answer": "a"}
    (tmp_path / "bench/test.jsonl").write_text(json.dumps(row) + "\n")
    for quality in range(
        60, 96, 3
    ):  # more than hashes let through at first, as if it were a template
        picture.save(tmp_path / f"corpus/{quality}.jpg", quality=quality)
    words = ("overlap", tmp_path / "bench", "--against", tmp_path / "corpus", "--nearest", "5")
    done = run_inside(*words, "--out", tmp_path / "run", "--workers", "1", "--quiet")
    assert done.returncode == 0, done.stderr
    matches = Run.open(tmp_path / "run").read_table("matches").to_pylist()
    assert (tmp_path / "run/stages/verified-series").exists()
    assert sorted(match["corpus_id"] for match in matches) == sorted(
        path.name for path in (tmp_path / "corpus").iterdir()
    )
