"""What the demo audits: a rendered benchmark, its exact twins, a leaky corpus, and an audit file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from heldout import __version__
from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.lab import RELEASED, WORLDS, Release, write_release
from heldout.lab.demo.models import OUTSIDERS, SUSPECTS, DemoModels
from heldout.model import file_sha256
from heldout.scenes import DrawnScene, WrittenBenchmark, write_corpus, write_scenes
from heldout.store import write_json

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
            "detectors: [twin-drop, option-margin]",
            "",
        ]
    return "\n".join([*lines, f"seed: {seed}", f"output: {AUDIT}", ""])
