"""The demo's three checkpoints: which there are, which release they know, and copies nobody can tell apart.

The audit reads copies under neutral names. Which of them has seen the benchmark stands in a file that the
audit is never given.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from heldout.errors import InputError

CONTAMINATED, CLEAN, OUTSIDER = "contaminated", "clean", "outsider"
ROLES = (CONTAMINATED, CLEAN, OUTSIDER)
SUSPECTS = ("model-a", "model-b")
RECIPE = "RECIPE.json"
WEIGHTS = "model.safetensors"
_COIN = 77  # keeps the draw of names apart from what is rendered from the same seed


@dataclass(frozen=True)
class DemoModels:
    """A folder with one checkpoint per role; ``recipe`` says how they came to be, where that is known."""

    folder: Path
    recipe: Mapping[str, Any] = field(default_factory=dict)

    def names(self, seed: int) -> dict[str, str]:
        """Name in the audit → role. Which suspect is which is drawn, not told by its place."""
        first = int(np.random.default_rng((seed, _COIN)).integers(2))
        roles = (CONTAMINATED, CLEAN) if first == 0 else (CLEAN, CONTAMINATED)
        return {**dict(zip(SUSPECTS, roles, strict=True)), OUTSIDER: OUTSIDER}

    def copy_to(self, target: Path, seed: int) -> dict[str, str]:
        """Every checkpoint under the name it has in the audit; what is there already stays."""
        target.mkdir(parents=True, exist_ok=True)
        for name, role in self.names(seed).items():
            if (target / name).exists():
                continue
            half = target / f".{name}.half"
            shutil.rmtree(half, ignore_errors=True)
            shutil.copytree(self.folder / role, half)
            half.rename(target / name)
        return self.names(seed)

    def release_digest(self) -> str | None:
        """Of the table the contaminated model was shown; None where nobody wrote it down."""
        found = self.recipe.get("release", {}).get("sha256")
        return str(found) if found is not None else None


def shipped_models() -> DemoModels:
    return open_models(Path(str(files("heldout.audit"))) / "demo_models")


def models_for(seed: int, folder: Path | None) -> DemoModels | str:
    """The checkpoints that know the release of this seed, or why there are none."""
    if folder is not None:
        return open_models(folder, seed)
    shipped = shipped_models()
    known = shipped.recipe["release"]["seed"]
    if seed == known:
        return shipped
    return (
        f"the models that come with heldout were trained on the benchmark of seed {known}, not of seed "
        f"{seed}: give others with --models FOLDER, or leave out --seed"
    )


def open_models(folder: Path, seed: int | None = None) -> DemoModels:
    missing = [role for role in ROLES if not (folder / role / WEIGHTS).is_file()]
    if missing:
        raise InputError(
            f"{folder} holds no checkpoint called {missing[0]}: expected the folders "
            f"{', '.join(ROLES)}, each with {WEIGHTS}"
        )
    path = folder / RECIPE
    recipe = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    known = recipe.get("release", {}).get("seed")
    if None not in (seed, known) and known != seed:
        raise InputError(
            f"{path} says that these models know the benchmark of seed {known}, not of seed {seed}"
        )
    for role, told in recipe.get("models", {}).items():
        if role in ROLES and file_sha256(folder / role / WEIGHTS) != told["sha256"]:
            raise InputError(
                f"{folder / role / WEIGHTS} is not the file that {path.name} describes"
            )
    return DemoModels(folder, recipe)


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
