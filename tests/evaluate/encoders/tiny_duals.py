"""Dual encoders of every library at a tiny size, made on the spot, and a benchmark to ask them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from small_clip import word_tokenizer

TEXT = "a photo of the large small red green blue circle square . b c d e f g h"
TOWER = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
PICTURE = {"image_size": 32, "patch_size": 8}


def write_clip(folder: Path, seed: int = 0) -> str:
    import torch
    import transformers as t

    tokenizer = word_tokenizer([TEXT], 16)
    torch.manual_seed(seed)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 3}
    text = {**TOWER, **ids, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    config = t.CLIPConfig(vision_config={**TOWER, **PICTURE}, text_config=text, projection_dim=12)
    t.CLIPModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kind = getattr(t, "CLIPImageProcessorPil", None) or t.CLIPImageProcessor
    kind(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return f"transformers:{folder}"


def write_siglip(folder: Path) -> str:
    import torch
    import transformers as t

    tokenizer = word_tokenizer([TEXT], 16)
    torch.manual_seed(0)
    text = {**TOWER, "vocab_size": len(tokenizer), "max_position_embeddings": 16}
    config = t.SiglipConfig(vision_config={**TOWER, **PICTURE}, text_config=text)
    t.SiglipModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kind = getattr(t, "SiglipImageProcessorPil", None) or t.SiglipImageProcessor
    kind(size={"height": 32, "width": 32}).save_pretrained(folder)
    return f"transformers:{folder}"


def write_open_clip(folder: Path) -> str:
    import open_clip
    import torch

    vision = {"image_size": 32, "layers": 1, "width": 16, "head_width": 8, "patch_size": 8}
    text = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    folder.mkdir(parents=True, exist_ok=True)
    config = {"embed_dim": 12, "vision_cfg": vision, "text_cfg": text}
    (folder / "tiny-dual.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    torch.manual_seed(0)
    weights = folder / "weights.pt"
    torch.save(open_clip.create_model("tiny-dual").state_dict(), weights)
    return f"open_clip:tiny-dual/{weights}"


def picture(seed: int) -> Image.Image:
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 8, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize((40, 30), Image.Resampling.BICUBIC)


def write_pictures(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A JSONL of ``rows`` with a picture each: that of ``rows[n]["seed"]``, else of n."""
    (folder / "images").mkdir(parents=True)
    lines = []
    for number, row in enumerate(rows):
        seed = row.get("seed", number)
        name = f"images/{seed:04d}.png"
        picture(seed).save(folder / name)
        kept = {key: value for key, value in row.items() if key != "seed"}
        lines.append(json.dumps({"id": f"i{number}", "image": name, **kept}))
    path = folder / "test.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path
