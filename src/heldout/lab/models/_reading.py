"""A model reads a sheet: log-probabilities with their moments, and the likeliest reply, in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heldout.lab.models.sheet import MOST_NEW_TOKENS, Sheet
from heldout.model import ORDERS, SHARES, SLICES, largest_means, moments, renyi

# The model's arithmetic on plain tensors: the same weights as transformers' classes, fewer launches.
#
# Training a grid of small models is bound by launches, not by arithmetic. A test holds these functions to
# the logits of the transformers model itself.


def look(model: Any, pixels: Any) -> Any:
    """Pictures as uint8 (batch, 3, side, side) → what they become in the language model's sequence."""
    import torch
    from torch.nn import functional

    if hasattr(model, "look"):  # a model of other parts
        return model.look(pixels)
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
            _heads(functional.linear(y, projection.weight, projection.bias), heads)
            for projection in (attention.q_proj, attention.k_proj, attention.v_proj)
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


def read(model: Any, x: Any, block: Callable[..., Any] | None = None) -> Any:
    """Embedded sequences (batch, places, width), right padded → hidden states before the head. ``block``: a
    compiled ``decoder_block``."""
    import torch

    block = block or decoder_block
    language = model.model.language_model
    config = language.config
    heads = config.num_attention_heads, config.num_key_value_heads
    places = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)
    turns = places[:, None] * language.rotary_emb.inv_freq.float()[None, :]
    turns = torch.cat([turns, turns], -1)
    cosine, sine = turns.cos(), turns.sin()
    for layer in language.layers:
        norms = layer.input_layernorm, layer.post_attention_layernorm
        attention, mlp = layer.self_attn, layer.mlp
        linear = (
            *(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj),
            *(mlp.gate_proj, mlp.up_proj, mlp.down_proj),
        )
        weights = [part.weight for part in (*norms, *linear)]
        x = block(x, cosine, sine, weights, heads, norms[0].variance_epsilon)
    return _rms_norm(language.norm.weight, x, language.norm.variance_epsilon)


def decoder_block(
    x: Any, cosine: Any, sine: Any, weights: Sequence[Any], heads: tuple[int, int], epsilon: float
) -> Any:
    """One layer; ``heads`` of queries, and of keys and values."""
    from torch.nn import functional

    before, after, query, key, value, out, gate, up, down = weights
    y = _rms_norm(before, x, epsilon)
    q = _turned(_heads(functional.linear(y, query), heads[0]), cosine, sine)
    k = _turned(_heads(functional.linear(y, key), heads[1]), cosine, sine)
    v = _heads(functional.linear(y, value), heads[1])
    shared = heads[0] != heads[1]
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=shared)
    x = x + functional.linear(_merged(y), out)
    y = _rms_norm(after, x, epsilon)
    y = functional.silu(functional.linear(y, gate)) * functional.linear(y, up)
    return x + functional.linear(y, down)


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


def _rms_norm(weight: Any, x: Any, epsilon: float) -> Any:
    import torch

    floats = x.float()
    floats = floats * torch.rsqrt(floats.square().mean(-1, keepdim=True) + epsilon)
    return (weight * floats).to(x.dtype)


TOKENS = 131_072  # of one forward
LOGITS = 1 << 28  # numbers in the logits of one part: a large vocabulary is read in parts
BUCKET = 16  # rows are padded to a multiple of this, so that few shapes are met


NO_SLICES = (0, len(SLICES), len(ORDERS), len(SHARES))


@dataclass
class SheetReading:
    """``lines``: (logprob, mu, sigma) of every scored token, rows one behind the other, and ``sums`` of
    log p for rows of which only that is wanted. ``replies``:
    tokens, -1 where the reply has ended. ``letters``: log-probability of each as the first token."""

    lines: NDArray[np.float32]
    sums: NDArray[np.float64]
    replies: NDArray[np.int32]
    letters: NDArray[np.float32]
    forward_tokens: int
    #: of rows of items under a picture (``sliced_rows``): (rows, slices, orders, shares); of none where a grid
    #: was read before there were any
    entropies: NDArray[np.float32] = field(default_factory=lambda: np.zeros(NO_SLICES, np.float32))


