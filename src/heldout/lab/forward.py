"""The model's arithmetic on plain tensors: the same weights as transformers' classes, fewer launches.

Training a grid of small models is bound by launches, not by arithmetic. A test holds these functions to
the logits of the transformers model itself.
"""

from __future__ import annotations

from typing import Any


def look(model: Any, pixels: Any) -> Any:
    """Pictures as uint8 (batch, 3, side, side) → what they become in the language model's sequence."""
    import torch
    from torch.nn import functional

    tower, projector = model.model.vision_tower, model.model.multi_modal_projector
    tower = getattr(tower, "vision_model", tower)
    heads = model.config.vision_config.num_attention_heads
    embedded = tower.embeddings
    weight = embedded.patch_embedding.weight
    x = pixels.to(weight.dtype) * (2 / 255) - 1
    # A patch embedding is one matrix product: cheaper than a convolution whose stride is its size.
    patch = weight.shape[-1]
    batch, channels, side, _ = x.shape
    grid = side // patch
    x = x.view(batch, channels, grid, patch, grid, patch).permute(0, 2, 4, 1, 3, 5)
    x = functional.linear(x.reshape(batch, grid * grid, -1), weight.flatten(1))
    first = embedded.class_embedding.expand(batch, 1, -1).to(x.dtype)
    x = torch.cat([first, x], 1) + embedded.position_embedding.weight
    x = _layer_norm(tower.pre_layrnorm, x)
    for layer in tower.encoder.layers:
        y = _layer_norm(layer.layer_norm1, x)
        attention = layer.self_attn
        q, k, v = (
            _heads(functional.linear(y, one.weight, one.bias), heads)
            for one in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        y = _merged(functional.scaled_dot_product_attention(q, k, v))
        x = x + functional.linear(y, attention.out_proj.weight, attention.out_proj.bias)
        y = _layer_norm(layer.layer_norm2, x)
        y = functional.gelu(functional.linear(y, layer.mlp.fc1.weight, layer.mlp.fc1.bias))
        x = x + functional.linear(y, layer.mlp.fc2.weight, layer.mlp.fc2.bias)
    x = x[:, 1:]
    x = functional.gelu(functional.linear(x, projector.linear_1.weight, projector.linear_1.bias))
    return functional.linear(x, projector.linear_2.weight, projector.linear_2.bias)


def embed(model: Any, ids: Any, seen: Any | None) -> Any:
    """Tokens after the opening one; pictures, where there are any, stand between the two."""
    import torch
    from torch.nn import functional

    words = functional.embedding(ids, model.model.language_model.embed_tokens.weight)
    if seen is None:
        return words
    return torch.cat([words[:, :1], seen.to(words.dtype), words[:, 1:]], 1)


def read(model: Any, x: Any) -> Any:
    """Embedded sequences (batch, places, width), right padded → hidden states before the head."""
    import torch
    from torch.nn import functional

    language = model.model.language_model
    config = language.config
    heads = config.num_attention_heads
    places = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
    turns = places[:, None] * language.rotary_emb.inv_freq.float()[None, :]
    turns = torch.cat([turns, turns], -1)
    cosine, sine = turns.cos(), turns.sin()
    for layer in language.layers:
        y = _rms_norm(layer.input_layernorm, x)
        attention = layer.self_attn
        q, k, v = (
            _heads(functional.linear(y, one.weight), heads)
            for one in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        q, k = _turned(q, cosine, sine), _turned(k, cosine, sine)
        y = _merged(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + functional.linear(y, attention.o_proj.weight)
        y = _rms_norm(layer.post_attention_layernorm, x)
        gate = functional.silu(functional.linear(y, layer.mlp.gate_proj.weight))
        y = gate * functional.linear(y, layer.mlp.up_proj.weight)
        x = x + functional.linear(y, layer.mlp.down_proj.weight)
    return _rms_norm(language.norm, x)


def head(model: Any, hidden: Any) -> Any:
    from torch.nn import functional

    return functional.linear(hidden, model.model.language_model.embed_tokens.weight)


def _heads(x: Any, heads: int) -> Any:
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def _merged(x: Any) -> Any:
    return x.transpose(1, 2).flatten(2)


def _turned(x: Any, cosine: Any, sine: Any) -> Any:
    import torch

    left, right = x.float().chunk(2, -1)
    return (x.float() * cosine + torch.cat([-right, left], -1) * sine).to(x.dtype)


def _layer_norm(layer: Any, x: Any) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, layer.eps)


def _rms_norm(layer: Any, x: Any) -> Any:
    import torch

    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + layer.variance_epsilon)
    return (layer.weight * wide).to(x.dtype)
