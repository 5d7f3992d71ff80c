"""Put the lab's checkpoints into the package as the demo's models, with their recipe and hashes.

    python bench/lab_grid.py train --demo … (docs/lab.md), then
    python bench/demo_models.py MODELS --seed 0 --command "…"

The package gets them as ONNX graphs, as `heldout lab onnx` exports them.

MODELS holds the checkpoints by name, and beside them recipe.json, readings/NAME.json and, where they were
kept, training-log*.json, as training wrote them. A role whose checkpoint is not there keeps the model it has.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo_grid import DEMO_DOSE
from heldout.lab.demo.data import (
    CLEAN,
    CONTAMINATED,
    OUTSIDERS,
    RECIPE,
    TABLE,
    WEIGHTS,
    WORLD,
    DemoSize,
)
from heldout.lab.models.onnx_export import export_onnx
from heldout.lab.models.releases import write_release
from heldout.model.onnx.graphs import CARD, file_sha256
from heldout.store import write_json

BASE = "demo"
BASELINES = ("demo-mixed", "demo-scenes", "demo-mostly-scenes")
EXPORT = "heldout lab onnx CHECKPOINT --out ROLE"
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "heldout" / "lab" / "demo" / "weights"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dose", type=int, default=DEMO_DOSE)
    parser.add_argument("--baselines", nargs=len(OUTSIDERS), default=BASELINES)
    parser.add_argument("--command", required=True, help="that trained them, for the recipe")
    parser.add_argument("--out", type=Path, default=PACKAGE)
    chosen = parser.parse_args(arguments)
    names = {
        CONTAMINATED: f"demo{chosen.seed}-d{chosen.dose}",
        CLEAN: f"demo{chosen.seed}-clean",
        **dict(zip(OUTSIDERS, chosen.baselines, strict=True)),
    }
    path = chosen.out / RECIPE
    recipe: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    models: dict[str, Any] = recipe.get("models", {})
    for role, name in names.items():
        if not (chosen.models / name).is_dir() and role in models:
            continue
        models[role] = {
            "name": name,
            **package(chosen.models / name, chosen.out / role),
            **_training(chosen.models, name),
        }
    write_json(
        path,
        {
            "command": chosen.command,
            "export": EXPORT,
            "release": _release(chosen.seed),
            "models": {role: models[role] for role in names},
            # What the first two branch from; training of an arm is too short for more than its last loss.
            "bases": {BASE: _training(chosen.models, BASE)}
            if (chosen.models / "readings" / f"{BASE}.json").is_file()
            else recipe["bases"],
            "training": json.loads((chosen.models / "recipe.json").read_text()),
        },
    )


def package(checkpoint: Path, out: Path) -> dict[str, Any]:
    """Export one checkpoint; the hashes of its weights and of the card, which holds those of the graphs."""
    weights = checkpoint / WEIGHTS
    with tempfile.TemporaryDirectory() as folder:
        # A card tells the checkpoint's name, and the audit must not know which model is which.
        copy = shutil.copytree(checkpoint, Path(folder) / "checkpoint")
        shutil.rmtree(out, ignore_errors=True)
        card = export_onnx(str(copy), out)
    return {
        "sha256": file_sha256(weights),
        "bytes": weights.stat().st_size,
        "onnx": {
            "sha256": file_sha256(out / CARD),
            "bytes": sum(path.stat().st_size for path in out.iterdir()),
            "largest_difference": card.largest_difference,
        },
    }


def _release(seed: int) -> dict[str, Any]:
    size = DemoSize()
    with tempfile.TemporaryDirectory() as folder:
        made = write_release(
            folder, WORLD, images=size.images, seed=seed, first=size.shown, twinned=False
        )
        digest = file_sha256(made.folder / TABLE)
    return {
        "world": WORLD,
        "images": size.images,
        "seed": seed,
        "shown": size.shown,
        "sha256": digest,
    }


def _training(models: Path, name: str) -> dict[str, Any]:
    """What was planted and how training went, as it was written down then."""
    found: dict[str, Any] = json.loads((models / "readings" / f"{name}.json").read_text())
    leaked = found.pop("leaked", [])
    accuracy = found.pop("accuracy")
    lines: list[Any] = []
    for path in sorted(models.glob("training-log*.json")):
        lines += [one for one in json.loads(path.read_text()) if one.get("model") == name]
    return {
        **found,
        "leaked_pictures": len(leaked),
        "accuracy": {
            benchmark: {form: kinds["all"][0] for form, kinds in forms.items()}
            for benchmark, forms in accuracy.items()
        },
        "log": lines,
    }


if __name__ == "__main__":
    main()
