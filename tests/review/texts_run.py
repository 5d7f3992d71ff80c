"""A run of words: questions that stand in a corpus word for word, reworded, changed, or as HTML."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.store import Run

HOSTILE = "<img src=x onerror=window.hacked=1>"
WHOLE, EDITED, OTHER, UNASKED = "whole", "edited", "other", "unasked"
QUESTIONS = {
    WHOLE: (
        "Which of the three marked vessels supplies the inferior wall of the left ventricle here?",
        "posterior descending artery",
    ),
    EDITED: (
        "What is the most striking abnormality of the cerebellar hemisphere on this sagittal view?",
        "tonsillar herniation",
    ),
    OTHER: (
        "Which lobe of the left lung shows the cavity with an air fluid level on this radiograph?",
        "upper lobe",
    ),
    UNASKED: (
        "How many calcified granulomas can be counted along the course of the splenic artery now?",
        "four",
    ),
}
TOLD = {
    WHOLE: QUESTIONS[WHOLE],
    EDITED: (QUESTIONS[EDITED][0].replace("abnormality", "abnormalities"), QUESTIONS[EDITED][1]),
    OTHER: (QUESTIONS[OTHER][0].replace("left", "right"), QUESTIONS[OTHER][1]),
    "html": (
        f"What does {HOSTILE} do when a browser draws the caption of this harmless picture?",
        "",
    ),
}


def write_texts_run(root: Path) -> Path:
    """``root/run``: four items against four texts without pictures."""
    (root / "bench").mkdir(parents=True)
    rows = []
    for number, (name, (question, answer)) in enumerate(QUESTIONS.items()):
        _picture(root / f"bench/{name}.png", number)
        rows.append({"id": name, "image": f"{name}.png", "question": question, "answer": answer})
    html, _ = TOLD["html"]
    _picture(root / "bench/html.png", len(rows))
    rows.append(
        {"id": HOSTILE, "image": "html.png", "question": html, "answer": f"{HOSTILE}\u202e"}
    )
    _write(root / "bench/test.jsonl", rows)
    (root / "web").mkdir()
    told = [
        {"id": f"page-{name}", "question": question, "answer": answer}
        for name, (question, answer) in TOLD.items()
    ]
    _write(root / "web/pages.jsonl", told)
    with LocalEngine(1) as engine:
        benchmark = read_benchmark(root / "bench", name="bench")
        corpus = open_corpus(root / "web", name="web")
        run = Run.create(root / "run")
        audit_overlap(benchmark, [corpus], run, engine, quiet=True)
    return root / "run"


def _picture(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
