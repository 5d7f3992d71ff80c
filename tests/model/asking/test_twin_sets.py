"""Twins that an audit is given: those that show the original are left out, those without answers count."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.benchmark import read_benchmark
from heldout.model import unchanged_twins
from heldout.verdict import Claim

WORDS = ["ash", "birch", "cedar", "elm"]
AUDIT = """\
benchmarks:
  - {name: trees, source: test.jsonl, twins: {twin: twins.jsonl}}
models:
  - {name: target, answers: {trees: target.jsonl}}
  - {name: weak, answers: {trees: weak.jsonl}}
  - {name: other, answers: {trees: other.jsonl}}
baselines: [weak, other]
permutations: 999
output: out
detectors: [twin-drop]
"""


def _rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def _picture(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _release(folder: Path, count: int, unchanged: int) -> tuple[list[Any], list[Any]]:
    """``unchanged``: how many twins, from the first on, show the picture of their original."""
    items, twins = [], []
    for number in range(count):
        _picture(folder / f"{number}.png", number)
        _picture(folder / f"twin{number}.png", 10_000 + number)
        gold, other = random.Random(number).sample(WORDS, 2)
        row = {
            "id": f"q{number}",
            "image": f"{number}.png",
            "question": "Which tree is it?",
            "options": WORDS,
            "answer": gold,
        }
        items.append(row)
        shown = f"{number}.png" if number < unchanged else f"twin{number}.png"
        twins.append({**row, "image": shown, "answer": other})
    _rows(folder / "test.jsonl", items)
    _rows(folder / "twins.jsonl", twins)
    return items, twins


def _claims(folder: Path, unchanged: int, count: int = 80) -> tuple[list[Claim], Path]:
    """Clean models that say what they see: the target in nine of ten, the others in half."""
    items, twins = _release(folder, count, unchanged)
    for place, (name, sees) in enumerate({"target": 0.9, "weak": 0.5, "other": 0.5}.items()):
        draw = random.Random(place)
        said = []
        for number, (item, twin) in enumerate(zip(items, twins, strict=True)):
            for variant, row in (("original", item), ("twin", twin)):
                seen = item if number < unchanged else row
                reply = seen["answer"] if draw.random() < sees else draw.choice(WORDS)
                said.append(
                    {
                        "id": item["id"],
                        "variant": variant,
                        "options": WORDS,
                        "reply": "ABCD"[WORDS.index(reply)],
                        "answer": row["answer"],
                    }
                )
        _rows(folder / f"{name}.jsonl", said)
    (folder / "audit.yaml").write_text(AUDIT)
    done = run_audit(read_audit(folder / "audit.yaml"), quiet=True)
    return [one for cell in done.overall.cells for one in cell.claims], folder / "out"


def test_twins_that_are_their_originals_convict_nobody(tmp_path: Path) -> None:
    (claim,), out = _claims(tmp_path, unchanged=80)
    assert (claim.status, claim.rule) == ("not testable", "answers/untested")
    assert "80 of 80 twins" in claim.why
    for page in ("report.html", "trees/report.html", "trees/report.md"):
        assert "80 of 80 twins" in (out / page).read_text()


def test_where_most_twins_are_their_originals_the_rest_settles_nothing(tmp_path: Path) -> None:
    (claim,), _ = _claims(tmp_path, unchanged=50)
    assert claim.status == "qualified"
    (control,) = (one for one in claim.controls if one.name == "twins that differ")
    assert control.outcome == "failed"
    assert "50 of 80 twins" in claim.why


def test_a_few_twins_that_are_their_originals_are_left_out_of_the_test(tmp_path: Path) -> None:
    (claim,), out = _claims(tmp_path, unchanged=10)
    assert claim.status == "clean"
    (finding,) = (
        one
        for one in json.loads((out / "trees/findings.json").read_text())["findings"]
        if one["cell"]["model"] == "target" and one["detector"] == "twin-drop"
    )
    assert finding["n"] == 70
    assert finding["details"]["twins_unchanged"]["count"] == 10
    assert finding["details"]["pairs_recorded"]["target"] == {"recorded": 70, "possible": 70}


@pytest.mark.parametrize(
    ("change", "unchanged"),
    [
        ({}, True),
        ({"image": "again.bmp"}, True),  # other bytes, the same pixels
        ({"question": "Which tree is it not?"}, False),
        ({"options": ["oak", "fir", "cedar", "elm"], "answer": "oak"}, False),
        ({"image": "twin0.png"}, False),
        ({"image": "nowhere.png"}, False),
    ],
)
def test_a_twin_is_one_by_its_picture_or_its_words(
    tmp_path: Path, change: dict[str, Any], unchanged: bool
) -> None:
    items, _ = _release(tmp_path, 2, 0)
    Image.open(tmp_path / "0.png").save(tmp_path / "again.bmp")
    other = next(word for word in WORDS if word != items[0]["answer"])
    _rows(tmp_path / "twins.jsonl", [{**items[0], "answer": other, **change}])
    sides = (read_benchmark(str(tmp_path / name)) for name in ("test.jsonl", "twins.jsonl"))
    found = unchanged_twins(*sides)
    assert found == (frozenset({"q0"}) if unchanged else frozenset())


def test_twins_that_no_model_answered_are_counted_by_the_twins_that_were_given(
    tmp_path: Path,
) -> None:
    _claims(tmp_path, unchanged=0)
    for name in ("target", "weak", "other"):
        path = tmp_path / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        _rows(path, [row for row in rows if row["variant"] == "original" or row["id"] < "q4"])
    done = run_audit(read_audit(tmp_path / "audit.yaml"), quiet=True)
    (claim,) = (one for cell in done.overall.cells for one in cell.claims)
    assert claim.status == "qualified"
    assert "of 80 twins" in claim.why


def test_too_few_pictures_are_the_reason_that_every_page_gives(tmp_path: Path) -> None:
    (claim,), out = _claims(tmp_path, unchanged=0, count=3)
    assert (claim.status, claim.rule) == ("not testable", "answers/untested")
    assert "3 images" in claim.why and "5 are needed" in claim.why
    for page in ("report.html", "trees/report.html", "trees/report.md"):
        assert claim.why in (out / page).read_text()


def test_answers_in_one_form_make_a_cell_on_every_page_and_no_claim(tmp_path: Path) -> None:
    _claims(tmp_path, unchanged=0)
    for name in ("target", "weak", "other"):
        path = tmp_path / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        _rows(path, [row for row in rows if row["variant"] == "original"])
    shutil.rmtree(tmp_path / "out")
    audit = AUDIT.replace("detectors: [twin-drop]\n", "")  # a detector that is named is a claim
    (tmp_path / "audit.yaml").write_text(audit)
    done = run_audit(read_audit(tmp_path / "audit.yaml"), quiet=True)
    assert [(cell.on, cell.claims) for cell in done.overall.cells] == [("target", [])]
    for page in ("report.html", "trees/report.html", "trees/report.md"):
        told = (tmp_path / "out" / page).read_text()
        assert "accuracy, not memory" in told
        assert "each claim" not in told.lower()
