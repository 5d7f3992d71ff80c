"""`heldout lab onnx`: a LLaVA-style checkpoint as a folder of graphs that runs without torch.

What is written is opened as a user would open it, and must prepare the same pictures, read the same tokens
and give the same log-probabilities as the checkpoint does through transformers.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout import __version__
from heldout.errors import InputError, PrerequisiteError, require
from heldout.image import ImageRef, InlineBytes
from heldout.lab.models._onnx_graphs import narrowest, write_graphs
from heldout.model import (
    CARD,
    CHAT_TEMPLATE,
    NEEDED,
    TOKENIZER,
    CheckpointSource,
    Decoder,
    LoadedModel,
    LocalModel,
    OnnxCard,
    OnnxModel,
    Preparation,
    Request,
    Score,
    Text,
    image_token_id,
    load,
    prepare,
)
from heldout.model import file_sha256 as sha256
from heldout.store import write_json

NEEDS = "heldout lab onnx"
TOLERANCE = 1e-4  # of a log-probability, of the vocabulary's mean and standard deviation
_PIXELS = 1e-5
_MODEL_TYPES = ("llava",)
# Positions that depend on the token's place alone, whatever the length of the sequence.
_ROPE = ("default", "linear", "llama3", "yarn", "proportional")
_LARGEST = 2**31 - 2**24  # a file of a graph is one protocol buffer
_SIZES = ((60, 44), (44, 70), (300, 200), (33, 257))
_QUESTIONS = (
    "Is there a mass?",
    "Which organ is shown, and what colour is it — “grey” or né?",
    "x",
)
_ANSWERS = ("yes", "No, 12.5 %", "the left lung")


def export_onnx(
    checkpoint: str,
    out: Path,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> OnnxCard:
    """Write ``out`` and return its card. An earlier export there is replaced, anything else is not."""
    for package, extra in (
        ("torch", "hf"),
        ("transformers", "hf"),
        ("onnxruntime", "onnx"),
        ("tokenizers", "onnx"),
    ):
        require(package, extra, NEEDS)
    if importlib.util.find_spec("onnx") is None:
        raise PrerequisiteError(
            f"{NEEDS} needs the package 'onnx', which is not installed. Install it with: pip install onnx"
        )
    if out.exists() and (not out.is_dir() or _foreign(out)):
        raise InputError(f"{out} holds other things than an exported model; choose another folder")
    tell(f"reading {checkpoint}")
    loaded = load(
        checkpoint,
        revision=revision,
        dtype="float32",
        device="cpu",
        trust_remote_code=trust_remote_code,
    )
    loaded = _with_pillow(checkpoint, loaded, revision, trust_remote_code)
    shape = _decoder(checkpoint, loaded)
    how = _preparation(checkpoint, loaded.processor.image_processor)
    _compare_pictures(checkpoint, loaded.processor.image_processor, how)
    requests = _samples()
    expected = _scores(LocalModel(loaded, checkpoint), requests)
    half = out.with_name(f".{out.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        tell("tracing the vision tower, the projector and the decoder")
        stored = narrowest(loaded.model)
        loaded.model.set_attn_implementation("eager")
        write_graphs(loaded.model, half, how, shape, stored)
        loaded.tokenizer.backend_tokenizer.save(str(half / TOKENIZER))
        template = loaded.processor.chat_template
        if template:
            (half / CHAT_TEMPLATE).write_bytes(str(template).encode("utf-8"))
        card = _card(checkpoint, loaded, half, how, shape, stored)
        _write_card(half, card)
        tell("comparing the graphs with the checkpoint")
        _compare_tokens(checkpoint, loaded.tokenizer, half)
        difference = _difference(expected, _scores(OnnxModel.load(half, device="cpu"), requests))
        if not difference <= TOLERANCE:
            raise InputError(
                f"{checkpoint}: the graphs do not give the checkpoint's numbers: log-probabilities are "
                f"up to {difference:.2g} apart, expected {TOLERANCE:.0e} at most. Nothing was written"
            )
        card = card.model_copy(update={"largest_difference": difference})
        _write_card(half, card)
        if out.exists():
            shutil.rmtree(out)
        half.rename(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return card


def _foreign(out: Path) -> bool:
    names = {path.name for path in out.iterdir()}
    return bool(names) and CARD not in names


def _with_pillow(name: str, loaded: LoadedModel, revision: str | None, trust: bool) -> LoadedModel:
    """The processor that prepares pictures by Pillow: torchvision's rounds differently."""
    from transformers import AutoImageProcessor

    processor = loaded.processor
    chosen = {"revision": revision} if revision else {}
    try:
        processor.image_processor = AutoImageProcessor.from_pretrained(
            str(Path(name).expanduser()) if Path(name).expanduser().is_dir() else name,
            backend="pil",
            trust_remote_code=trust,
            **chosen,
        )
    except (OSError, ValueError, ImportError) as error:
        message = " ".join(str(error).split())[:300]
        raise InputError(
            f"{name}: its image processor has no Pillow version ({message})"
        ) from error
    return loaded


