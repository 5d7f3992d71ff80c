"""``transformers:NAME``: the vision tower of CLIP, SigLIP, DINOv2, ResNet and their relatives.

Pre-processing is the model's own, by its Pillow classes: they need no torchvision, and are the ones
whose results the published numbers come from. CLIP, SigLIP and their relatives have a text tower, too;
its tokenizer is opened when the first text is read.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.image import to_rgb
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.overlap.encoders.model_files import digest_files

_WEIGHTS = ("*.safetensors", "*.bin")
# Trained on texts filled up to one length, without a mask: a shorter one is another text to them.
_FILLED_UP = ("siglip", "siglip2")
_UNBOUNDED = 1 << 20  # tokens; a tokenizer that knows no limit says 1e30


class TransformersEncoder(Encoder):
    def __init__(self, name: str) -> None:
        require("torch", "hf", "the encoder transformers:NAME")
        require("transformers", "hf", "the encoder transformers:NAME")
        import torch
        from transformers import AutoModel

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._processor = _processor(name)
            # Single precision everywhere: a checkpoint's half precision differs between processors.
            model: Any = AutoModel.from_pretrained(name, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise InputError(f"encoder transformers:{name}: {error}") from error
        self._name = name
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
                image_features = self._model.get_image_features(pixel_values=pixels)
            else:
                image_features = self._model(pixel_values=pixels)
        rows = (
            image_features if isinstance(image_features, torch.Tensor) else _pooled(image_features)
        )
        result: Floats = rows.flatten(1).float().cpu().numpy()
        return result

    @property
    def text_identity(self) -> str:
        if not hasattr(self._model, "get_text_features"):
            return super().text_identity
        tokenizer = self._tokenizer
        description = json.dumps(
            [sorted(tokenizer.get_vocab().items()), tokenizer.special_tokens_map, self._reading],
            sort_keys=True,
            default=str,
        )
        return f"{self.identity} | texts {hashlib.sha256(description.encode()).hexdigest()[:8]}"

    def _forward_texts(self, texts: Sequence[str]) -> Floats:
        import torch

        tokens = self._tokenizer(list(texts), return_tensors="pt", **self._reading)
        if self._model.config.model_type in _FILLED_UP:
            tokens = {"input_ids": tokens["input_ids"]}
        else:
            tokens = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            text_features = self._model.get_text_features(
                **{name: value.to(self._device) for name, value in tokens.items()}
            )
        rows = text_features if isinstance(text_features, torch.Tensor) else _pooled(text_features)
        result: Floats = rows.flatten(1).float().cpu().numpy()
        return result

    @functools.cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        why: Exception | str = "it knows no word"
        try:
            pretrained = AutoTokenizer.from_pretrained(self._name)
            # Without files some versions make one that takes every text for the same unknown token.
            if len(set(pretrained.get_vocab()) - set(pretrained.all_special_tokens)) > 1:
                return pretrained
        except Exception as error:  # whatever a tokenizer's files make their library raise
            why = error
        raise InputError(
            f"encoder transformers:{self._name}: its tokenizer cannot be opened ({why}). A checkpoint "
            f"that reads texts needs its tokenizer files beside its weights"
        )

    @functools.cached_property
    def _reading(self) -> dict[str, Any]:
        """How texts become tokens: cut at what the tower holds, and filled up as it was trained."""
        config = self._model.config
        most = getattr(
            getattr(config, "text_config", config), "max_position_embeddings", _UNBOUNDED
        )
        length = min(int(most), int(min(self._tokenizer.model_max_length, _UNBOUNDED)))
        filled = "max_length" if config.model_type in _FILLED_UP else "longest"
        return {"padding": filled, "truncation": True, "max_length": length}


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
