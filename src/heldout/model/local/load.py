"""Open a checkpoint: model, processor and tokenizer, or raise an error with the reason."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from heldout.errors import HeldoutError, InputError, PrerequisiteError, require
from heldout.model.local._remote import (
    ChatProcessor,
    code_that_ran,
    completed,
    names_of_transformers_4,
    own_door,
    restored_methods,
)

_WEIGHTS = ("*.safetensors", "*.bin")
_ARM = ("aarch64", "arm64")
_ENDS = 1 << 20  # a file's first and last megabyte: hashing all of a large model takes minutes


class LoadedModel(NamedTuple):
    """``code``: the files of the checkpoint's own that ran, with their hashes."""

    model: Any
    processor: Any
    tokenizer: Any
    revision: str
    code: str = ""


def load(
    name: str, *, revision: str | None, dtype: str, device: str, trust_remote_code: bool
) -> LoadedModel:
    require("torch", "hf", "running a local model")
    require("transformers", "hf", "running a local model")
    import torch
    import transformers
    from transformers import AutoConfig, AutoProcessor, AutoTokenizer

    if int(transformers.__version__.split(".")[0]) < 5:
        raise PrerequisiteError(
            f"running a local model needs transformers 5 or later, found {transformers.__version__}. "
            f"Install it with: pip install -U 'transformers>=5'"
        )
    folder = Path(name).expanduser()
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
    if not folder.is_dir() and (looks_local or folder.exists()):
        served = "://" in name
        cure = "; the address of a server is given as endpoint, beside its name for the model"
        raise InputError(f"model {name}: there is no such folder{cure if served else ''}")
    if folder.is_dir():
        name = str(folder)
    chosen: dict[str, Any] = {"revision": revision} if revision else {}
    chosen["trust_remote_code"] = trust_remote_code
    kind = _dtype(dtype)
    with _explained(name, trust_remote_code), names_of_transformers_4():
        config = AutoConfig.from_pretrained(name, **chosen)
        # The layout of InternVL's first release has a tokenizer and no processor.
        chat = getattr(config, "model_type", "") == "internvl_chat"
        opened = (AutoTokenizer if chat else AutoProcessor).from_pretrained(name, **chosen)
    tokenizer = _checked(name, opened, alone=chat)
    with _explained(name, trust_remote_code), names_of_transformers_4():
        model = _model(name, config, chosen, kind)
        processor = ChatProcessor(model, tokenizer, name) if chat else opened
    restored_methods(model)
    _settle_generation(model, name, revision)
    if chat:
        model.generation_config.eos_token_id = processor.stop
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and platform.machine() in _ARM:
        # On these oneDNN multiplies small matrices at a quarter of BLAS's speed, large ones no faster.
        torch.backends.mkldnn.set_flags(False)
    try:
        model = model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device}: {str(error).splitlines()[0]}") from error
    code = code_that_ran(model, processor, tokenizer, getattr(processor, "image_processor", None))
    return LoadedModel(model, processor, tokenizer, _revision(name, folder, config), code)


def _checked(name: str, processor: Any, *, alone: bool) -> Any:
    """The tokenizer of a processor that can be used here; ``alone``: it is the tokenizer itself."""
    tokenizer = processor if alone else getattr(processor, "tokenizer", None)
    if tokenizer is None or not (alone or getattr(processor, "image_processor", None)):
        raise InputError(
            f"model {name}: it has no image processor ({type(processor).__name__}); expected a "
            f"checkpoint that reads pictures and text, with preprocessor_config.json"
        )
    if not tokenizer.is_fast:
        raise InputError(
            f"model {name}: its tokenizer ({type(tokenizer).__name__}) does not tell which "
            f"characters a token stands for, so the answer's tokens cannot be found"
        )
    return tokenizer


def _model(name: str, config: Any, chosen: dict[str, Any], dtype: Any) -> Any:
    import transformers
    from transformers.dynamic_module_utils import get_class_from_dynamic_module

    door = "AutoModelForImageTextToText"
    own = own_door(config) if chosen["trust_remote_code"] else None
    if own is not None:  # a model with code of its own names its auto class
        door = own
        revision = {key: value for key, value in chosen.items() if key == "revision"}
        completed(get_class_from_dynamic_module(config.auto_map[own], name, **revision))
    opened = getattr(transformers, door)
    model, loading = opened.from_pretrained(name, dtype=dtype, output_loading_info=True, **chosen)
    weights = {key for key, _ in model.named_parameters()}
    absent = sorted(weights & set(loading.get("missing_keys") or ()))
    if absent:  # transformers would initialise them at random, and only log it
        raise InputError(
            f"model {name}: the checkpoint lacks {len(absent)} of the model's weights, such as "
            f"{absent[0]}; scores of a half random model mean nothing"
        )
    return model


def _dtype(name: str) -> Any:
    import torch

    known = {"auto": "auto", "float32": torch.float32, "bfloat16": torch.bfloat16}
    known |= {"float16": torch.float16}
    if name not in known:
        raise InputError(f"dtype {name}: expected one of {', '.join(known)}")
    return known[name]


def _settle_generation(model: Any, name: str, revision: str | None) -> None:
    """A class of the checkpoint's own may not have read the settings that say where a reply ends."""
    from transformers import GenerationConfig

    if getattr(model, "generation_config", None) is None:
        try:
            model.generation_config = GenerationConfig.from_pretrained(name, revision=revision)
        except OSError:
            model.generation_config = GenerationConfig()


