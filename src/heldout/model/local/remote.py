"""Checkpoints that bring Python code of their own: which of it ran, and how it runs under transformers 5.

Nothing here runs such code: transformers does, and only when it is told to trust it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: the package that transformers copies a checkpoint's code into
_PACKAGE = "transformers_modules."
_DOORS = (
    "AutoModelForImageTextToText",
    "AutoModelForVision2Seq",
    "AutoModelForCausalLM",
    "AutoModel",
)


def own_door(config: Any) -> str | None:
    """The auto class through which a checkpoint's code offers its model; None where it offers none."""
    offered = getattr(config, "auto_map", None) or {}
    return next((door for door in _DOORS if door in offered), None)


def code_that_ran(model: Any, *others: Any) -> str:
    """The files of a checkpoint's own code behind these objects, each with its SHA-256; "" for none."""
    names = {type(part).__module__ for part in (*model.modules(), model.config, *others)}
    packages = {name.rpartition(".")[0] for name in names if name.startswith(_PACKAGE)}
    files: dict[str, str] = {}
    for name, module in sorted(sys.modules.items()):
        path = getattr(module, "__file__", None)
        # A module's neighbours are what it imported: all that the package holds has run.
        if path and name.rpartition(".")[0] in packages:
            content = Path(path).read_bytes()
            if content:
                files[Path(path).name] = hashlib.sha256(content).hexdigest()
    return ", ".join(f"{name} sha256:{digest}" for name, digest in sorted(files.items()))


@contextlib.contextmanager
def names_of_transformers_4() -> Iterator[None]:
    """While a checkpoint's code is imported, a function that transformers 5 took away can be named.

    CheXagent-8b imports it for pruning heads, which nobody does here.
    """
    from transformers import pytorch_utils

    name = "find_pruneable_heads_and_indices"
    absent = not hasattr(pytorch_utils, name)
    if absent:
        setattr(pytorch_utils, name, _no_pruning)
    try:
        yield
    finally:
        if absent:
            delattr(pytorch_utils, name)


def _no_pruning(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("transformers 5 has no function that prunes heads")


def completed(model_class: Any) -> None:
    """Let a class of a checkpoint's own finish its ``__init__`` as transformers 5 expects.

    Classes written for transformers 4 (InternVL's) may leave out ``post_init``, which since then says
    which weights are tied.
    """
    plain = model_class.__init__
    if hasattr(plain, "completed"):
        return

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        if not hasattr(self, "all_tied_weights_keys"):
            self.post_init()

    init.completed = True  # type: ignore[attr-defined]
    model_class.__init__ = init


def restored_methods(model: Any) -> None:
    """Give a checkpoint's own classes the method of transformers 4 that a Q-Former's code calls."""
    for part in model.modules():
        kind = type(part)
        own = kind.__module__.startswith(_PACKAGE) and hasattr(kind, "post_init")
        if own and not hasattr(kind, "get_head_mask"):
            kind.get_head_mask = _no_head_mask


def _no_head_mask(_self: Any, head_mask: Any, layers: int, *_: Any, **__: Any) -> list[None]:
    if head_mask is not None:
        raise NotImplementedError("transformers 5 has no masks of heads")
    return [None] * layers
