"""FLUX and its ControlNets with few random weights, saved in the layout in which the hub has them."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    FluxControlNetModel,
    FluxControlNetPipeline,
    FluxTransformer2DModel,
)
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTokenizer,
    T5Config,
    T5EncoderModel,
    T5TokenizerFast,
)

_LATENTS = 4
_BLOCKS = {
    "in_channels": 4 * _LATENTS,
    "num_layers": 1,
    "num_single_layers": 1,
    "attention_head_dim": 16,
    "num_attention_heads": 2,
    "joint_attention_dim": 32,
    "pooled_projection_dim": 32,
    "axes_dims_rope": (4, 4, 8),
    "guidance_embeds": True,
}


def save_flux(folder: Path) -> Path:
    torch.manual_seed(0)
    clip, clip_words = _clip()
    t5, t5_words = _t5()
    vae = AutoencoderKL(
        block_out_channels=(4,) * 4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=_LATENTS,
        norm_num_groups=1,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.06,
        scaling_factor=1.5,
    )
    pipeline = FluxControlNetPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        vae=vae,
        text_encoder=clip,
        tokenizer=clip_words,
        text_encoder_2=t5,
        tokenizer_2=t5_words,
        transformer=FluxTransformer2DModel(patch_size=1, **_BLOCKS),
        controlnet=_controlnet(True),
    )
    pipeline.save_pretrained(folder)
    return folder


def save_controlnet(folder: Path, *, hint: bool) -> Path:
    """``hint``: as XLabs made theirs, which look at the edges; others look at the edges' encoding."""
    torch.manual_seed(1)
    _controlnet(hint).save_pretrained(folder)
    return folder


def _controlnet(hint: bool) -> FluxControlNetModel:
    made = FluxControlNetModel(
        **_BLOCKS,
        patch_size=2 if hint else 1,
        conditioning_embedding_channels=_LATENTS if hint else None,
    )
    for parameter in made.parameters():  # a new ControlNet is all zeros where it meets the model
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.3)
    return made


def _clip() -> tuple[CLIPTextModel, CLIPTokenizer]:
    letters = [*string.ascii_lowercase, *string.digits, ",", "."]
    special = ["<|startoftext|>", "<|endoftext|>"]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *special]
    words = CLIPTokenizer(
        vocab={token: n for n, token in enumerate(tokens)}, merges=[], model_max_length=77
    )
    config = CLIPTextConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        intermediate_size=37,
        num_hidden_layers=1,
        num_attention_heads=4,
        projection_dim=32,
        bos_token_id=len(tokens) - 2,
        eos_token_id=len(tokens) - 1,
        pad_token_id=len(tokens) - 1,
    )
    return CLIPTextModel(config), words


def _t5() -> tuple[T5EncoderModel, T5TokenizerFast]:
    letters = [*string.printable[:95], "▁"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((one, -2.0) for one in letters)]
    words = T5TokenizerFast(vocab=vocabulary, extra_ids=0, model_max_length=512)
    config = T5Config(
        vocab_size=len(vocabulary), d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4
    )
    return T5EncoderModel(config), words
