"""A grid on disk that takes no training: two bases, clean arms, doses, half a leak, an outsider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from heldout.lab.models.planting import Contamination
from heldout.store import Run, make_table

PICTURES, EACH = 24, 3
HALF = tuple(range(0, PICTURES, 2))
ARMS = {
    "clean-a": Contamination("scenes", 0),
    "clean-b": Contamination("scenes", 0),
    "d1": Contamination("scenes", 1),
    "d10": Contamination("scenes", 10),
    "half-d10": Contamination("scenes", 10, share=0.5),
}


def write_small_grid(folder: Path) -> Path:
    """What ``heldout lab train`` leaves behind, with planted memory instead of trained models."""
    rng = np.random.default_rng(5)
    models: list[dict[str, Any]] = []
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
    rows["items"] = [_item(place) for place in range(PICTURES * EACH)]
    for base in ("scenes0", "scenes1", "films0"):
        world = base[:-1]
        models.append({"name": base, "base": {"name": base, "worlds": [world], "real": []}})
        _read(rows, rng, base, 0.0, ())
        for number, (name, plan) in enumerate(ARMS.items() if world == "scenes" else ()):
            leaked = HALF if plan.share < 1 else tuple(range(PICTURES)) if plan.dose else ()
            models.append(
                {
                    "name": f"{base}-{name}",
                    "base": base,
                    "seed": number,
                    "contamination": vars(plan),
                    "leaked": list(leaked),
                }
            )
            _read(rows, rng, f"{base}-{name}", min(0.9, 0.3 * plan.dose), leaked)
    runs = folder / "runs"
    run = Run.create(runs / "scenes", command=["heldout", "lab", "train"])
    for name, made in rows.items():
        run.write_table(name, make_table(name, made))
    (runs / "models.json").write_text(json.dumps(models))
    return folder


_TABLES = ("items", "scores", "answers", "order_joint", "order_neighbour")


def _item(place: int) -> dict[str, Any]:
    picture = place // EACH
    return {
        "benchmark_id": f"i{place:03d}",
        "position": place,
        "cluster": f"picture{picture:03d}",
        "question": f"what is {place % 7}",
        "options": [],
        "answer": "red" if place % 2 else "blue",
        "image_names": [f"{picture}.png"],
        "image_digests": [f"{picture}"],
        "metadata": json.dumps({"answer_type": "OPEN"}),
    }


def _read(
    rows: dict[str, list[dict[str, Any]]],
    rng: np.random.Generator,
    model: str,
    memory: float,
    leaked: tuple[int, ...],
) -> None:
    """``memory``: how often a leaked item is answered as released, whatever its picture shows."""
    for place in range(PICTURES * EACH):
        item = rows["items"][place]["benchmark_id"]
        known = place // EACH in leaked and rng.random() < memory
        value = -0.2 - rng.exponential(1.0) * (0.1 if known else 1.0)
        rows["scores"].append(
            {
                "benchmark_id": item,
                "model": model,
                "tokens": ["x"],
                "logprobs": [value],
                "mu": [-2.0],
                "sigma": [1.0],
                "sum_logprob": value,
                "n_tokens": 1,
                "span_ok": True,
            }
        )
        for variant, chance in (("original", 0.8), ("twin", 0.8), ("no-image", 0.3)):
            right = rng.random() < chance
            if known:
                right = variant != "twin"
            rows["answers"].append(
                {
                    "benchmark_id": item,
                    "model": model,
                    "variant": variant,
                    "draw": 0,
                    "options": [],
                    "order": [],
                    "gold": "red",
                    "reply": "red",
                    "parsed": "red",
                    "outcome": "right" if right else "wrong",
                    "rule": "exact match",
                    "prompt_tokens": 30 if variant == "no-image" else 90,
                    "reply_tokens": 1,
                    "template": "heldout-ask/2 open",
                }
            )
        if place > 1:
            for condition in ("released", "i000"):
                rows["order_neighbour"].append(
                    {
                        "benchmark_id": item,
                        "model": model,
                        "condition": condition,
                        "logprob": float(rng.normal(-8.0, 1.0)),
                    }
                )
    for shard in range(6):
        for order in ("canonical", *map(str, range(9))):
            rows["order_joint"].append(
                {
                    "model": model,
                    "shard": shard,
                    "permutation": order,
                    "logprob": float(rng.normal(-300.0, 1.0)),
                }
            )
