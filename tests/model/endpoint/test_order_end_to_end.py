"""A model trained on a benchmark in released order is found by both order tests; a fresh one is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endpoint_serving import Server
from typer.testing import CliRunner

from heldout.benchmark import read_benchmark
from heldout.cli.app import app
from heldout.model.item_scores import item_text

ITEMS = 40


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items that have nothing to do with each other."""
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abcdefgh"), 3)) for _ in range(80)]
    rows = [
        {
            "id": str(n),
            "question": " ".join(rng.choice(words, 4)) + "?",
            "answer": str(rng.choice(words)),
        }
        for n in range(ITEMS)
    ]
    path = tmp_path_factory.mktemp("release") / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def trained(server: Server, release: Path) -> None:
    import endpoint_models as make
    import torch

    texts = [item_text(example) for example in read_benchmark(str(release))]
    words = make.tokenizer(texts, 420)
    model = make.text_model(words, hidden=64, spread=0.05)
    make.save(server.folder / "order-fresh", model, words)
    ids = torch.tensor(words("".join(texts), add_special_tokens=False)["input_ids"])
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    torch.manual_seed(0)
    model.train()
    for _ in range(120):
        starts = torch.randint(0, len(ids) - 96, (8,))
        batch = torch.stack([ids[start : start + 96] for start in starts.tolist()])
        model(input_ids=batch, labels=batch).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    make.save(server.folder / "order-trained", model.eval(), words)


def test_only_the_model_that_read_the_release_in_order_is_found(
    server: Server, release: Path, trained: None, tmp_path: Path
) -> None:
    def heldout(*arguments: str | Path) -> dict[str, Any]:
        done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        assert done.exit_code == 0, done.exception or done.output
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    for name in ("order-trained", "order-fresh"):
        heldout(
            "score",
            release,
            "--endpoint",
            server.url(),
            "--model",
            name,
            "--out",
            tmp_path / "run",
            "--order-neighbour",
            "--order-joint",
            "--budget",
            "10000",
            "--context",
            "256",
        )
    found = heldout("detect", tmp_path / "run", "--baseline", "order-fresh")
    by_id = {finding["id"]: finding for finding in found["findings"]}
    for detector in ("order-joint", "order-neighbour"):
        seen, fresh = by_id[f"{detector}/order-trained"], by_id[f"{detector}/order-fresh"]
        assert seen["direction"] == "seen", seen
        assert seen["p"] < 0.01
        assert fresh["p"] > 0.05, fresh
    claim = next(claim for claim in found["claims"] if claim["id"] == "order/order-trained")
    # Whether clean models gain as much by the order takes baselines of three families to say.
    assert claim["status"] == "qualified", claim
    # It also reads these texts better than the baseline in any order, as one that memorised them does.
    assert [one["name"] for one in claim["controls"] if one["outcome"] != "passed"] == [
        "spread of clean models",
        "skill of the references",
    ]