# How transformers and the code of checkpoints name packages that are missing.
_MISSING = (
    r"requires the (?P<library>[\w.-]+) library but it was not found",
    r"packages that were not found in your environment: (?P<packages>[\w, .-]+?)\. Run",
    r"Install it with `pip install (?P<package>[\w.-]+)`",
    r"No module named '(?P<module>\w+)",
    r"need to have (?P<needed>\w+) or tiktoken installed",
)
_PARTS = ("torchvision", "num2words", "sentencepiece", "protobuf")  # packages of heldout[hf]
_EXTRA = "'heldout[hf]'"
_READS_MODEL = {"sentencepiece": "sentencepiece", "protobuf": "google.protobuf"}


@contextlib.contextmanager
def _explained(name: str, trusted: bool) -> Iterator[None]:
    """In this block errors of a checkpoint become one sentence with advice."""
    try:
        yield
    except HeldoutError:
        raise
    except Exception as error:  # a checkpoint's own code may raise anything
        raise _sentence(name, error, trusted) from error


def _sentence(name: str, error: Exception, trusted: bool) -> HeldoutError:
    message = " ".join(str(error).split())
    if isinstance(error, ImportError):
        for pattern in _MISSING:
            if match := re.search(pattern, message):
                wanted = match[1].replace(",", " ").lower().split()
                ours = set(wanted) <= set(_PARTS)
                return PrerequisiteError(
                    f"model {name}: needs {', '.join(wanted)}, which is not installed. Install it "
                    f"with: pip install {_EXTRA if ours else ' '.join(wanted)}"
                )
    if "backend tokenizer" in message:
        folder = Path(name).expanduser()
        absent = [p for p, m in _READS_MODEL.items() if importlib.util.find_spec(m) is None]
        if absent and any(folder.glob("*.model")):
            return PrerequisiteError(
                f"model {name}: needs {', '.join(absent)} to read its tokenizer.model. Install it "
                f"with: pip install {_EXTRA}"
            )
        return InputError(
            f"model {name}: its tokenizer cannot be read; expected tokenizer.json or "
            f"tokenizer.model next to the weights. Copy every file of the checkpoint"
        )
    if not trusted and "trust_remote_code" in message:
        return InputError(
            f"model {name}: this checkpoint brings Python code of its own, which would run on this "
            f"machine. Read it, and if you trust it, set trust_remote_code to true"
        )
    if "Unrecognized configuration class" in message:
        return InputError(
            f"model {name}: not a model that reads pictures and writes text "
            f"(transformers' AutoModelForImageTextToText does not know it)"
        )
    if "image processor" in message or "feature extractor" in message:
        return InputError(
            f"model {name}: it has no image processor; expected a checkpoint that reads pictures "
            f"and text, with preprocessor_config.json"
        )
    return InputError(f"model {name}: {type(error).__name__}: {message[:400]}")


def _revision(name: str, folder: Path, config: Any) -> str:
    commit = getattr(config, "_commit_hash", None)
    if commit:
        return str(commit)
    hasher = hashlib.sha256()
    for file in sorted(file for pattern in _WEIGHTS for file in folder.glob(pattern)):
        size = file.stat().st_size
        hasher.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as stream:
            hasher.update(stream.read(_ENDS))
            stream.seek(max(0, size - _ENDS))
            hasher.update(stream.read(_ENDS))
    return f"files {hasher.hexdigest()[:16]}"


# Differences between families of vision–language models. Most do not differ in anything that matters here.


@dataclass(frozen=True)
class Family:
    """``form``: the prompt of a model without a chat template, with ``{}`` where the question stands."""

    form: str = "Question: {} Answer:"
    #: The text before the answer does not depend on what follows, so it can be read once.
    prefix: bool = True
    needs_picture: bool = False
    most_pictures: int | None = None
    #: The pictures' tokens stand before the text and before its first special token.
    picture_first: bool = False
    #: How many places the model itself puts before the tokens it is given, for its pictures.
    places_before: int = 0
    #: The part that reads a text without a picture, and what follows one that was read already.
    reader: str | None = None
    #: What the processor writes after a prompt.
    closing: str = ""
    #: The prompt is read in both directions: the model needs the position where the answer begins.
    answer_types: bool = False
    #: A tokenizer of its own reads the prompt for the part that looks at the picture.
    instruction: bool = False
    #: The pictures' part is a batch of pictures, so that one run serves every row.
    tower: str | None = None


_FAMILIES = {
    "blip-2": Family(
        most_pictures=1, picture_first=True, reader="language_model", tower="vision_model"
    ),
    "instructblip": Family(
        prefix=False,
        most_pictures=1,
        picture_first=True,
        reader="language_model",
        instruction=True,
        tower="vision_model",
    ),
    # CheXagent-8b: a BLIP-2 with code of its own, and no token for pictures.
    "chexagent": Family(
        form=" USER: <s>{} ASSISTANT: <s>",
        picture_first=True,
        reader="language_model",
        tower="vision_model",
    ),
    # InternVL in the layout of its first release, with code of its own.
    "internvl_chat": Family(reader="language_model"),
    "paligemma": Family(
        form="answer en {}",
        prefix=False,
        needs_picture=True,
        closing="\n",
        answer_types=True,
        tower="vision_tower",
    ),
}


def family_of(config: Any) -> Family:
    family = _FAMILIES.get(getattr(config, "model_type", ""), Family())
    if family.picture_first and image_token_id(config) is None:
        return replace(
            family,
            places_before=getattr(config, "num_query_tokens", 0),
            most_pictures=getattr(config, "num_max_images", family.most_pictures),
        )
    return family


def text_config(config: Any) -> Any:
    """The language model's part of a configuration."""
    return getattr(config, "llm_config", None) or config.get_text_config()


def image_token_id(config: Any) -> int | None:
    """The id that occurs once for every position that a picture takes in the sequence."""
    for name in ("image_token_id", "image_token_index"):
        value = getattr(config, name, None)
        if isinstance(value, int):
            return value
    return None
