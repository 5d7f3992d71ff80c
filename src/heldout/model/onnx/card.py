"""``onnx.json``: what lies in a folder of ONNX graphs, and from which checkpoint it came."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heldout.errors import InputError

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


class Source(_Part):
    """The checkpoint that was exported: its name, its revision as the local backend tells it, and the
    SHA-256 of its weights."""

    name: str
    revision: str
    weights: dict[str, str]


class Card(_Part):
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
    source: Source
    files: dict[str, str]
    versions: dict[str, str]  # of what exported it
    largest_difference: float


def read_card(folder: Path) -> Card:
    """The card of a folder whose files are what it says; otherwise one sentence that says why not."""
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
        card = Card.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: {place}: {first['msg']}; export the model again") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); export the model again") from error
    _check_files(folder, card)
    return card


def _check_files(folder: Path, card: Card) -> None:
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
