"""``onnx:FILE``: any ONNX model that takes (n, 3, h, w) pictures, through onnxruntime."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError, require
from heldout.overlap.encoders.encoder import Encoder, Floats, Preprocessing, with_options

# A model file named as an encoder: where it is, what identifies it, which options follow it.


def split_options(argument: str) -> tuple[str, dict[str, str]]:
    """``model.onnx#size=288,resize=crop`` as the file and its options."""
    path, _, text = argument.partition("#")
    options = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"encoder …{argument}: expected key=value after '#', found '{part}'")
        options[key.strip()] = value.strip()
    return path, options


def existing_file(path: str, kind: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise InputError(f"encoder {kind}:{path}: there is no such file")
    return file


def digest_files(files: list[Path]) -> str:
    """A short digest of the weights themselves: a file's name says nothing about what is in it."""
    hasher = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hasher.update(hashlib.file_digest(stream, "sha256").digest())
    return hasher.hexdigest()[:16]


DEFAULT_SIZE = 224  # where the model takes any


class OnnxEncoder(Encoder):
    """The first output is the vector; an output with more axes is averaged over them."""

    def __init__(self, argument: str) -> None:
        require("onnxruntime", "onnx", "the encoder onnx:FILE")
        import onnxruntime

        path, options = split_options(argument)
        file = existing_file(path, "onnx")
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(file), providers=onnxruntime.get_available_providers()
            )
        except Exception as error:  # onnxruntime has an exception class per way to fail
            raise InputError(f"{file}: not a readable ONNX model ({error})") from error
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if inputs else []
        if len(inputs) != 1 or len(shape) != 4 or inputs[0].type not in _TYPES:
            text = ", ".join(f"{one.name} {one.type}{one.shape}" for one in inputs)
            raise InputError(f"{file}: expected one input of pictures (n, 3, h, w); found {text}")
        self._input, self._type = inputs[0].name, _TYPES[inputs[0].type]
        self._single = shape[0] == 1  # exported without a batch axis
        fixed = shape[2] if isinstance(shape[2], int) else DEFAULT_SIZE
        self._preprocessing = with_options(Preprocessing(size=fixed), options, argument)
        self.identity = f"onnx:{file.name}@{digest_files([file])} | {self._preprocessing}"
        blank = np.zeros((1, 3, self._preprocessing.size, self._preprocessing.size), np.float32)
        self.dimension = int(self._run(blank).shape[1])

    def prepare(self, image: Image.Image) -> Floats:
        return self._preprocessing(image)

    def _forward(self, batch: Floats) -> Floats:
        if self._single:
            return np.concatenate([self._run(batch[k : k + 1]) for k in range(len(batch))])
        return self._run(batch)

    def _run(self, batch: Floats) -> Floats:
        try:
            rows = self._session.run(None, {self._input: batch.astype(self._type)})[0]
        except Exception as error:
            raise InputError(
                f"{self._input} of shape {batch.shape} does not fit: {error}"
            ) from error
        result: Floats = rows.reshape(*rows.shape[:2], -1).mean(axis=2, dtype=np.float32)
        return result


_TYPES: dict[str, type[np.floating]] = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


# ``torchscript:FILE``: a traced or scripted model, as SSCD ships its copy-detection networks.


# SSCD's evaluation: 320 x 320 for throughput, ImageNet statistics.
SSCD = Preprocessing(size=320, resize="squash", filter="bilinear", statistics="imagenet")


class TorchScriptEncoder(Encoder):
    def __init__(self, argument: str) -> None:
        require("torch", "hf", "the encoder torchscript:FILE")
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
