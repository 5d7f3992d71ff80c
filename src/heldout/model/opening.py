"""Open a model that runs here: a checkpoint by transformers, or ``onnx:FOLDER`` by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from heldout.errors import InputError, require

if TYPE_CHECKING:
    from heldout.model.local import RunningModel

ONNX = "onnx:"


def open_model(
    name: str,
    *,
    dtype: str = "auto",
    device: str = "auto",
    revision: str | None = None,
    trust_remote_code: bool = False,
    batch_tokens: int | None = None,
) -> RunningModel:
    """``name``: a folder or hub name of a checkpoint, or ``onnx:FOLDER``."""
    how: dict[str, Any] = {"dtype": dtype, "device": device}
    if batch_tokens is not None:
        how["batch_tokens"] = batch_tokens
    folder = onnx_folder(name)
    if folder is not None:
        if revision is not None:
            raise InputError(f"revision {revision}: {name} is a folder here, which has only one")
        from heldout.model.onnx import OnnxModel

        return OnnxModel.load(folder, **how)
    _refuse_unmarked(name)
    for package in ("torch", "transformers"):
        require(package, "hf", f"running the local model {name}")
    from heldout.model.local import LocalModel

    return LocalModel.load(name, revision=revision, trust_remote_code=trust_remote_code, **how)


def onnx_folder(name: str) -> Path | None:
    """The folder of ``onnx:FOLDER``; None for any other name."""
    return Path(name.removeprefix(ONNX)) if name.startswith(ONNX) else None


def _refuse_unmarked(name: str) -> None:
    from heldout.model.onnx.card import CARD

    if (Path(name).expanduser() / CARD).is_file():
        raise InputError(f"model {name}: a folder of ONNX graphs; give {ONNX}{name} to run it")