def read_sheet(
    model: Any, sheet: Sheet, device: str, end: int, *, half: bool = False
) -> SheetReading:
    """``end``: the token that ends a reply; ``half``: products of matrices in bfloat16."""
    model.eval()
    kind = device.split(":")[0]
    with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=half):
        seen = _look_at_all(model, sheet.pixels, device)
        lines, entropies = _score(model, sheet, seen, device)
        replies, letters = _answer(model, sheet, seen, device, end)
    places = 0 if seen is None else seen.shape[1]
    shown = int((sheet.scored_picture >= 0).sum() + (sheet.asked_picture >= 0).sum())
    tokens = len(sheet.scored.values) + len(sheet.asked.values) + shown * places
    lengths = sheet.places.lengths
    token_sums = np.repeat(sheet.sums, lengths)
    owner = np.repeat(np.cumsum(sheet.sums) - 1, lengths)[token_sums]
    sums = np.zeros(int(sheet.sums.sum()))
    np.add.at(sums, owner, lines[token_sums, 0])
    return SheetReading(lines[~token_sums], sums, replies, letters, tokens, entropies)


def _look_at_all(model: Any, pixels: NDArray[np.uint8], device: str) -> Any:
    if not len(pixels):
        return None
    parts = [
        look(model, torch.from_numpy(pixels[start : start + 1024]).to(device))
        for start in range(0, len(pixels), 1024)
    ]
    return torch.cat(parts)


def sliced_rows(sheet: Sheet) -> NDArray[np.int64]:
    """Rows whose entropies are read: items under a picture."""
    return np.flatnonzero((sheet.scored_picture >= 0) & ~sheet.sums)


