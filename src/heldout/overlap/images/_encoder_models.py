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
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import InputError, PrerequisiteError, require
from heldout.image import to_rgb
from heldout.overlap.images.encoder import Encoder, Floats, Preprocessing, with_options

# ``open_clip:MODEL/TAG``: BiomedCLIP (``open_clip:hf-hub:NAME``) and every other open_clip model.


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
        return _to_host(rows.float())

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


def _to_host(rows: Any) -> Floats:
    """Rows as NumPy's. Torch waits for a GPU by spinning, on a core that the next pictures are decoded on: this
    thread sleeps instead."""
    if rows.is_cuda:
        import torch

        done = torch.cuda.Event(blocking=True)
        done.record()
        done.synchronize()
    result: Floats = rows.cpu().numpy()
    return result


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


# ``onnx:FILE``: any ONNX model that takes (n, 3, h, w) pictures, through onnxruntime.


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
            text = ", ".join(f"{tensor.name} {tensor.type}{tensor.shape}" for tensor in inputs)
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
        if options.pop("trust", "no") != "yes":
            raise InputError(
                f"encoder torchscript:{path}: a TorchScript file is a program, which may write files when it "
                f"is loaded. If you trust who made it, add trust=yes (torchscript:{path}#trust=yes); an "
                f"onnx:FILE needs no trust"
            )
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
        return _to_host(rows.flatten(1).float())


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
        self._levels = _level_table(self._processor)
        grey = Image.new("RGB", (64, 64), (128, 128, 128))
        self.dimension = int(self._forward(self.prepare(grey)[None]).shape[1])

    def prepare(self, image: Image.Image) -> Floats:
        if self._levels is None:
            return _processed(self._processor, image)
        return _looked_up(self._levels, _processed(self._processor, image, **_LEVELS_ALONE))

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
        return _to_host(rows.flatten(1).float())

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
    try:
        return transformers.AutoImageProcessor.from_pretrained(name, **choice)
    except ImportError as error:  # some versions of transformers open none without torchvision
        raise PrerequisiteError(
            f"encoder transformers:{name}: its image processor needs a package that is not installed "
            f"({' '.join(str(error).split())}). Install it with: pip install 'heldout[hf]'"
        ) from error


# A processor ends by scaling and shifting every number of a picture. There are 256 levels and three
# channels: what becomes of each is looked up in a table that the processor itself has filled.
_LEVELS_ALONE = {"do_rescale": False, "do_normalize": False}


def _processed(processor: Any, image: Image.Image, **choices: bool) -> NDArray[Any]:
    pixels = processor(images=to_rgb(image), return_tensors="np", **choices)["pixel_values"][0]
    kind = np.uint8 if choices and pixels.dtype == np.uint8 else np.float32
    return np.ascontiguousarray(pixels, dtype=kind)


def _looked_up(levels: Floats, pixels: NDArray[np.uint8]) -> Floats:
    out = np.empty(pixels.shape, np.float32)
    for table, channel, looked_up in zip(levels, pixels, out, strict=True):
        np.take(table, channel, out=looked_up)
    return out


def _level_table(processor: Any) -> Floats | None:
    """(3, 256), what becomes of each level; None where the processor does anything else, or ends otherwise."""
    grid = np.arange(256, dtype=np.uint8).reshape(16, 16).repeat(64, 0).repeat(64, 1)
    noise = np.random.default_rng(0).integers(0, 256, (97, 131, 3), dtype=np.uint8)
    steps, test = Image.fromarray(np.stack([grid] * 3, -1)), Image.fromarray(noise)
    try:
        before, after = _processed(processor, steps, **_LEVELS_ALONE), _processed(processor, steps)
    except (TypeError, ValueError):  # it knows no such choice
        return None
    if before.dtype != np.uint8 or before.ndim != 3 or len(before) != 3:
        return None
    levels = np.full((3, 256), np.nan, np.float32)
    for table, level, number in zip(levels, before, after, strict=True):
        table[level] = number
    same = np.array_equal(
        _looked_up(levels, _processed(processor, test, **_LEVELS_ALONE)),
        _processed(processor, test),
    )
    return levels if same and np.isfinite(levels).all() else None


def _pooled(output: Any) -> Any:
    """One vector per picture: the pooled output where there is one, else the class token."""
    pooled = getattr(output, "pooler_output", None)
    return output.last_hidden_state[:, 0] if pooled is None else pooled


def _revision(name: str, config: Any) -> str:
    commit = getattr(config, "_commit_hash", None)
    if commit:
        return f"{name}@{commit[:16]}"
    folder = Path(name)
    files = sorted(file for pattern in _WEIGHTS for file in folder.glob(pattern))
    return f"{folder.name}@{digest_files(files)}"
