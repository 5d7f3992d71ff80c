"""A tiny LLaVA exported by the command, and the same checkpoint through transformers, for comparison."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "local"))

from tiny_models import save
from transformers import AutoImageProcessor

from heldout.image import ImageRef, InlineBytes
from heldout.lab.models.onnx_export import export_onnx
from heldout.model.local import LocalModel
from heldout.model.local.load import load
from heldout.model.request import Request, Text


def make(folder: Path) -> tuple[Path, Path]:
    """Checkpoint and its export."""
    checkpoint = save("llava", folder / "tiny")
    export_onnx(str(checkpoint), folder / "exported")
    return checkpoint, folder / "exported"


def by_torch(checkpoint: Path, **how: Any) -> LocalModel:
    """With pictures prepared by Pillow: torchvision rounds differently."""
    loaded = load(
        str(checkpoint), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    loaded.processor.image_processor = AutoImageProcessor.from_pretrained(checkpoint, backend="pil")
    return LocalModel(loaded, "tiny", **how)


def pictures(picture: Callable[..., bytes]) -> list[ImageRef]:
    sizes = [(60, 44), (44, 70), (28, 28), (9, 200)]
    return [
        ImageRef(f"{n}.png", InlineBytes(picture(n, size), f"{n}.png"))
        for n, size in enumerate(sizes)
    ]


def requests(shown: list[ImageRef]) -> list[Request]:
    """Turns with one picture, two, a late one or none, options that share a prompt, and documents."""
    made = [
        Request(f"{n}/{question}/{answer}", (one, Text(question), Text(answer, scored=True)))
        for n, one in enumerate(shown)
        for question in ("Is there a mass?", "which organ is shown in this picture?")
        for answer in ("yes", "none of these", "the liver, née 🙂")
    ]
    yes = Text("yes", scored=True)
    made += [
        Request("none", (Text("Is there a mass?"), yes)),
        Request("two", (shown[0], shown[1], Text("Is it grey?"), yes)),
        Request("late", (Text("A mass?"), shown[0], Text("x"), yes)),
        Request("later", (Text("Which organ?"), shown[0], Text("x"), yes)),
        Request("empty", (shown[0], Text("x"), Text(" ", scored=True))),
        Request("special", (shown[0], Text("what is <image>?"), yes)),
        Request("long", (shown[0], Text("mass " * 600), yes)),
        Request("document", tuple(Text(f"Is it {n}? yes\n", scored=True) for n in range(6)), False),
        Request(
            "shown", (shown[1], Text("Is it?"), yes, shown[0], Text(" no", scored=True)), False
        ),
    ]
    return made
