"""``transformers:NAME``: the vision tower of CLIP, SigLIP, DINOv2, ResNet and their relatives.

Pre-processing is the model's own, by its Pillow classes: they need no torchvision, and are the ones
whose results the published numbers come from.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.image import to_rgb
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.overlap.encoders.weights import digest_files

_WEIGHTS = ("*.safetensors", "*.bin")


class TransformersEncoder(Encoder):
    def __init__(self, name: str) -> None:
        require("torch", "hf", "--encoder transformers:NAME")
        require("transformers", "hf", "--encoder transformers:NAME")
        import torch
        from transformers import AutoModel

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._processor = _processor(name)
            # Single precision everywhere: a checkpoint's half precision differs between processors.
            model: Any = AutoModel.from_pretrained(name, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise InputError(f"--encoder transformers:{name}: {error}") from error
        self._model = model.eval().to(self._device)
        settings = json.dumps(self._processor.to_dict(), sort_keys=True, default=str)
        kind = type(self._processor).__name__.removesuffix("Pil")
        self.identity = (
            f"transformers:{_revision(name, model.config)} | "
            f"{kind} {hashlib.sha256(settings.encode()).hexdigest()[:8]}"
        )
        grey = Image.new("RGB", (64, 64), (128, 128, 128))
        self.dimension = int(self._forward(self.prepare(grey)[None]).shape[1])

    def prepare(self, image: Image.Image) -> Floats:
        pixels = self._processor(images=to_rgb(image), return_tensors="np")["pixel_values"][0]
        return np.ascontiguousarray(pixels, dtype=np.float32)

    def _forward(self, batch: Floats) -> Floats:
        import torch

        pixels = torch.from_numpy(batch).to(self._device)
        with torch.inference_mode():
            if hasattr(self._model, "get_image_features"):
                found = self._model.get_image_features(pixel_values=pixels)
            else:
                found = self._model(pixel_values=pixels)
        rows = found if isinstance(found, torch.Tensor) else _pooled(found)
        result: Floats = rows.flatten(1).float().cpu().numpy()
        return result


def _processor(name: str) -> Any:
    import transformers

    major = int(transformers.__version__.split(".")[0])
    # The same choice under its name before and since version 5.
    choice: dict[str, Any] = {"backend": "pil"} if major >= 5 else {"use_fast": False}
    return transformers.AutoImageProcessor.from_pretrained(name, **choice)


def _pooled(found: Any) -> Any:
    """One vector per picture: the pooled output where there is one, else the class token."""
    pooled = getattr(found, "pooler_output", None)
    return found.last_hidden_state[:, 0] if pooled is None else pooled


def _revision(name: str, config: Any) -> str:
    commit = getattr(config, "_commit_hash", None)
    if commit:
        return f"{name}@{commit[:16]}"
    folder = Path(name)
    files = sorted(file for pattern in _WEIGHTS for file in folder.glob(pattern))
    return f"{folder.name}@{digest_files(files)}"
