"""Best score per query and group of rows: Triton on CUDA, plain torch anywhere else."""

from __future__ import annotations

import importlib.util
from typing import Any, Protocol

import torch


class Scorer(Protocol):
    """The two products a grouped join needs."""

    group: int  # rows per group

    def maxima(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """(groups, queries) float32; ``rows`` holds a whole number of groups."""
        ...

    def rescore(
        self, queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor
    ) -> torch.Tensor:
        """(pairs, group) float32: the scores of one query in one group, pair by pair."""
        ...


class TorchScorer:
    """The reference: the same numbers, with the scores written out."""

    def __init__(self, group: int = 128) -> None:
        self.group = group

    def maxima(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ours = queries.float().T
        out = torch.empty((len(rows) // self.group, len(queries)), device=rows.device)
        for number in range(len(out)):
            part = rows[number * self.group : (number + 1) * self.group]
            out[number] = (part.float() @ ours).amax(dim=0)
        return out

    def rescore(
        self, queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor
    ) -> torch.Tensor:
        out = torch.empty((len(query), self.group), device=rows.device)
        grouped = rows.view(-1, self.group, rows.shape[1])
        for first in range(0, len(query), 256):
            some = slice(first, first + 256)
            ours = queries[query[some]].float()[:, :, None]
            out[some] = torch.bmm(grouped[group[some]].float(), ours)[:, :, 0]
        return out


class TritonScorer:
    """Fused kernels; ``tile`` as in group_maxima_triton, the GPU's default when None."""

    def __init__(self, rows: torch.Tensor, tile: Any = None) -> None:
        from heldout.overlap.join import group_maxima_triton as kernels

        self._kernels = kernels
        self._tile = tile if tile is not None else kernels.default_tile(rows)
        self.group: int = self._tile.rows

    def maxima(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self._kernels.maxima(queries, rows, self._tile)

    def rescore(
        self, queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor
    ) -> torch.Tensor:
        return self._kernels.rescore(queries, rows, query, group, self.group)


def scorer_for(rows: torch.Tensor, tile: Any = None) -> Scorer:
    """The fastest that runs where ``rows`` are."""
    if rows.is_cuda and importlib.util.find_spec("triton") is not None:
        return TritonScorer(rows, tile)
    return TorchScorer()
