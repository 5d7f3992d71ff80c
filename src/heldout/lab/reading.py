"""A model reads a sheet: log-probabilities with their moments, and the likeliest reply, in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from heldout.lab.forward import embed, head, look, read
from heldout.lab.sheet import MOST_NEW_TOKENS, Sheet
from heldout.model import moments

TOKENS = 131_072  # of one forward
BUCKET = 16  # rows are padded to a multiple of this, so that few shapes are met


@dataclass
class Reading:
    """``lines``: (logprob, mu, sigma) of every scored token, rows one behind the other, and ``sums`` of
    log p for rows of which only that is wanted. ``replies``:
    tokens, -1 where the reply has ended. ``letters``: log-probability of each as the first token."""

    lines: NDArray[np.float32]
    sums: NDArray[np.float64]
    replies: NDArray[np.int16]
    letters: NDArray[np.float32]
    forward_tokens: int


def read_sheet(model: Any, sheet: Sheet, device: str, end: int) -> Reading:
    """``end``: the token that ends a reply."""
    model.eval()
    with torch.inference_mode():
        seen = _look_at_all(model, sheet.pixels, device)
        lines = _score(model, sheet, seen, device)
        replies, letters = _answer(model, sheet, seen, device, end)
    places = 0 if seen is None else seen.shape[1]
    shown = int((sheet.scored_picture >= 0).sum() + (sheet.asked_picture >= 0).sum())
    tokens = len(sheet.scored.values) + len(sheet.asked.values) + shown * places
    lengths = sheet.places.lengths
    token_sums = np.repeat(sheet.sums, lengths)
    owner = np.repeat(np.cumsum(sheet.sums) - 1, lengths)[token_sums]
    sums = np.zeros(int(sheet.sums.sum()))
    np.add.at(sums, owner, lines[token_sums, 0])
    return Reading(lines[~token_sums], sums, replies, letters, tokens)


def _look_at_all(model: Any, pixels: NDArray[np.uint8], device: str) -> Any:
    if not len(pixels):
        return None
    parts = [
        look(model, torch.from_numpy(pixels[start : start + 1024]).to(device))
        for start in range(0, len(pixels), 1024)
    ]
    return torch.cat(parts)


def _score(model: Any, sheet: Sheet, seen: Any, device: str) -> NDArray[np.float32]:
    lines = np.zeros((len(sheet.places.values), 3), dtype=np.float32)
    for batch, width, shown in _batches(sheet.scored.lengths, sheet.scored_picture):
        ids = _padded([sheet.scored[row] for row in batch], width, device)
        looks = None
        if shown:
            looks = seen[torch.as_tensor(sheet.scored_picture[batch], device=device)]
        hidden = read(model, embed(model, ids, looks))
        shift = looks.shape[1] if looks is not None else 0
        # A token is predicted one place before its own; behind a picture all places are later.
        wanted = [(n, int(p) - 1 + shift) for n, row in enumerate(batch) for p in sheet.places[row]]
        rows, places = torch.tensor(wanted, device=device).T
        targets = ids[rows, places + 1 - shift]
        found = moments(head(model, hidden[rows, places]), targets)
        told = torch.stack(list(found), 1).float().cpu().numpy()
        at = 0
        for row in batch:
            start, stop = sheet.places.starts[row], sheet.places.starts[row + 1]
            lines[start:stop] = told[at : at + stop - start]
            at += int(stop - start)
    return lines


def _answer(
    model: Any, sheet: Sheet, seen: Any, device: str, end: int
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """The likeliest token, again and again. Replies are short: reading them anew beats a cache."""
    replies = np.full((len(sheet.asked), MOST_NEW_TOKENS), -1, dtype=np.int16)
    letters = np.full((len(sheet.asked), len(sheet.letters)), -np.inf, dtype=np.float32)
    lengths = sheet.asked.lengths
    for batch, width, shown in _batches(lengths + MOST_NEW_TOKENS, sheet.asked_picture):
        ids = _padded([sheet.asked[row] for row in batch], width, device)
        looks = None
        if shown:
            looks = seen[torch.as_tensor(sheet.asked_picture[batch], device=device)]
        shift = looks.shape[1] if looks is not None else 0
        at = torch.as_tensor(lengths[batch], device=device)
        every = torch.arange(len(batch), device=device)
        going = torch.ones(len(batch), dtype=torch.bool, device=device)
        for count in range(MOST_NEW_TOKENS):
            hidden = read(model, embed(model, ids, looks))
            logits = head(model, hidden[every, at - 1 + shift])
            if count == 0:
                letters[batch] = _spelled(logits, sheet)
            chosen = logits.argmax(-1)
            going &= chosen != end
            if not bool(going.any()):
                break
            ids[every, at] = chosen
            at = at + 1
            told = torch.where(going, chosen, -1).cpu().numpy()
            replies[batch, count] = told
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
        mine = np.flatnonzero((pictures >= 0) == shown)
        mine = mine[np.argsort(lengths[mine], kind="stable")]
        at = 0
        while at < len(mine):
            # The longest of a batch is its last, and decides how many fit.
            count = 1
            while at + count < len(mine):
                width = _bucket(int(lengths[mine[at + count]]))
                if (count + 1) * (width + 64 * shown) > TOKENS:
                    break
                count += 1
            batch = mine[at : at + count]
            yield batch, _bucket(int(lengths[batch[-1]])), shown
            at += count


def _bucket(length: int) -> int:
    return -(-length // BUCKET) * BUCKET


def _padded(rows: Sequence[NDArray[np.int32]], width: int, device: str) -> Any:
    filled = np.zeros((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return torch.from_numpy(filled).to(device)
