"""``torchscript:FILE``: a traced or scripted model, as SSCD ships its copy-detection networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.overlap.encoders.encoder import Encoder, Floats
from heldout.overlap.encoders.preprocessing import Preprocessing, with_options
from heldout.overlap.encoders.weights import digest_files, existing_file, split_options

# SSCD's evaluation: 320 x 320 for throughput, ImageNet statistics.
SSCD = Preprocessing(size=320, resize="squash", filter="bilinear", statistics="imagenet")


class TorchScriptEncoder(Encoder):
    def __init__(self, argument: str) -> None:
        require("torch", "hf", "--encoder torchscript:FILE")
        import torch

        path, options = split_options(argument)
        file = existing_file(path, "torchscript")
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._model: Any = torch.jit.load(str(file), map_location=self._device).eval()
        except RuntimeError as error:
            raise InputError(f"{file}: not a readable TorchScript file ({error})") from error
        self._preprocessing = with_options(SSCD, options, argument)
        self.identity = f"torchscript:{file.name}@{digest_files([file])} | {self._preprocessing}"
        blank = np.zeros((1, 3, self._preprocessing.size, self._preprocessing.size), np.float32)
        self.dimension = int(self._forward(blank).shape[1])

    def prepare(self, image: Image.Image) -> Floats:
        return self._preprocessing(image)

    def _forward(self, batch: Floats) -> Floats:
        import torch

        with torch.inference_mode():
            rows = self._model(torch.from_numpy(batch).to(self._device))
        result: Floats = rows.flatten(1).float().cpu().numpy()
        return result
