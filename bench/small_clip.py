"""A small dual encoder (CLIP) trained from nothing, saved as an ordinary transformers folder."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import require
from heldout.lab import Size

NEEDS = "training the lab's dual encoders"
PAD, BEGIN, UNKNOWN, END = (
    "<pad>",
    "<s>",
    "<unk>",
    "</s>",
)  # END is not 2: CLIP reads 2 as "largest id"
MEAN = (0.48145466, 0.4578275, 0.40821073)
DEVIATION = (0.26862954, 0.26130258, 0.27577711)
_LARGEST_SCALE = math.log(100)
_BURN_IN = 20  # steps before one is timed


# ``context`` counts words.
FULL = Size(width=256, vision_layers=8, vision_inner=1024, text_inner=1024, context=64)
TINY = Size(
    width=64,
    heads=2,
    vision_layers=2,
    vision_inner=256,
    text_layers=1,
    text_inner=256,
    context=64,
)


@dataclass(frozen=True)
class Schedule:
    """``minutes`` bound the steps: what a machine cannot do in them is left out, and the rest anneals."""

    steps: int = 2500
    batch: int = 1024
    rate: float = 4e-4
    warm: int = 100
    decay: float = 0.1
    minutes: float = 3.0
    titled: float = 0.0  # share of the pairs of a step that show the title in place of the caption

    def at(self, step: int, steps: int) -> float:
        up = min(1.0, (step + 1) / max(1, min(self.warm, steps // 5)))
        return self.rate * up * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / steps)))


@dataclass(frozen=True)
class Pairs:
    """Pictures (n, side, side, 3) with a caption and a title each."""

    pixels: NDArray[np.uint8]
    captions: Sequence[str]
    titles: Sequence[str]


def word_tokenizer(captions: Sequence[str], length: int) -> Any:
    """One token per word of the captions; a word it does not know is ``<unk>``."""
    require("transformers", "hf", NEEDS)
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = pre_tokenizers.Whitespace()
    seen = {word for text in captions for word, _ in words.pre_tokenize_str(text.lower())}
    known = [PAD, BEGIN, UNKNOWN, END, *sorted(seen)]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(known)}, UNKNOWN))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = words
    made.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        special_tokens=[(BEGIN, known.index(BEGIN)), (END, known.index(END))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token=PAD,
        bos_token=BEGIN,
        unk_token=UNKNOWN,
        eos_token=END,
        model_max_length=length,
    )


def new_clip(size: Size, tokenizer: Any, seed: int) -> Any:
    """CLIPModel with fresh weights; the same seed gives the same ones."""
    require("torch", "hf", NEEDS)
    import torch
    from transformers import CLIPConfig, CLIPModel

    tower = {"hidden_size": size.width, "intermediate_size": size.vision_inner}
    tower |= {"num_attention_heads": size.heads, "projection_dim": size.width}
    vision = {"image_size": size.picture, "patch_size": size.patch}
    ids = {
        f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos")
    }
    torch.manual_seed(seed)
    return CLIPModel(
        CLIPConfig(
            vision_config={**tower, **vision, "num_hidden_layers": size.vision_layers},
            text_config={
                **tower,
                **ids,
                "num_hidden_layers": size.text_layers,
                "vocab_size": len(tokenizer),
                "max_position_embeddings": size.context,
            },
            projection_dim=size.width,
        )
    )


def train_clip(
    model: Any,
    tokenizer: Any,
    pairs: Pairs,
    schedule: Schedule,
    *,
    device: str,
    seed: int,
    log: Path,
    say: Callable[[str], None] = lambda text: None,
) -> int:
    """Train in place; how many steps it were. ``log`` gets a line of JSON every 25 steps.

    Each epoch shows every picture once in an order drawn from ``seed``, unchanged, with its caption or its
    title.
    """
    import torch

    ids, mask = _tokens(tokenizer, [*pairs.captions, *pairs.titles], device)
    pixels = torch.from_numpy(pairs.pixels).to(device)
    model.to(device).train()
    plain = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    weights = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    groups = [
        {"params": weights, "weight_decay": schedule.decay},
        {"params": plain, "weight_decay": 0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=schedule.rate, betas=(0.9, 0.98), eps=1e-6)
    rng = np.random.default_rng(seed)
    batch = min(schedule.batch, len(pixels))
    steps, began, order = schedule.steps, time.perf_counter(), np.zeros(0, np.int64)
    with log.open("w") as lines:
        step = 0
        while step < steps:
            if len(order) < batch:
                order = rng.permutation(len(pixels))
            chosen, order = torch.from_numpy(order[:batch]).to(device), order[batch:]
            for group in optimizer.param_groups:
                group["lr"] = schedule.at(step, steps)
            told = chosen
            if schedule.titled:
                brief = torch.from_numpy(rng.random(batch) < schedule.titled).to(device)
                told = chosen + len(pixels) * brief
            loss = _loss(model, pixels[chosen], ids[told], mask[told], device)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                model.logit_scale.clamp_(0, _LARGEST_SCALE)
            step += 1
            if step == _BURN_IN:
                loss.item()  # waits for the device
                began = time.perf_counter()
            if step == 2 * _BURN_IN:
                loss.item()
                each = (time.perf_counter() - began) / _BURN_IN
                steps = min(steps, max(step, int(60 * schedule.minutes / each)))
                say(f"{1000 * each:.1f} ms a step: {steps} steps of {schedule.steps}")
            if step % 25 == 0 or step == steps:
                value = loss.item()
                if not math.isfinite(value):
                    raise RuntimeError(f"the loss is {value} at step {step}: lower the rate")
                lines.write(json.dumps({"step": step, "loss": round(value, 5)}) + "\n")
                lines.flush()
            if step % 250 == 0:
                say(f"step {step} of {steps}: loss {value:.4f}")
    model.eval()
    return steps


def save_clip(model: Any, tokenizer: Any, size: Size, folder: Path) -> None:
    """Half precision, with the processor of pictures and the tokenizer: ``transformers:FOLDER``."""
    import torch
    import transformers

    model.to("cpu", torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    side = {"height": size.picture, "width": size.picture}
    kind(
        size={"shortest_edge": size.picture}, crop_size=side, image_mean=MEAN, image_std=DEVIATION
    ).save_pretrained(folder)


def embed_pairs(
    model: Any,
    tokenizer: Any,
    pixels: NDArray[np.uint8] | None,
    texts: Sequence[str] | None,
    device: str,
) -> NDArray[np.float32]:
    """Unit rows of pictures, or of texts: a first look at a model that was just trained."""
    import torch

    rows = []
    with torch.inference_mode():
        for start in range(0, len(pixels if pixels is not None else texts or ()), 512):
            some = slice(start, start + 512)
            if pixels is not None:
                shown = _prepared(torch.from_numpy(pixels[some]).to(device))
                found = model.get_image_features(pixel_values=shown)
            else:
                ids, mask = _tokens(tokenizer, list(texts or ())[some], device)
                found = model.get_text_features(input_ids=ids, attention_mask=mask)
            found = found if isinstance(found, torch.Tensor) else found.pooler_output
            rows.append(torch.nn.functional.normalize(found.float(), dim=-1).cpu().numpy())
    return np.concatenate(rows)


def _loss(model: Any, pixels: Any, ids: Any, mask: Any, device: str) -> Any:
    """Every picture against every sentence of the batch, both ways."""
    import torch

    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        path = model(pixel_values=_prepared(pixels), input_ids=ids, attention_mask=mask)
    logits = path.logits_per_image.float()
    right = torch.arange(len(logits), device=device)
    both = (torch.nn.functional.cross_entropy(one, right) for one in (logits, logits.T))
    return sum(both) / 2


def _prepared(pixels: Any) -> Any:
    import torch

    mean, deviation = (torch.tensor(one, device=pixels.device) for one in (MEAN, DEVIATION))
    return ((pixels.float() / 255 - mean) / deviation).permute(0, 3, 1, 2)


def _tokens(tokenizer: Any, texts: Sequence[str], device: str) -> tuple[Any, Any]:
    import torch

    found = tokenizer(
        list(texts), padding="max_length", truncation=True, max_length=tokenizer.model_max_length
    )
    return tuple(
        torch.tensor(found[name], device=device) for name in ("input_ids", "attention_mask")
    )
