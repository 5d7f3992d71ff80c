"""Checkpoints with Python code of their own: which of it ran, and how it runs under transformers 5.

Nothing here runs such code: transformers does, and only with the setting trust_remote_code.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError

#: the package that transformers copies a checkpoint's code into
_PACKAGE = "transformers_modules."
_DOORS = (
    "AutoModelForImageTextToText",
    "AutoModelForVision2Seq",
    "AutoModelForCausalLM",
    "AutoModel",
)


def own_door(config: Any) -> str | None:
    """The auto class by which a checkpoint's code registers its model; None if there is none."""
    offered = getattr(config, "auto_map", None) or {}
    return next((door for door in _DOORS if door in offered), None)


def code_that_ran(model: Any, *others: Any) -> str:
    """The files of a checkpoint's own code behind these objects, each with its SHA-256; "" for none."""
    names = {type(part).__module__ for part in (*model.modules(), model.config, *others)}
    packages = {name.rpartition(".")[0] for name in names if name.startswith(_PACKAGE)}
    files: dict[str, str] = {}
    # A module imports its neighbours: everything in the package has run.
    ran = [name for name in sys.modules if packages and name.rpartition(".")[0] in packages]
    for name in sorted(ran):
        path = getattr(sys.modules[name], "__file__", None)
        if path:
            content = Path(path).read_bytes()
            if content:
                files[Path(path).name] = hashlib.sha256(content).hexdigest()
    return ", ".join(f"{name} sha256:{digest}" for name, digest in sorted(files.items()))


@contextlib.contextmanager
def names_of_transformers_4() -> Iterator[None]:
    """While a checkpoint's code is imported, a function that transformers 5 removed exists again.

    CheXagent-8b imports it for pruning heads, which is not used here.
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


# A processor for InternVL in the layout of its first release, whose repository has none.
#
# The prompt is that of the checkpoint's own conversation template, as its ``chat`` writes it. Pictures are
# cut into tiles the way the model card shows it: the grid whose shape is nearest the picture's, and a
# thumbnail of the whole.


START, CONTEXT, END = "<img>", "<IMG_CONTEXT>", "</img>"
_MEAN, _DEVIATION = (
    (0.485, 0.456, 0.406),
    (0.229, 0.224, 0.225),
)  # ImageNet's, as the model card has


class TiledImages:
    """``tiles`` cuts a picture; settings are those of the checkpoint's configuration."""

    def __init__(self, config: Any) -> None:
        self.side = int(config.force_image_size or config.vision_config.image_size)
        dynamic = config.dynamic_image_size
        self.fewest = int(config.min_dynamic_patch) if dynamic else 1
        self.most = int(config.max_dynamic_patch) if dynamic else 1
        self.thumbnail = bool(config.use_thumbnail)

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Columns and rows of the shape nearest the picture's; of equal ones, more for a large picture."""
        counts = range(1, self.most + 1)
        known = {(i, j) for i in counts for j in counts if self.fewest <= i * j <= self.most}
        best, nearest = (1, 1), float("inf")
        for columns, rows in sorted(known, key=lambda grid: grid[0] * grid[1]):
            gap = abs(width / height - columns / rows)
            large = width * height > 0.5 * self.side**2 * columns * rows
            if gap < nearest or (gap == nearest and large):
                best, nearest = (columns, rows), gap
        return best

    def tiles(self, picture: Image.Image) -> list[Image.Image]:
        side = self.side
        columns, rows = self.grid(*picture.size)
        whole = picture.resize((side * columns, side * rows), Image.Resampling.BICUBIC)
        tiles = [
            whole.crop((side * column, side * row, side * (column + 1), side * (row + 1)))
            for row in range(rows)
            for column in range(columns)
        ]
        if self.thumbnail and len(tiles) > 1:
            tiles.append(picture.resize((side, side), Image.Resampling.BICUBIC))
        return tiles

    def pixels(self, tiles: Sequence[Image.Image]) -> Any:
        import torch

        values = np.stack([np.asarray(tile) for tile in tiles]).astype(np.float32) / 255
        mean, deviation = (np.array(part, np.float32) for part in (_MEAN, _DEVIATION))
        scaled = (values - mean) / deviation
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))


class ChatProcessor:
    """Text and pictures as ``InternVLChatModel.forward`` takes them."""

    image_token = "<image>"

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        if not hasattr(model, "conv_template") or CONTEXT not in tokenizer.get_vocab():
            raise InputError(
                f"model {name}: not InternVL's chat model as released: expected conv_template in its "
                f"code and {CONTEXT} in its tokenizer. Its '-hf' conversion needs no code"
            )
        self.tokenizer = tokenizer
        self.image_processor = TiledImages(model.config)
        self._tokens = int(model.num_image_token)
        self._conversation = model.conv_template
        self._conversation.system_message = model.system_message
        self.chat_template = self.apply_chat_template([{"content": [{"type": "image"}]}])
        number = tokenizer.convert_tokens_to_ids(CONTEXT)
        model.img_context_token_id = model.config.image_token_id = number
        # As `chat` does: the reply ends where the template ends a turn.
        self.stop = tokenizer.convert_tokens_to_ids(self._conversation.sep.strip())

    def apply_chat_template(self, turns: Sequence[Any], **_: Any) -> str:
        (turn,) = turns
        conversation = copy.deepcopy(self._conversation)
        question = "".join(
            f"{self.image_token}\n" if part["type"] == "image" else part["text"]
            for part in turn["content"]
        )
        conversation.append_message(conversation.roles[0], question)
        conversation.append_message(conversation.roles[1], None)
        return str(conversation.get_prompt())

    def __call__(
        self, text: list[str], images: list[list[Image.Image]], return_tensors: str, **settings: Any
    ) -> dict[str, Any]:
        import torch

        (prompt,), (pictures,) = text, images
        cut = [self.image_processor.tiles(picture) for picture in pictures]
        for tiles in cut:
            shown = START + CONTEXT * (self._tokens * len(tiles)) + END
            prompt = prompt.replace(self.image_token, shown, 1)
        tiles = [tile for images in cut for tile in images]
        return {
            **self.tokenizer([prompt], return_tensors=return_tensors, **settings),
            "pixel_values": self.image_processor.pixels(tiles),
            "image_flags": torch.ones((len(tiles), 1), dtype=torch.long),
        }
