"""A BERT's sentence vectors in NumPy, from weights that an installed package carries: no torch.

Slower than a library for models, and fast enough for what it reads: the few programs that may reword others.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from heldout.errors import InputError, require
from heldout.overlap.images.encoder import Floats
from heldout.overlap.texts.encoders import TextEncoder

_TYPES = {"F32": np.float32, "F16": np.float16}  # of tensors, as safetensors calls them


class BertEncoder(TextEncoder):
    """``config.json``, ``tokenizer.json`` and ``model.safetensors`` of one folder; the mean over all tokens."""

    def __init__(self, folder: Path, name: str) -> None:
        require("tokenizers", "text", f"the text encoder {name}")
        from tokenizers import Tokenizer

        try:
            config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
            longest = json.loads((folder / "sentence_bert_config.json").read_text("utf-8"))
            weights = (folder / "model.safetensors").read_bytes()
            self._weights = _tensors(weights)
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as error:  # the tokenizer raises types of its own
            raise InputError(
                f"text_encoder {name}: cannot be read from {folder}: {error}"
            ) from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(int(longest["max_seq_length"]))
        self._layers = int(config["num_hidden_layers"])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self.dimension = int(config["hidden_size"])
        self.identity = f"{name}@{hashlib.sha256(weights).hexdigest()[:16]} | mean | numpy"

    def _forward(self, texts: list[str]) -> Floats:
        return np.stack([self._read(self._tokenizer.encode(text).ids) for text in texts])

    def _read(self, tokens: list[int]) -> Floats:
        weights = self._weights
        hidden = weights["embeddings.word_embeddings.weight"][tokens]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][: len(tokens)]
        hidden = hidden + weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normalised(hidden, "embeddings.LayerNorm")
        for layer in range(self._layers):
            here = f"encoder.layer.{layer}."
            attended = self._linear(
                self._attention(hidden, here + "attention.self."), here + "attention.output.dense"
            )
            hidden = self._normalised(hidden + attended, here + "attention.output.LayerNorm")
            inner = self._linear(hidden, here + "intermediate.dense")
            inner *= 0.5 * (1 + erf(inner / np.float32(np.sqrt(2))))  # GELU
            outer = self._linear(inner, here + "output.dense")
            hidden = self._normalised(hidden + outer, here + "output.LayerNorm")
        mean: Floats = hidden.mean(axis=0)
        return mean

    def _attention(self, hidden: Floats, here: str) -> Floats:
        split = len(hidden), self._heads, self.dimension // self._heads
        query, key, value = (
            self._linear(hidden, here + part).reshape(split).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(split[2]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        joined: Floats = (shares @ value).transpose(1, 0, 2).reshape(hidden.shape)
        return joined

    def _linear(self, rows: Floats, name: str) -> Floats:
        product: Floats = rows @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return product

    def _normalised(self, rows: Floats, name: str) -> Floats:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + self._epsilon)
        scaled: Floats = centred / spread * self._weights[f"{name}.weight"]
        scaled += self._weights[f"{name}.bias"]
        return scaled.astype(np.float32, copy=False)


def _tensors(file: bytes) -> dict[str, Floats]:
    """The tensors of a safetensors file: the length of a table of contents, that table, the numbers."""
    end = 8 + int.from_bytes(file[:8], "little")
    contents: dict[str, Any] = json.loads(file[8:end])
    contents.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            file[slice(*(end + at for at in entry["data_offsets"]))], _TYPES[entry["dtype"]]
        )
        .reshape(entry["shape"])
        .astype(np.float32, copy=False)
        for name, entry in contents.items()
        if entry["dtype"] in _TYPES  # not the positions, which are whole numbers
    }
