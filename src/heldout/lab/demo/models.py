"""The demo's five models: their roles, the release that they know, and copies under neutral names.

Those of the package are ONNX graphs, which run without torch; others may be checkpoints.

The audit reads copies under neutral names. Which of them has seen the benchmark is in a file that the
audit is never given.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heldout.errors import InputError
from heldout.model import CARD, ONNX, file_sha256, read_card

CONTAMINATED, CLEAN = "contaminated", "clean"
OUTSIDERS = ("outsider-a", "outsider-b", "outsider-c")  # each of a lineage of its own
ROLES = (CONTAMINATED, CLEAN, *OUTSIDERS)
SUSPECTS = ("model-a", "model-b")
RECIPE = "RECIPE.json"
WEIGHTS = "model.safetensors"
_COIN = 77  # keeps the draw of names apart from what is rendered from the same seed


@dataclass(frozen=True)
class DemoModels:
    """A folder with one model per role; ``recipe`` says how they came to be, where that is known."""

    folder: Path
    recipe: Mapping[str, Any] = field(default_factory=dict)

    def names(self, seed: int) -> dict[str, str]:
        """Name in the audit → role. Which suspect is which is drawn at random, so that the order does not
        reveal it."""
        first = int(np.random.default_rng((seed, _COIN)).integers(2))
        roles = (CONTAMINATED, CLEAN) if first == 0 else (CLEAN, CONTAMINATED)
        return {**dict(zip(SUSPECTS, roles, strict=True)), **{name: name for name in OUTSIDERS}}

    def copy_to(self, target: Path, seed: int) -> dict[str, str]:
        """Every model under the name it has in the audit; what is there already stays."""
        target.mkdir(parents=True, exist_ok=True)
        for name, role in self.names(seed).items():
            if (target / name).exists():
                continue
            half = target / f".{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(self.folder / role, half)
            half.rename(target / name)
        return self.names(seed)

    def prefix(self, role: str) -> str:
        """What stands before its folder in an audit file: ``onnx:`` before graphs."""
        return ONNX if _is_onnx(self.folder / role) else ""

    def needed(self) -> dict[str, str]:
        """Packages that run these models, each with the extra that installs it."""
        graphs = [_is_onnx(self.folder / role) for role in ROLES]
        light = dict.fromkeys(("onnxruntime", "tokenizers"), "onnx") if any(graphs) else {}
        heavy = {} if all(graphs) else dict.fromkeys(("torch", "transformers"), "hf")
        return {**light, **heavy}

    def release_digest(self, shown: int) -> str | None:
        """The digest of the table of that many pictures; None if it was not recorded."""
        known = self.recipe.get("release", {})
        return str(known["sha256"]) if known.get("shown") == shown else None


def shipped_models() -> DemoModels:
    return open_models(Path(str(files("heldout.lab.demo"))) / "weights")


def models_for(seed: int, folder: Path | None) -> DemoModels | str:
    """The models that know the release of this seed, or why there are none."""
    if folder is not None:
        return open_models(folder, seed)
    shipped = shipped_models()
    known = shipped.recipe["release"]["seed"]
    if seed == known:
        return shipped
    return (
        f"the models that come with heldout were trained on the benchmark of seed {known}, not of seed "
        f"{seed}: give a folder of others with the setting models, or leave out the setting seed"
    )


def open_models(folder: Path, seed: int | None = None) -> DemoModels:
    missing = [
        role
        for role in ROLES
        if not ((folder / role / WEIGHTS).is_file() or _is_onnx(folder / role))
    ]
    if missing:
        raise InputError(
            f"{folder} holds no model called {missing[0]}: expected the folders {', '.join(ROLES)}, each "
            f"a checkpoint with {WEIGHTS} or an ONNX folder with {CARD}"
        )
    path = folder / RECIPE
    recipe = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    known = recipe.get("release", {}).get("seed")
    if None not in (seed, known) and known != seed:
        raise InputError(
            f"{path} says that these models know the benchmark of seed {known}, not of seed {seed}"
        )
    for role, record in recipe.get("models", {}).items():
        if role in ROLES:
            _check(folder / role, record, path.name)
    return DemoModels(folder, recipe)


def _check(model: Path, record: Mapping[str, Any], recipe: str) -> None:
    """A checkpoint by its hash; graphs by their card, which holds the hashes of both."""
    if not _is_onnx(model):
        if file_sha256(model / WEIGHTS) != record["sha256"]:
            raise InputError(f"{model / WEIGHTS} is not the file that {recipe} describes")
        return
    card = read_card(model)
    if record["sha256"] not in card.source.weights.values():
        raise InputError(f"{model} was exported from another checkpoint than {recipe} describes")
    if record.get("onnx", {}).get("sha256") not in (None, file_sha256(model / CARD)):
        raise InputError(f"{model / CARD} is not the file that {recipe} describes")


def _is_onnx(folder: Path) -> bool:
    return (folder / CARD).is_file()
