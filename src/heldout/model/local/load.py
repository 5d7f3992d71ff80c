"""Open a checkpoint: model, processor and tokenizer, or one sentence that says why not."""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any, NamedTuple

from heldout.errors import InputError, PrerequisiteError, require

_WEIGHTS = ("*.safetensors", "*.bin")
_ARM = ("aarch64", "arm64")
_ENDS = 1 << 20  # a file's first and last megabyte: all of it would be minutes for a large model


class Loaded(NamedTuple):
    model: Any
    processor: Any
    tokenizer: Any
    revision: str


def load(
    name: str, *, revision: str | None, dtype: str, device: str, trust_remote_code: bool
) -> Loaded:
    require("torch", "hf", "--model NAME")
    require("transformers", "hf", "--model NAME")
    import torch
    import transformers
    from safetensors import SafetensorError
    from transformers import AutoConfig, AutoProcessor

    if int(transformers.__version__.split(".")[0]) < 5:
        raise PrerequisiteError(
            f"--model NAME needs transformers 5 or later, found {transformers.__version__}. "
            f"Install it with: pip install -U 'transformers>=5'"
        )
    folder = Path(name).expanduser()
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
    if not folder.is_dir() and (looks_local or folder.exists()):
        raise InputError(f"--model {name}: there is no such folder")
    if folder.is_dir():
        name = str(folder)
    chosen: dict[str, Any] = {"revision": revision} if revision else {}
    chosen["trust_remote_code"] = trust_remote_code
    kind = _dtype(dtype)
    try:
        config = AutoConfig.from_pretrained(name, **chosen)
        processor = AutoProcessor.from_pretrained(name, **chosen)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(_explained(name, error, trust_remote_code)) from error
    tokenizer = _checked(name, processor)
    try:
        model = _model(name, config, chosen, kind)
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, SafetensorError) as error:
        # The last two: weights that are cut short, or of other shapes than the configuration's.
        raise InputError(_explained(name, error, trust_remote_code)) from error
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and platform.machine() in _ARM:
        # On these oneDNN multiplies small matrices at a quarter of BLAS's speed, large ones no faster.
        torch.backends.mkldnn.set_flags(False)
    try:
        model = model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {device}: {str(error).splitlines()[0]}") from error
    return Loaded(model, processor, tokenizer, _revision(name, folder, config))


def _checked(name: str, processor: Any) -> Any:
    """The tokenizer of a processor that can be used here."""
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None or getattr(processor, "image_processor", None) is None:
        raise InputError(
            f"--model {name}: it has no image processor ({type(processor).__name__}); expected a "
            f"checkpoint that reads pictures and text, with preprocessor_config.json"
        )
    if not tokenizer.is_fast:
        raise InputError(
            f"--model {name}: its tokenizer ({type(tokenizer).__name__}) does not tell which "
            f"characters a token stands for, so the answer's tokens cannot be found"
        )
    return tokenizer


def _model(name: str, config: Any, chosen: dict[str, Any], dtype: Any) -> Any:
    import transformers

    door = "AutoModelForImageTextToText"
    if chosen["trust_remote_code"]:  # a model with code of its own says itself which door is its
        offered = getattr(config, "auto_map", None) or {}
        own = (door, "AutoModelForVision2Seq", "AutoModelForCausalLM")
        door = next((name for name in own if name in offered), door)
    opened = getattr(transformers, door)
    model, told = opened.from_pretrained(name, dtype=dtype, output_loading_info=True, **chosen)
    weights = {key for key, _ in model.named_parameters()}
    absent = sorted(weights & set(told.get("missing_keys") or ()))
    if absent:  # transformers would fill them with random numbers, and say so in a log
        raise InputError(
            f"--model {name}: the checkpoint lacks {len(absent)} of the model's weights, such as "
            f"{absent[0]}; scores of a half random model mean nothing"
        )
    return model


def _dtype(name: str) -> Any:
    import torch

    known = {"auto": "auto", "float32": torch.float32, "bfloat16": torch.bfloat16}
    known |= {"float16": torch.float16}
    if name not in known:
        raise InputError(f"--dtype {name}: expected one of {', '.join(known)}")
    return known[name]


def _explained(name: str, error: Exception, trusted: bool) -> str:
    told = " ".join(str(error).split())
    if not trusted and "trust_remote_code" in told:
        return (
            f"--model {name}: this checkpoint brings Python code of its own, which would run on this "
            f"machine. Read it, and if you trust it, pass --trust-remote-code"
        )
    if "Unrecognized configuration class" in told:
        return (
            f"--model {name}: not a model that reads pictures and writes text "
            f"(transformers' AutoModelForImageTextToText does not know it)"
        )
    if "image processor" in told or "feature extractor" in told:
        return (
            f"--model {name}: it has no image processor; expected a checkpoint that reads pictures "
            f"and text, with preprocessor_config.json"
        )
    return f"--model {name}: {told[:400]}"


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
