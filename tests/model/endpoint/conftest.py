"""Servers that tests ask: real processes on this machine, one per tiny model for all tests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endpoint_serving import ANSWERS, QUESTIONS, Server
from PIL import Image

from heldout.model.endpoint import Backoff, Connection


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serves whatever model is saved under its folder."""
    pytest.importorskip("transformers")
    running = Server(tmp_path_factory.mktemp("models"))  # starts while we build the models
    import endpoint_models as make

    words = make.tokenizer([*QUESTIONS, *ANSWERS] * 3, 340)
    looking, processor = make.picture_model(words)
    make.save(running.folder / "tiny-text", make.text_model(words), words)
    make.save(running.folder / "tiny-llava", looking, processor)
    yield running
    running.stop()


@pytest.fixture
def connect(server: Server) -> Callable[..., Connection]:
    def connect(how: str = "plain", **changed: Any) -> Connection:
        quick = Backoff(attempts=4, first_seconds=0.01)
        return Connection(server.url(how), **{"backoff": quick, "timeout": 20.0, **changed})

    return connect


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 questions on 8 pictures, with options."""
    folder = tmp_path_factory.mktemp("bench")
    rows = []
    for number in range(24):
        name = f"{number // 3}.png"
        (folder / name).write_bytes(picture(number // 3))
        question = f"{QUESTIONS[number % len(QUESTIONS)]} ({number})"
        answer = ANSWERS[number % len(ANSWERS)]
        options = [answer, ANSWERS[(number + 1) % len(ANSWERS)]]
        rows.append(
            {
                "id": f"q{number}",
                "image": name,
                "question": question,
                "options": options,
                "answer": answer,
            }
        )
    path = folder / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def text_bench(bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "test.jsonl"
    rows = [json.loads(line) for line in bench.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({k: v for k, v in row.items() if k != "image"}) + "\n" for row in rows)
    )
    return path