def _score(
    model: Any, sheet: Sheet, seen: Any, device: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    lines = np.zeros((len(sheet.places.values), 3), dtype=np.float32)
    sliced = {int(row): place for place, row in enumerate(sliced_rows(sheet))}
    entropies = np.zeros((len(sliced), *NO_SLICES[1:]), dtype=np.float32)
    for batch, width, shown in _batches(sheet.scored.lengths, sheet.scored_picture):
        ids = _padded([sheet.scored[row] for row in batch], width, device)
        looks = None
        if shown:
            looks = seen[torch.as_tensor(sheet.scored_picture[batch], device=device)]
        hidden = read(model, embed(model, ids, looks))
        shift = looks.shape[1] if looks is not None else 0
        # A token is predicted one place before its own; behind a picture all places are later.
        wanted = [sheet.places[row] for row in batch]
        rows = torch.from_numpy(np.repeat(np.arange(len(batch)), [len(p) for p in wanted]))
        places = torch.from_numpy(np.concatenate(wanted).astype(np.int64))
        rows, places = rows.to(device), places.to(device) - 1 + shift
        targets = ids[rows, places + 1 - shift]
        numbers = _moments(model, hidden[rows, places], targets)
        if shown and sliced:
            slices = [_slices(sheet, int(row), shift) for row in batch]
            for row, values in zip(batch, _entropies(model, hidden, slices), strict=True):
                if int(row) in sliced:
                    entropies[sliced[int(row)]] = values
        at = 0
        for row in batch:
            start, stop = sheet.places.starts[row], sheet.places.starts[row + 1]
            lines[start:stop] = numbers[at : at + stop - start]
            at += int(stop - start)
    return lines, entropies


def _slices(sheet: Sheet, row: int, shift: int) -> tuple[range, range, list[int]]:
    """Places whose next token is predicted: the picture's, the question's, and those before the answer's tokens."""
    answer = [int(place) - 1 + shift for place in sheet.places[row]]
    return range(1, 1 + shift), range(1 + shift, answer[0]), answer


def _entropies(
    model: Any, hidden: Any, slices: Sequence[tuple[Sequence[int], ...]]
) -> Iterator[NDArray[np.float64]]:
    """Per row (slices, orders, shares)."""
    device = hidden.device
    sizes = [[len(part) for part in parts] for parts in slices]
    rows = torch.from_numpy(np.repeat(np.arange(len(slices)), [sum(size) for size in sizes]))
    places = torch.tensor([place for parts in slices for part in parts for place in part])
    wanted = hidden[rows.to(device), places.to(device)]
    count = max(1, LOGITS // model.model.language_model.embed_tokens.weight.shape[0])
    every = [renyi(_logits(model, states)) for states in wanted.split(count)]
    ends = np.cumsum([size for row in sizes for size in row])[:-1]
    means = [largest_means(part) for part in np.split(torch.cat(every).cpu().numpy(), ends)]
    for row in range(len(slices)):
        yield np.stack(means[row * len(SLICES) : (row + 1) * len(SLICES)])


def _logits(model: Any, hidden: Any) -> Any:
    """In float32 always: in bfloat16 a logit of 20 is rounded to eighths."""
    with torch.autocast(hidden.device.type, enabled=False):
        return head(model, hidden.float())


def _moments(model: Any, hidden: Any, targets: Any) -> NDArray[np.float32]:
    """(logprob, mu, sigma) of every target."""
    count = max(1, LOGITS // model.model.language_model.embed_tokens.weight.shape[0])
    parts = [
        torch.stack(list(moments(_logits(model, states), wanted)), 1).float()
        for states, wanted in zip(hidden.split(count), targets.split(count), strict=True)
    ]
    numbers: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
    return numbers


def _answer(
    model: Any, sheet: Sheet, seen: Any, device: str, end: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The likeliest token, again and again. Replies are short: reading them anew beats a cache."""
    replies = np.full((len(sheet.asked), MOST_NEW_TOKENS), -1, dtype=np.int32)
    letters = np.full((len(sheet.asked), len(sheet.letters)), -np.inf, dtype=np.float32)
    lengths = sheet.asked.lengths
    for batch, width, shown in _batches(lengths + MOST_NEW_TOKENS, sheet.asked_picture):
        ids = _padded([sheet.asked[row] for row in batch], width, device)
        looks = None
        if shown:
            looks = seen[torch.as_tensor(sheet.asked_picture[batch], device=device)]
        shift = looks.shape[1] if looks is not None else 0
        at = torch.as_tensor(lengths[batch], device=device)
        open_rows = batch
        for count in range(MOST_NEW_TOKENS):
            hidden = read(model, embed(model, ids, looks))
            every = torch.arange(len(ids), device=device)
            logits = _logits(model, hidden[every, at - 1 + shift])
            if count == 0:
                letters[batch] = _spelled(logits, sheet)
            chosen = logits.argmax(-1)
            ids[every, at] = chosen
            going = chosen != end
            kept = going.cpu().numpy()
            # Replies that have ended are not read again.
            ids, at, chosen = ids[going], at[going] + 1, chosen[going]
            looks = looks[going] if looks is not None else None
            open_rows = open_rows[kept]
            replies[open_rows, count] = chosen.cpu().numpy()
            if not len(open_rows):
                break
    return replies, letters


def _spelled(logits: Any, sheet: Sheet) -> NDArray[np.float32]:
    first = logits.float().log_softmax(-1)
    columns = [
        first[:, torch.as_tensor(sheet.letters[place], device=first.device).long()].logsumexp(-1)
        for place in range(len(sheet.letters))
    ]
    array: NDArray[np.float32] = torch.stack(columns, 1).cpu().numpy()
    return array


def _batches(
    lengths: NDArray[np.int64], pictures: NDArray[np.int32]
) -> Iterator[tuple[NDArray[np.int64], int, bool]]:
    """Rows of like length together; those with a picture apart from those without."""
    for shown in (True, False):
        places = np.flatnonzero((pictures >= 0) == shown)
        places = places[np.argsort(lengths[places], kind="stable")]
        at = 0
        while at < len(places):
            # The longest of a batch is its last, and decides how many fit.
            count = 1
            while at + count < len(places):
                width = _bucket(int(lengths[places[at + count]]))
                if (count + 1) * (width + 64 * shown) > TOKENS:
                    break
                count += 1
            batch = places[at : at + count]
            yield batch, _bucket(int(lengths[batch[-1]])), shown
            at += count


def _bucket(length: int) -> int:
    return -(-length // BUCKET) * BUCKET


def _padded(rows: Sequence[NDArray[np.int32]], width: int, device: str) -> Any:
    filled = np.zeros((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled).to(device)