def _decoder(name: str, loaded: LoadedModel) -> Decoder:
    """Shapes of the decoder, or why it cannot be exported."""
    model = loaded.model
    config, text = model.config, model.config.get_text_config()
    inner: Any = getattr(model, "model", None)
    parts = ("vision_tower", "multi_modal_projector", "language_model")
    if config.model_type not in _MODEL_TYPES or not all(hasattr(inner, part) for part in parts):
        raise InputError(
            f"{name}: `heldout lab onnx` exports LLaVA-style models ({', '.join(_MODEL_TYPES)}), and "
            f"this is '{config.model_type}'. Score the checkpoint {name} itself"
        )
    layers = getattr(text, "layer_types", None) or ()
    window = getattr(text, "sliding_window", None)
    if any(kind != "full_attention" for kind in layers) or (window and not layers):
        raise InputError(
            f"{name}: its decoder attends within a window ({window} tokens), which the graphs do not"
        )
    rope = getattr(text, "rope_parameters", None) or {}
    kind = rope.get("rope_type", "default")
    if kind not in _ROPE:
        raise InputError(
            f"{name}: its positions ('{kind}') depend on the length of the whole sequence, which the "
            f"graphs do not know when they read the first part"
        )
    bytes_needed = sum(4 * weight.numel() for weight in inner.language_model.parameters())
    if bytes_needed > _LARGEST:
        raise InputError(
            f"{name}: the decoder's weights take {bytes_needed / 2**30:.1f} GiB in float32, and one ONNX "
            f"file holds 2 GiB. Score the checkpoint {name} itself"
        )
    heads = text.num_attention_heads
    stops = getattr(model.generation_config, "eos_token_id", None)
    if stops is None:
        stops = loaded.tokenizer.eos_token_id
    return Decoder(
        vocabulary=model.get_output_embeddings().weight.shape[0],
        width=text.hidden_size,
        layers=text.num_hidden_layers,
        heads=getattr(text, "num_key_value_heads", None) or heads,
        head_width=getattr(text, "head_dim", None) or text.hidden_size // heads,
        context=getattr(text, "max_position_embeddings", None),
        stops=stops if isinstance(stops, list) else [] if stops is None else [stops],
    )


def _preparation(name: str, processor: Any) -> Preparation:
    settings = processor.to_dict()
    size = _size(settings.get("size"))
    crop = _size(settings.get("crop_size")) if settings.get("do_center_crop") else None
    edge = size.get("shortest_edge")
    final = crop or size
    fits = bool(final.get("height") and final.get("width"))
    squeezed = {"height": final.get("height"), "width": final.get("width")}
    if not settings.get("do_resize") or not fits or (edge is None and size != squeezed):
        raise InputError(
            f"{name}: {type(processor).__name__} does not bring every picture to one size by a resize "
            f"and a crop (size {size}, crop {crop}), so that the graphs cannot be of fixed shape"
        )
    scaled, normal = settings.get("do_rescale"), settings.get("do_normalize")
    return Preparation(
        height=final["height"],
        width=final["width"],
        shortest_edge=edge,
        resample=int(settings.get("resample", 3)),
        rescale_factor=float(settings["rescale_factor"]) if scaled else 1.0,
        mean=list(settings["image_mean"]) if normal else [0.0] * 3,
        std=list(settings["image_std"]) if normal else [1.0] * 3,
    )


def _size(size: Any) -> dict[str, int]:
    return {key: int(value) for key, value in dict(size or {}).items() if value is not None}


def _compare_pictures(name: str, processor: Any, how: Preparation) -> None:
    for picture in _pictures():
        theirs = np.asarray(processor(images=[picture], return_tensors="np")["pixel_values"][0])
        ours = prepare(picture, how)
        if theirs.shape != ours.shape or np.abs(theirs - ours).max() > _PIXELS:
            raise InputError(
                f"{name}: {type(processor).__name__} prepares pictures in a way that heldout does not "
                f"know (its result has the shape {theirs.shape}, ours {ours.shape})"
            )


