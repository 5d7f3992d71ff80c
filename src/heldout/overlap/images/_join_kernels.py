"""Triton kernels: a matrix product whose scores never leave the chip, only their maxima per group.

A plain product writes every score and a selection reads it again, which costs more than the product.
Here each tile of scores is reduced to a few maxima per query before it is stored: 64 times less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


class Tile(NamedTuple):
    """How one launch is cut up."""

    queries: int = 128
    rows: int = 256
    depth: int = 64
    warps: int = 8
    stages: int = 4
    copy_engine: bool = (
        True  # Hopper's bulk copies and a persistent grid; else one tile per program
    )
    per_core: int = 1  # persistent programs per multiprocessor: two overlap product and maximum
    parts: int = 4  # groups of a tile: small ones are soon scored again, large ones soon selected

    @property
    def group(self) -> int:
        return self.rows // self.parts


# The first is what a Hopper GPU runs; bench/join_gpu.py measures all of them.
TILES = (
    Tile(),
    Tile(parts=1),
    Tile(stages=3),
    Tile(queries=256, rows=128, parts=2),
    Tile(queries=128, rows=128, warps=4, stages=3, per_core=2, parts=2),
    Tile(copy_engine=False),
    Tile(queries=128, rows=128, warps=4, stages=3, copy_engine=False, parts=2),
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
    parts: tl.constexpr,
) -> None:
    # Neighbouring programs share a tile of rows: it is read from memory once, the queries stay
    # in the second-level cache.
    tiles = tl.cdiv(count, query_tile)
    tile = tl.program_id(0)
    block_of_rows = (tile // tiles).to(tl.int64)
    query = (tile % tiles) * query_tile + tl.arange(0, query_tile)
    depth = tl.arange(0, depth_tile)
    ours = queries + (query % count)[:, None].to(tl.int64) * width + depth[None, :]
    row = block_of_rows * row_tile + tl.arange(0, row_tile)
    theirs = rows + row[:, None] * width + depth[None, :]
    scores = tl.zeros((query_tile, row_tile), dtype=tl.float32)
    for first in range(0, width, depth_tile):
        inside = depth[None, :] < width - first
        block = tl.load(ours, mask=inside, other=0.0)
        other = tl.load(theirs, mask=inside, other=0.0)
        scores = tl.dot(block, other.T, scores)
        ours += depth_tile
        theirs += depth_tile
    best = tl.max(tl.reshape(scores, (query_tile, parts, row_tile // parts)), axis=2)
    group = block_of_rows * parts + tl.arange(0, parts)
    place = maxima + group[None, :] * count + query[:, None]
    tl.store(place, best, mask=(query < count)[:, None])


@kernel
def _maxima_persistent(
    queries: tl.tensor,
    rows: tl.tensor,
    maxima: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    blocks: tl.tensor,
    query_tile: tl.constexpr,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
    parts: tl.constexpr,
    programs: tl.constexpr,
) -> None:
    tiles = tl.cdiv(count, query_tile)
    steps = tl.cdiv(width, depth_tile)
    for tile in tl.range(tl.program_id(0), tiles * blocks, programs, flatten=True):
        block_of_rows = tile // tiles
        first_query = (tile % tiles) * query_tile
        scores = tl.zeros((query_tile, row_tile), dtype=tl.float32)
        for step in range(steps):
            block = queries.load([first_query, step * depth_tile])
            other = rows.load([block_of_rows * row_tile, step * depth_tile])
            scores = tl.dot(block, other.T, scores)
        query = first_query + tl.arange(0, query_tile)
        best = tl.max(tl.reshape(scores, (query_tile, parts, row_tile // parts)), axis=2)
        group = block_of_rows.to(tl.int64) * parts + tl.arange(0, parts)
        place = maxima + group[None, :] * count + query[:, None]
        tl.store(place, best, mask=(query < count)[:, None])


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


@kernel
def _not_unit(
    rows: tl.tensor,
    bad: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    least: tl.tensor,
    most: tl.tensor,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * row_tile + tl.arange(0, row_tile)
    depth = tl.arange(0, depth_tile)
    inside = (row < count)[:, None] & (depth < width)[None, :]
    place = rows + row[:, None] * width + depth[None, :]
    block = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    length = tl.sqrt(tl.sum(block * block, axis=1))
    usable = (length >= least) & (length <= most)  # NaN is not
    tl.store(bad + row, (usable == 0).to(tl.int8), mask=row < count)


@kernel
def _unit_rows(
    stored: tl.tensor,
    unit: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    row_tile: tl.constexpr,
    depth_tile: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64) * row_tile + tl.arange(0, row_tile)
    depth = tl.arange(0, depth_tile)
    inside = (row < count)[:, None] & (depth < width)[None, :]
    offset = row[:, None] * width + depth[None, :]
    block = tl.load(stored + offset, mask=inside, other=0).to(tl.float32)
    length = tl.sqrt(tl.sum(block * block, axis=1))
    block = block / tl.where(length > 0, length, 1.0)[:, None]
    tl.store(unit + offset, block.to(tl.float16), mask=inside)


def default_tile(rows: torch.Tensor) -> Tile:
    """The tile for this GPU; the copy engine needs Hopper and rows of a multiple of 16 bytes."""
    hopper = torch.cuda.get_device_capability(rows.device)[0] >= 9
    if hopper and rows.shape[1] % 8 == 0:
        return TILES[0]
    return TILES[-1]


def maxima(queries: torch.Tensor, rows: torch.Tensor, tile: Tile) -> torch.Tensor:
    """(groups, queries) float32: the best score of every query in each group of ``tile.group`` rows; the number
    of ``rows`` is a multiple of ``tile.rows``."""
    count, width = queries.shape
    blocks = len(rows) // tile.rows
    out = torch.empty((blocks * tile.parts, count), dtype=torch.float32, device=rows.device)
    options: dict[str, Any] = {
        "query_tile": tile.queries,
        "row_tile": tile.rows,
        "depth_tile": tile.depth,
        "parts": tile.parts,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
    }
    tiles = triton.cdiv(count, tile.queries) * blocks
    if tile.copy_engine:
        cores = torch.cuda.get_device_properties(rows.device).multi_processor_count
        programs = cores * tile.per_core
        ours = TensorDescriptor.from_tensor(queries, [tile.queries, tile.depth])
        theirs = TensorDescriptor.from_tensor(rows, [tile.rows, tile.depth])
        grid = (min(programs, tiles),)
        _maxima_persistent[grid](
            ours, theirs, out, count, width, blocks, programs=programs, **options
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


def not_unit(rows: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Which rows have another length than one; reads them once, as fast as the memory gives them."""
    bad = torch.empty(len(rows), dtype=torch.int8, device=rows.device)
    width = rows.shape[1]
    depth = triton.next_power_of_2(width)
    tile = max(1, 16384 // depth)
    _not_unit[(triton.cdiv(len(rows), tile),)](
        rows,
        bad,
        len(rows),
        width,
        1 - tolerance,
        1 + tolerance,
        row_tile=tile,
        depth_tile=depth,
        num_warps=4,
    )
    return bad != 0


def unit_rows(stored: torch.Tensor) -> torch.Tensor:
    """Rows of int8 as unit vectors in half precision, in one pass."""
    unit = torch.empty(stored.shape, dtype=torch.float16, device=stored.device)
    width = stored.shape[1]
    depth = triton.next_power_of_2(width)
    tile = max(1, 16384 // depth)
    _unit_rows[(triton.cdiv(len(stored), tile),)](
        stored, unit, len(stored), width, row_tile=tile, depth_tile=depth, num_warps=4
    )
    return unit
