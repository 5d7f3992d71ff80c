"""A small audit of real files: two benchmarks, a corpus that holds some of one, recorded models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit

AUDIT = """\
benchmarks:
  - {name: leaky, source: leaky/test.jsonl}
  - {name: fresh, source: fresh/test.jsonl}
corpora:
  - {name: web, source: web}
models:
  - name: target
    scores: {leaky: target-leaky.jsonl, fresh: target-fresh.jsonl}
    answers: {leaky: answers-leaky.jsonl}
  - name: other
    scores: {leaky: other-leaky.jsonl, fresh: other-fresh.jsonl}
    answers: {leaky: other-answers.jsonl}
  - name: clean
    scores: {leaky: clean-leaky.jsonl, fresh: clean-fresh.jsonl}
baselines: [clean]
permutations: 499
search: {exact: true, text: true, workers: 1}
output: out
"""


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``leaky``: 40 items on 20 pictures, of which the corpus holds the first 10."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(0)
    for place, name in enumerate(("leaky", "fresh")):
        (folder / name).mkdir()
        rows: list[dict[str, object]] = []
        for number in range(40):
            image = f"{number // 2}.png"
            _picture(folder / name / image, 100 * place + number // 2)
            rows.append(
                {
                    "id": f"q{number}",
                    "image": image,
                    "question": f"{name} asks {number}?",
                    "answer": f"{name} finding {number}",
                }
            )
        _write(folder / name / "test.jsonl", rows)
        for model in ("target", "other", "clean"):
            # The target finds fresh easier the earlier an item was released: an order effect.
            trend = 5.0 if (model, name) == ("target", "fresh") else 0.0
            scores: list[dict[str, object]] = [
                {"id": row["id"], "logprobs": (-rng.exponential(size=3) - trend * n).tolist()}
                for n, row in enumerate(rows)
            ]
            _write(folder / f"{model}-{name}.jsonl", scores)
        if name == "leaky":
            for model, file in (("target", "answers-leaky"), ("other", "other-answers")):
                replies: list[dict[str, object]] = [
                    {"id": row["id"], "reply": row["answer"] if _right(model, n, rng) else "unsure"}
                    for n, row in enumerate(rows)
                ]
                _write(folder / f"{file}.jsonl", replies)
    (folder / "web").mkdir()
    for seed in (*range(10), *range(500, 530)):
        _picture(folder / "web" / f"{seed}.png", seed)
    (folder / "audit.yaml").write_text(AUDIT)
    return folder


@pytest.fixture(scope="session")
def finished(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "audit"
    shutil.copytree(prepared, folder)
    run_audit(read_audit(folder / "audit.yaml"), quiet=True)
    return folder


@pytest.fixture
def audit_folder(prepared: Path, tmp_path: Path) -> Path:
    """An audit that was never run."""
    return Path(shutil.copytree(prepared, tmp_path / "audit"))


@pytest.fixture
def finished_folder(finished: Path, tmp_path: Path) -> Path:
    """An audit that was run, for one test to spoil."""
    return Path(shutil.copytree(finished, tmp_path / "audit"))


def _right(model: str, number: int, rng: np.random.Generator) -> bool:
    """The target is right on what leaked and guesses elsewhere; the other is the same everywhere."""
    leaked = number < 20
    return bool(rng.random() < (0.95 if leaked else 0.2)) if model == "target" else number % 2 == 0


def _picture(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