def _card(
    name: str, loaded: LoadedModel, folder: Path, how: Preparation, shape: Decoder, stored: Any
) -> OnnxCard:
    import onnx
    import torch
    import transformers

    tokenizer, config = loaded.tokenizer, loaded.model.config
    image_id = image_token_id(config)
    assert image_id is not None
    source = Path(name).expanduser()
    weights = sorted(source.glob("*.safetensors")) if source.is_dir() else []
    files = [*NEEDED, *([CHAT_TEMPLATE] if (folder / CHAT_TEMPLATE).exists() else [])]
    return OnnxCard(
        model_type=config.model_type,
        image_token=str(tokenizer.convert_ids_to_tokens(image_id)),
        image_token_id=image_id,
        places=_places(loaded, how),
        preparation=how,
        named_tokens={
            key: str(token)
            for key, token in tokenizer.special_tokens_map.items()
            if not isinstance(token, list | tuple | dict)
        },
        special_tokens=[str(token) for token in tokenizer.all_special_tokens],
        decoder=shape,
        stored=stored,
        source=CheckpointSource(
            name=source.resolve().name if source.is_dir() else name,
            revision=loaded.revision,
            weights={path.name: sha256(path) for path in weights},
        ),
        files={file: sha256(folder / file) for file in files},
        versions={
            "heldout": __version__,
            "torch": torch.__version__,
            "onnx": onnx.__version__,
            "transformers": transformers.__version__,
        },
        largest_difference=0.0,
    )


def _places(loaded: LoadedModel, how: Preparation) -> int:
    """How many lines the projector gives for one picture."""
    import torch

    with torch.no_grad():
        pixels = torch.zeros(1, 3, how.height, how.width)
        features = loaded.model.get_image_features(pixels, return_dict=True).pooler_output
    return int(features[0].shape[0])


def _write_card(folder: Path, card: OnnxCard) -> None:
    write_json(folder / CARD, json.loads(card.model_dump_json()))


def _pictures() -> Iterator[Image.Image]:
    rng = np.random.default_rng(0)
    for width, height in _SIZES:
        coarse = rng.integers(0, 256, (7, 5, 3), dtype=np.uint8)
        yield Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def _samples() -> list[Request]:
    """Questions that share a picture, others without one, and a document, as the order tests read it."""
    requests = []
    for number, picture in enumerate(_pictures()):
        shown = ImageRef(f"{number}.png", InlineBytes(_png(picture), f"{number}.png"))
        for question, answer in itertools.product(_QUESTIONS, _ANSWERS):
            content = (shown, Text(question), Text(answer, scored=True))
            requests.append(Request(f"{number}/{question}/{answer}", content))
    for question in _QUESTIONS:
        requests.append(Request(question, (Text(question), Text("yes", scored=True))))
    document = tuple(Text(f"{question}\n", scored=True) for question in _QUESTIONS)
    return [*requests, Request("document", document, turn=False)]


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _scores(model: LocalModel | OnnxModel, requests: list[Request]) -> Mapping[str, Score]:
    scores = {}
    for score in model.score(requests):
        if not isinstance(score, Score):
            raise InputError(
                f"{model.identity['model']}: a sample could not be scored ({score.reason}: {score.detail})"
            )
        scores[score.id] = score
    return scores


def _difference(expected: Mapping[str, Score], scores: Mapping[str, Score]) -> float:
    largest = 0.0
    for name, theirs in expected.items():
        ours = scores[name]
        if ours.tokens != theirs.tokens or ours.span_ok != theirs.span_ok:
            raise InputError(
                f"the exported tokenizer scores other tokens than the checkpoint's: {ours.tokens} "
                f"instead of {theirs.tokens}"
            )
        for part in ("logprobs", "mu", "sigma"):
            pairs = zip(getattr(ours, part), getattr(theirs, part), strict=True)
            largest = max(largest, *(abs(value - other) for value, other in pairs))
    return largest


def _compare_tokens(name: str, theirs: Any, folder: Path) -> None:
    from heldout.model import LightTokenizer, read_card

    ours = LightTokenizer.open(folder, read_card(folder))
    texts = [*_QUESTIONS, *_ANSWERS, "don 't , he 's .", *map(str, theirs.all_special_tokens)]
    for text, special in itertools.product(texts, (True, False)):
        wanted = theirs(text, add_special_tokens=special, return_offsets_mapping=True)
        statuses = ours(text, add_special_tokens=special)
        ids = wanted["input_ids"]
        same = statuses["input_ids"] == ids
        same &= [tuple(offsets) for offsets in wanted["offset_mapping"]] == statuses[
            "offset_mapping"
        ]
        same &= all(
            theirs.decode(ids, skip_special_tokens=skip)
            == ours.decode(ids, skip_special_tokens=skip)
            for skip in (True, False)
        )
        if not same:
            raise InputError(
                f"{name}: its tokenizer ({type(theirs).__name__}) reads or writes {text!r} in another "
                f"way than its tokenizer.json alone, so that it cannot run without transformers"
            )
