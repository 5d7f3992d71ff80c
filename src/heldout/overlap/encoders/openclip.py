"""``open_clip:MODEL/TAG``: BiomedCLIP (``open_clip:hf-hub:NAME``) and every other open_clip model."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.image import to_rgb
from heldout.overlap.encoders.encoder import Encoder, Floats


class OpenClipEncoder(Encoder):
    """``MODEL/TAG`` as in ``open_clip.list_pretrained()``, or ``hf-hub:NAME``, or ``MODEL/FILE``."""

    def __init__(self, argument: str) -> None:
        require("open_clip", "clip", "the encoder open_clip:MODEL/TAG")
        import open_clip
        import torch

        hub = argument.startswith("hf-hub:")
        name, _, tag = (argument, "", "") if hub else argument.partition("/")
        if not hub and not tag:
            raise InputError(
                f"encoder open_clip:{argument}: expected MODEL/TAG (open_clip.list_pretrained() "
                f"lists them) or hf-hub:NAME"
            )
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            model, _, transform = open_clip.create_model_and_transforms(
                name, pretrained=tag or None, device=self._device
            )
        except (RuntimeError, OSError, ValueError) as error:
            raise InputError(f"encoder open_clip:{argument}: {error}") from error
        self._name = name
        self._model: Any = model.eval()
        self._transform: Any = transform
        self.identity = f"open_clip:{argument}@{_digest(model.visual)} | {_words(transform)}"
        grey = Image.new("RGB", (64, 64), (128, 128, 128))
        self.dimension = int(self._forward(self.prepare(grey)[None]).shape[1])

    def prepare(self, image: Image.Image) -> Floats:
        pixels: Floats = self._transform(to_rgb(image)).numpy().astype(np.float32)
        return pixels

    def _forward(self, batch: Floats) -> Floats:
        import torch

        with torch.inference_mode():
            rows = self._model.encode_image(torch.from_numpy(batch).to(self._device))
        result: Floats = rows.float().cpu().numpy()
        return result

    @functools.cached_property
    def text_identity(self) -> str:
        return (
            f"{self.identity} | texts {_digest(self._model)[:8]} {type(self._tokenizer).__name__}"
        )

    def _forward_texts(self, texts: Sequence[str]) -> Floats:
        import torch

        with torch.inference_mode():
            rows = self._model.encode_text(self._tokenizer(list(texts)).to(self._device))
        result: Floats = rows.float().cpu().numpy()
        return result

    @functools.cached_property
    def _tokenizer(self) -> Any:
        import open_clip

        try:
            return open_clip.get_tokenizer(self._name)
        except Exception as error:  # whatever a tokenizer's files make their library raise
            raise InputError(
                f"encoder open_clip:{self._name}: its tokenizer cannot be opened ({error})"
            ) from error


def _digest(model: Any) -> str:
    """Tags are re-released; the weights are what they are."""
    hasher = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        hasher.update(key.encode())
        hasher.update(value.detach().float().cpu().contiguous().numpy().tobytes())
    return hasher.hexdigest()[:16]


def _words(transform: Any) -> str:
    steps = "; ".join(repr(step) for step in getattr(transform, "transforms", [transform]))
    kept = "; ".join(part for part in steps.split("; ") if not part.startswith("<function"))
    return " ".join(kept.split())
