"""What the demo audits: a rendered benchmark, its exact twins, a leaky corpus, five models, an audit file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout import __version__
from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.lab import RELEASED, WORLDS, Release, write_release
from heldout.model import CARD, ONNX, file_sha256, read_card
from heldout.scenes import DrawnScene, WrittenBenchmark, write_corpus, write_scenes
from heldout.store import write_json

# The demo's five models: their roles, the release that they know, and copies under neutral names.
#
# Those of the package are ONNX graphs, which run without torch; others may be checkpoints.
#
# The audit reads copies under neutral names. Which of them has seen the benchmark is in a file that the
# audit is never given.


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


NAME, WORLD = "scenes", "scenes"
BENCHMARK, TWINS, CORPUS, MODELS, AUDIT = "benchmark", "twins", "web-crawl", "models", "audit"
FILE, MARKER, TRUTH = "audit.yaml", "demo.json", f"{CORPUS}.truth.jsonl"
WHO = f"{MODELS}.truth.json"
TABLE = "test.jsonl"
_HALF = ".half"
NEAREST = 1  # neighbours verified per picture: each leaks once, and a demo should not take long


@dataclass(frozen=True)
class DemoSize:
    """``images`` are the release's, as the models know it; the first ``shown`` of them are audited, which
    costs power and saves time."""

    images: int = 96
    shown: int = 80
    corpus: int = 300


def write_demo(folder: Path, seed: int, size: DemoSize, models: DemoModels | None) -> None:
    """Everything but the audit file, once; an interrupted rendering is done again."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a folder with the setting out")
    identity = {"seed": seed, "heldout": __version__}
    marker = folder / MARKER
    if marker.exists():
        record = json.loads(marker.read_text())
        if record != identity:
            raise InputError(
                f"{folder} holds the demo of seed {record.get('seed')} by heldout "
                f"{record.get('heldout')}; choose another folder with the setting out, or remove this one"
            )
    else:
        ours = {BENCHMARK, TWINS, CORPUS, TRUTH, _HALF, MODELS, WHO}
        if folder.exists() and {path.name for path in folder.iterdir()} - ours:
            raise InputError(
                f"{folder} holds other things than a demo; choose another folder with "
                f"the setting out"
            )
        for name in (BENCHMARK, TWINS, CORPUS, _HALF):
            shutil.rmtree(folder / name, ignore_errors=True)
        _render(folder, seed, size, models)
        write_json(marker, identity)
    if models is not None:
        names = models.copy_to(folder / MODELS, seed)
        write_json(folder / WHO, names)


def _render(folder: Path, seed: int, size: DemoSize, models: DemoModels | None) -> None:
    half = folder / _HALF
    release = write_release(half, WORLD, images=size.images, seed=seed, first=size.shown)
    _same_release(release, models, size)
    release.folder.rename(folder / BENCHMARK)
    release.twins.rename(folder / TWINS)
    leaking = _leaking(folder / BENCHMARK, release, seed)
    write_scenes(folder / BENCHMARK, _drawn(leaking))
    write_corpus(folder / CORPUS, leaking, items=size.corpus, seed=seed)
    shutil.rmtree(half)


def _same_release(release: Release, models: DemoModels | None, size: DemoSize) -> None:
    """A model can only remember what it was shown: another release would make it look clean."""
    known = models.release_digest(size.shown) if models is not None else None
    if known is not None and file_sha256(release.folder / TABLE) != known:
        raise InputError(
            "the benchmark that was rendered is not the one that these models were trained on: they "
            "belong to another version of heldout"
        )


def _leaking(folder: Path, release: Release, seed: int) -> WrittenBenchmark:
    """The world's own numbers draw the same scenes again."""
    world = WORLDS[WORLD]
    scenes = {
        name: world.draw(world.rng(seed, RELEASED, index))
        for index, (name, _, _) in enumerate(release.pages)
    }
    questions = {name: items for name, items, _ in release.pages}
    return WrittenBenchmark(folder, seed, scenes, questions)


def _drawn(written: WrittenBenchmark) -> dict[str, DrawnScene]:
    """What the pictures show: a benchmark with this beside its table is known as a rendered one."""
    drawn = {}
    for name, scene in written.scenes.items():
        with Image.open(written.folder / name) as picture:
            drawn[name] = DrawnScene(scene, picture.width, pixel_digest(picture))
    return drawn


def audit_text(
    seed: int,
    *,
    models: Mapping[str, str],
    corpus: bool = True,
    engine: str = "local",
    workers: int | None = None,
) -> str:
    """The audit file of the demo, to be read, changed and run again. It does not say which model saw what.

    ``models``: their names, and what stands before their folders.
    """
    lines = [
        "# The audit of `heldout demo`, as a user would write it. To run it again: `heldout audit audit.yaml`.",
        "# What was planted is in *.truth.json*, which no audit reads.",
        "",
        "benchmarks:",
        f"  - name: {NAME}",
        f"    source: {BENCHMARK}/{TABLE}",
        f"    twins: {{twin: {TWINS}/{TABLE}}}  # same questions, one thing in the picture changed",
        "",
    ]
    if corpus:
        lines += [
            "corpora:",
            f"  - {{name: {CORPUS}, source: {CORPUS}}}",
            "",
            "search:",
            "  encoder: pixels   # near neighbours, too: resized, cropped, framed copies",
            f"  nearest: {NEAREST}",
            "  text: true",
            f"  engine: {json.dumps(engine)}",
            *([f"  workers: {workers}"] if workers is not None else []),
            "",
        ]
    if models:
        how = "dtype: float32, max_new_tokens: 8, variants: 'original,rotation-all'"
        lines += [
            "models:",
            *(
                f"  - {{name: {name}, local: {models[name]}{MODELS}/{name}, {how}}}"
                for name in SUSPECTS
            ),
            *(
                f"  - {{name: {name}, local: {models[name]}{MODELS}/{name}, family: {name}, {how}}}"
                for name in OUTSIDERS
            ),
            "",
            f"baselines: [{', '.join(OUTSIDERS)}]  # three other lineages: none has seen the benchmark",
            "",
            "# Fixed before anything ran: by changed pictures, and by the order of the options.",
            "detectors: [twin-margin, option-margin]",
            "",
        ]
    return "\n".join([*lines, f"seed: {seed}", f"output: {AUDIT}", ""])
