"""A small vision–language model: an ordinary transformers checkpoint of two or three million weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import require

NEEDS = "training the lab's models"


@dataclass(frozen=True)
class Size:
    """``picture`` pixels a side, cut into patches of ``patch``; ``width`` of tower and language model."""

    picture: int = 96
    patch: int = 12
    width: int = 128
    heads: int = 4
    vision_layers: int = 6
    vision_inner: int = 384
    text_layers: int = 4
    text_inner: int = 256
    context: int = 2048

    @property
    def places(self) -> int:
        """Places that a picture takes in a sequence."""
        return (self.picture // self.patch) ** 2


SMALL = Size()  # three of them in float16 are below 12 MB: the demo's
MEDIUM = Size(width=160, heads=5, vision_inner=480, text_layers=5, text_inner=384)  # the grid's
LARGER = Size(width=192, heads=6, vision_inner=576, text_layers=6, text_inner=512)
TOY = Size(
    picture=32,
    patch=8,
    width=32,
    heads=2,
    vision_layers=1,
    vision_inner=64,
    text_layers=1,
    text_inner=64,
)
SIZES = {"small": SMALL, "medium": MEDIUM, "larger": LARGER, "toy": TOY}


def new_model(size: Size, tokenizer: Any, seed: int) -> Any:
    """LlavaForConditionalGeneration with fresh weights; the same seed gives the same ones."""
    require("torch", "hf", NEEDS)
    require("transformers", "hf", NEEDS)
    import torch
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
    )

    vision = CLIPVisionConfig(
        hidden_size=size.width,
        intermediate_size=size.vision_inner,
        num_hidden_layers=size.vision_layers,
        num_attention_heads=size.heads,
        image_size=size.picture,
        patch_size=size.patch,
        hidden_act="gelu",
        projection_dim=size.width,
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=size.text_inner,
        num_hidden_layers=size.text_layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=size.context,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        projector_hidden_act="gelu",
        image_seq_length=size.places,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config)
        # Initial scale of a trained CLIP is meant for its own size; small towers learn faster so.
        for name, weight in model.named_parameters():
            if weight.ndim >= 2:
                torch.nn.init.normal_(weight, std=0.02 if "embed" in name else 0.05)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.bos_token_id = tokenizer.bos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model.eval()


def new_processor(size: Size, tokenizer: Any) -> Any:
    """Pictures are squeezed to a square: nothing is cut off, and every one takes the same places."""
    from transformers import CLIPImageProcessor, LlavaProcessor

    side = {"height": size.picture, "width": size.picture}
    pictures = CLIPImageProcessor(
        size=side, do_center_crop=False, crop_size=side, image_mean=[0.5] * 3, image_std=[0.5] * 3
    )
    return LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=size.patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
    )


def save_model(folder: str | Path, model: Any, size: Size, tokenizer: Any, *, half: bool) -> Path:
    """A folder that `heldout score --model FOLDER` and transformers open; ``half``: float16 weights."""
    import copy

    import torch

    folder = Path(folder)
    saved = copy.deepcopy(model).cpu().to(torch.float16 if half else torch.float32)
    saved.save_pretrained(folder)
    new_processor(size, tokenizer).save_pretrained(folder)
    return folder
