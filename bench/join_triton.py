"""Triton kernels: a matrix product whose scores never leave the chip, only their maxima per group.

A plain product writes every score and a selection reads it again, which costs more than the product.
Here each tile of scores is reduced to one maximum per query before it is stored: 256 times less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


class Tile(NamedTuple):
    """How one launch is cut up. ``rows`` is also the size of a group."""

    queries: int = 128
    rows: int = 256
    depth: int = 64
    warps: int = 8
    stages: int = 3
    copy_engine: bool = (
        True  # Hopper's bulk copies and a persistent grid; else one tile per program
    )
    per_core: int = 1  # persistent programs per multiprocessor: two overlap product and maximum


# The first is what a Hopper GPU runs; bench/join_gpu.py measures all of them.
TILES = (
    Tile(stages=4),  # the fastest on an H200 (bench/join_gpu.py)
    Tile(),
    Tile(queries=256, rows=128),
    Tile(queries=128, rows=128, warps=4, stages=4),
    Tile(queries=128, rows=128, warps=4, stages=3, per_core=2),
    Tile(queries=128, rows=128, depth=128, stages=3),
    Tile(copy_engine=False),
    Tile(stages=4, copy_engine=False),
    Tile(queries=128, rows=128, warps=4, stages=3, copy_engine=False),
)


def kernel(function: Callable[..., None]) -> Any:
    """triton.jit with a type."""
    return triton.jit(function)


@kernel
def _maxima_tile(
    queries: tl.tensor,
    rows: tl.tensor,
    maxima: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    query_tile: tl.constexpr,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
) -> None:
    # Neighbouring programs share a tile of rows: it is read from memory once, the queries stay
    # in the second-level cache.
    tiles = tl.cdiv(count, query_tile)
    tile = tl.program_id(0)
    group = (tile // tiles).to(tl.int64)
    query = (tile % tiles) * query_tile + tl.arange(0, query_tile)
    depth = tl.arange(0, depth_tile)
    ours = queries + (query % count)[:, None].to(tl.int64) * width + depth[None, :]
    row = group * row_tile + tl.arange(0, row_tile)
    theirs = rows + row[:, None] * width + depth[None, :]
    scores = tl.zeros((query_tile, row_tile), dtype=tl.float32)
    for first in range(0, width, depth_tile):
        inside = depth[None, :] < width - first
        block = tl.load(ours, mask=inside, other=0.0)
        other = tl.load(theirs, mask=inside, other=0.0)
        scores = tl.dot(block, other.T, scores)
        ours += depth_tile
        theirs += depth_tile
    tl.store(maxima + group * count + query, tl.max(scores, axis=1), mask=query < count)


@kernel
def _maxima_persistent(
    queries: tl.tensor,
    rows: tl.tensor,
    maxima: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    groups: tl.tensor,
    query_tile: tl.constexpr,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
    programs: tl.constexpr,
) -> None:
    tiles = tl.cdiv(count, query_tile)
    steps = tl.cdiv(width, depth_tile)
    for tile in tl.range(tl.program_id(0), tiles * groups, programs, flatten=True):
        group = tile // tiles
        first_query = (tile % tiles) * query_tile
        scores = tl.zeros((query_tile, row_tile), dtype=tl.float32)
        for step in range(steps):
            block = queries.load([first_query, step * depth_tile])
            other = rows.load([group * row_tile, step * depth_tile])
            scores = tl.dot(block, other.T, scores)
        query = first_query + tl.arange(0, query_tile)
        place = maxima + group.to(tl.int64) * count + query
        tl.store(place, tl.max(scores, axis=1), mask=query < count)


@kernel
def _rescore(
    queries: tl.tensor,
    rows: tl.tensor,
    query: tl.tensor,
    group: tl.tensor,
    scores: tl.tensor,
    width: tl.tensor,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
) -> None:
    pair = tl.program_id(0).to(tl.int64)
    depth = tl.arange(0, depth_tile)
    ours = queries + tl.load(query + pair) * width + depth
    row = tl.load(group + pair) * row_tile + tl.arange(0, row_tile)
    theirs = rows + row[:, None] * width + depth[None, :]
    total = tl.zeros((row_tile, depth_tile), dtype=tl.float32)
    for first in range(0, width, depth_tile):
        inside = depth < width - first
        block = tl.load(ours, mask=inside, other=0.0).to(tl.float32)
        other = tl.load(theirs, mask=inside[None, :], other=0.0).to(tl.float32)
        total += block[None, :] * other
        ours += depth_tile
        theirs += depth_tile
    tl.store(scores + pair * row_tile + tl.arange(0, row_tile), tl.sum(total, axis=1))


def default_tile(rows: torch.Tensor) -> Tile:
    """The tile for this GPU; the copy engine needs Hopper and rows of a multiple of 16 bytes."""
    hopper = torch.cuda.get_device_capability(rows.device)[0] >= 9
    if hopper and rows.shape[1] % 8 == 0:
        return TILES[0]
    return Tile(rows=128, warps=4, stages=3, copy_engine=False)


def maxima(queries: torch.Tensor, rows: torch.Tensor, tile: Tile) -> torch.Tensor:
    """(groups, queries) float32: the best score of every query in each group of ``tile.rows`` rows."""
    count, width = queries.shape
    groups = len(rows) // tile.rows
    out = torch.empty((groups, count), dtype=torch.float32, device=rows.device)
    options: dict[str, Any] = {
        "query_tile": tile.queries,
        "row_tile": tile.rows,
        "depth_tile": tile.depth,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
    tiles = triton.cdiv(count, tile.queries) * groups
    if tile.copy_engine:
        cores = torch.cuda.get_device_properties(rows.device).multi_processor_count
        programs = cores * tile.per_core
        ours = TensorDescriptor.from_tensor(queries, [tile.queries, tile.depth])
        theirs = TensorDescriptor.from_tensor(rows, [tile.rows, tile.depth])
        grid = (min(programs, tiles),)
        _maxima_persistent[grid](
            ours, theirs, out, count, width, groups, programs=programs, **options
        )
    else:
        _maxima_tile[(tiles,)](queries, rows, out, count, width, **options)
    return out


def rescore(
    queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor, size: int
) -> torch.Tensor:
    """(pairs, size) float32: all scores of the given query in the given group."""
    scores = torch.empty((len(query), size), dtype=torch.float32, device=rows.device)
    if len(query):
        _rescore[(len(query),)](
            queries,
            rows,
            query,
            group,
            scores,
            rows.shape[1],
            row_tile=size,
            depth_tile=64,
            num_warps=8,
        )
    return scores
