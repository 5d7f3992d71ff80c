"""The three graphs of a folder as onnxruntime sessions, with the shapes that its card promises."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heldout.engine import usable_cores
from heldout.errors import InputError
from heldout.model.local.entropy import ORDERS

# ``onnx.json``: what lies in a folder of ONNX graphs, and from which checkpoint it came.


CARD = "onnx.json"
VISION, PROJECTOR, DECODER = "vision.onnx", "projector.onnx", "decoder.onnx"
TOKENIZER, CHAT_TEMPLATE = "tokenizer.json", "chat_template.jinja"
NEEDED = (VISION, PROJECTOR, DECODER, TOKENIZER)
FORMAT = 1
_CHUNK = 1 << 20

Count = Annotated[int, Field(ge=1)]
Token = Annotated[int, Field(ge=0)]
Three = Annotated[list[float], Field(min_length=3, max_length=3)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Preparation(_Part):
    """From a picture to (3, height, width) numbers: resize, crop around the centre, rescale, normalise."""

    height: Count
    width: Count
    shortest_edge: Count | None = None  # resized to it before the crop; None: squeezed to the size
    resample: Annotated[int, Field(ge=0, le=5)] = 3  # Pillow's number of a filter
    rescale_factor: float = 1.0
    mean: Three = Field(default_factory=lambda: [0.0] * 3)
    std: Three = Field(default_factory=lambda: [1.0] * 3)


class Decoder(_Part):
    """Shapes of the decoder: of its logits, its inputs, and the keys and values it keeps."""

    vocabulary: Count
    width: Count
    layers: Count
    heads: Count  # of keys and values
    head_width: Count
    context: Count | None = None
    stops: list[Token] = Field(default_factory=list)  # tokens that end a reply


class CheckpointSource(_Part):
    """The checkpoint that was exported: its name, its revision as the local backend tells it, and the
    SHA-256 of its weights."""

    name: str
    revision: str
    weights: dict[str, str]


class OnnxCard(_Part):
    """``files``: SHA-256 of every other file of the folder. ``largest_difference``: between the log p of
    the graphs and of the checkpoint, on the samples that the export compared."""

    format: Literal[1] = 1
    model_type: str
    image_token: str
    image_token_id: Token
    places: Count  # that a picture takes in a sequence
    preparation: Preparation
    named_tokens: dict[str, str]  # bos_token, eos_token, pad_token …
    special_tokens: list[str]
    decoder: Decoder
    stored: Literal["float16", "bfloat16", "float32"]  # the graphs calculate in float32
    source: CheckpointSource
    files: dict[str, str]
    versions: dict[str, str]  # of what exported it
    largest_difference: float


def read_card(folder: Path) -> OnnxCard:
    """The card of a folder, if its files are those that the card describes; otherwise an error with the
    reason."""
    path = folder / CARD
    if not folder.is_dir():
        raise InputError(f"model onnx:{folder}: there is no such folder")
    if not path.is_file():
        raise InputError(
            f"model onnx:{folder}: it has no {CARD}; expected a folder that `heldout lab onnx "
            f"CHECKPOINT --out FOLDER` wrote"
        )
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(record, dict) and record.get("format") != FORMAT:
            raise InputError(
                f"{path} has format {record.get('format')!r}, this heldout reads {FORMAT}: export again"
            )
        card = OnnxCard.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: {place}: {first['msg']}; export the model again") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); export the model again") from error
    _check_files(folder, card)
    return card


def _check_files(folder: Path, card: OnnxCard) -> None:
    for name in dict.fromkeys((*NEEDED, *card.files)):
        file = folder / name
        if not file.is_file():
            raise InputError(f"{folder} lacks {name}: copy the whole folder, or export it again")
        if card.files.get(name) != file_sha256(file):
            raise InputError(
                f"{file} is not the file that {CARD} describes: it was changed, or copied in part. "
                f"Export the model again"
            )


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
PIXELS, FEATURES, PICTURES = "pixel_values", "features", "pictures"
IDS, SLOTS, ROWS, PLACES, LOGITS = "ids", "slots", "rows", "places", "logits"


class Graphs(NamedTuple):
    vision: Any
    projector: Any
    decoder: Any
    provider: str


def past_names(layers: int) -> list[str]:
    """Keys and values, layer by layer, as the decoder reads them; it returns them as ``present``."""
    return [f"past.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]


def present_names(layers: int) -> list[str]:
    return [name.replace("past", "present") for name in past_names(layers)]


def open_graphs(folder: Path, card: OnnxCard, device: str) -> Graphs:
    provider, options = _provider(device)
    shapes = card.preparation
    decoder = card.decoder
    caches = dict.fromkeys(past_names(decoder.layers), (decoder.heads, decoder.head_width))
    vision = _session(folder / VISION, provider, options)
    _check_inputs(folder / VISION, vision, {PIXELS: (3, shapes.height, shapes.width)})
    projector = _session(folder / PROJECTOR, provider, options)
    _check_inputs(folder / PROJECTOR, projector, {FEATURES: (card.places,)})
    _check_outputs(folder / PROJECTOR, projector, {PICTURES: (decoder.width,)})
    reader = _session(folder / DECODER, provider, options)
    tokens: dict[str, tuple[int, ...]] = {IDS: (), SLOTS: (), ROWS: (), PLACES: ()}
    _check_inputs(folder / DECODER, reader, {**tokens, PICTURES: (decoder.width,), **caches})
    _check_outputs(folder / DECODER, reader, {LOGITS: (decoder.vocabulary,)})
    return Graphs(vision, projector, reader, provider)


def _provider(device: str) -> tuple[str, dict[str, str]]:
    import onnxruntime

    there = onnxruntime.get_available_providers()
    kind, _, number = device.partition(":")
    if kind == "auto":
        kind = "cuda" if _CUDA in there else "cpu"
    if kind == "cpu":
        return _CPU, {}
    if kind != "cuda" or not (number or "0").isdigit():
        raise InputError(f"device {device}: expected auto, cpu, cuda or cuda:1")
    if _CUDA not in there:
        raise InputError(
            f"device {device}: this onnxruntime has {', '.join(there)}. Install one that runs on "
            f"CUDA (pip install onnxruntime-gpu), or give cpu as the setting device"
        )
    # Ten bits of mantissa, which it takes by itself, are not float32.
    return _CUDA, {"device_id": number or "0", "use_tf32": "0"}


def _session(file: Path, provider: str, options: Mapping[str, str]) -> Any:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = _threads()
    # Three sessions take turns: threads that wait by spinning would take the cores from each other.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(
            str(file), settings, providers=[(provider, dict(options))]
        )
    except Exception as error:  # onnxruntime has many exception classes
        message = " ".join(str(error).split())[:300]
        raise InputError(f"{file}: not an ONNX graph that can be run ({message})") from error


def _threads() -> int:
    setting = os.environ.get("OMP_NUM_THREADS", "")
    if setting.isdigit() and int(setting) > 0:
        return int(setting)
    return usable_cores()


def _check_inputs(file: Path, session: Any, wanted: Mapping[str, tuple[int, ...]]) -> None:
    _check(file, "input", {tensor.name: tensor.shape for tensor in session.get_inputs()}, wanted)


def _check_outputs(file: Path, session: Any, wanted: Mapping[str, tuple[int, ...]]) -> None:
    _check(file, "output", {output.name: output.shape for output in session.get_outputs()}, wanted)


def _check(
    file: Path, what: str, record: Mapping[str, Any], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    """Every wanted name is there, and its fixed sizes are among those of the graph, in their order."""
    for name, sizes in wanted.items():
        if name not in record:
            raise InputError(
                f"{file}: it has no {what} '{name}' (it has {', '.join(record)}); export the model again"
            )
        fixed = tuple(size for size in record[name] if isinstance(size, int))
        if not _within(sizes, fixed):
            raise InputError(
                f"{file}: the {what} '{name}' has the shape {list(record[name])}, expected sizes "
                f"{', '.join(map(str, sizes))}: the graph is of another model than onnx.json"
            )


def _within(wanted: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    left = iter(shape)
    return all(size in left for size in wanted)


# local/entropy.py in NumPy: log p of a token, mean and standard deviation of log p over the vocabulary; entropies.


_MOST = 1 << 23  # numbers of a copy: 32 MB
# A vocabulary's unused entries may stand at minus infinity; 0 · ∞ is not a number, 0 · 10⁴ is 0.
_LOWEST = np.float32(-1e4)


def moments(logits: NDArray[np.float32], targets: Sequence[int]) -> NDArray[np.float64]:
    """``logits`` of shape (positions, vocabulary) → (positions, 3)."""
    step = max(1, _MOST // max(1, logits.shape[-1]))
    parts = [
        _moments(logits[at : at + step], np.asarray(targets[at : at + step], np.int64))
        for at in range(0, len(logits), step)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 3))


def _moments(logits: NDArray[np.float32], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    top = logits.max(-1, keepdims=True)
    x = np.maximum(logits - top, _LOWEST)
    weight = np.exp(x)
    total = weight.sum(-1, dtype=np.float64)
    weight *= x
    mean = weight.sum(-1, dtype=np.float64) / total
    weight *= x
    spread = np.maximum(weight.sum(-1, dtype=np.float64) / total - mean**2, 0)
    chosen = np.take_along_axis(logits, targets[:, None], -1).astype(np.float64) - top
    whole = np.log(total)
    return np.stack([chosen[:, 0] - whole, mean - whole, np.sqrt(spread)], 1)


def renyi(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """``logits`` of shape (positions, vocabulary) → (positions, orders)."""
    step = max(1, _MOST // max(1, logits.shape[-1]))
    parts = [_renyi(logits[at : at + step]) for at in range(0, len(logits), step)]
    return np.concatenate(parts) if parts else np.zeros((0, len(ORDERS)))


def _renyi(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    x = np.maximum(logits - logits.max(-1, keepdims=True), _LOWEST)
    root = np.exp(x / 2)
    weight = root * root
    total = weight.sum(-1, dtype=np.float64)
    whole = np.log(total)
    orders = [
        2 * np.log(root.sum(-1, dtype=np.float64)) - whole,
        whole - (weight * x).sum(-1, dtype=np.float64) / total,
        2 * whole - np.log((weight * weight).sum(-1, dtype=np.float64)),
        whole,
    ]
    values: NDArray[np.float64] = np.maximum(np.stack(orders, 1), 0)
    return values
