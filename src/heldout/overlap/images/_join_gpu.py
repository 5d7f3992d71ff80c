"""GpuJoinIndex: the exact join on a GPU, with the results of JoinIndex to the last bit.

A half-precision product only decides which groups of rows may hold a hit; whoever passes is scored
again, and what is kept is computed in float64 as everywhere else.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.overlap.images._join import NORM_TOLERANCE, Hits, fold, rounding
from heldout.overlap.images._join_index import JoinIndex

# Best score per query and group of rows: Triton on CUDA, plain torch anywhere else.


class GroupScorer(Protocol):
    """The two products a grouped join needs."""

    group: int  # rows per group
    block: int  # rows that are scored together: a whole number of groups

    def unit_rows(self, stored: torch.Tensor) -> torch.Tensor:
        """Rows of int8 as unit vectors in half precision; rows of zeros stay so."""
        ...

    def not_unit(self, rows: torch.Tensor) -> torch.Tensor:
        """Which rows are not unit vectors."""
        ...

    def maxima(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """(groups, queries) float32; ``rows`` holds a whole number of blocks."""
        ...

    def rescore(
        self, queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor
    ) -> torch.Tensor:
        """(pairs, group) float32: the scores of one query in one group, pair by pair."""
        ...


class TorchScorer:
    """The reference: the same numbers, with the scores written out."""

    def __init__(self, group: int = 128) -> None:
        self.group = self.block = group

    def unit_rows(self, stored: torch.Tensor) -> torch.Tensor:
        return torch.cat([unit_rows_of(part).half() for part in stored.split(2**16)])

    def not_unit(self, rows: torch.Tensor) -> torch.Tensor:
        lengths = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float32)
        return ~((lengths - 1).abs() <= NORM_TOLERANCE)

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
    """Fused kernels; ``tile`` of the kernels, the GPU's default when None."""

    def __init__(self, rows: torch.Tensor, tile: Any = None) -> None:
        from heldout.overlap.images import _join_kernels as kernels

        self._kernels = kernels
        self._tile = tile if tile is not None else kernels.default_tile(rows)
        self.group, self.block = self._tile.group, self._tile.rows

    def unit_rows(self, stored: torch.Tensor) -> torch.Tensor:
        return self._kernels.unit_rows(stored)

    def not_unit(self, rows: torch.Tensor) -> torch.Tensor:
        return self._kernels.not_unit(rows, NORM_TOLERANCE)

    def maxima(self, queries: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self._kernels.maxima(queries, rows, self._tile)

    def rescore(
        self, queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, group: torch.Tensor
    ) -> torch.Tensor:
        return self._kernels.rescore(queries, rows, query, group, self.group)


def scorer_for(rows: torch.Tensor, tile: Any = None) -> GroupScorer:
    """The fastest that runs where ``rows`` are."""
    if rows.is_cuda and importlib.util.find_spec("triton") is not None:
        return TritonScorer(rows, tile)
    return TorchScorer()


_MAXIMA = 2**28  # of a pass over a block: so many queries at a time
_CHUNK = 64  # groups whose maxima are joined when the first bar is looked for
_PAIRS = 16384  # pairs finished in float64 at a time
_TENSOR_CORE_ROUNDOFF = 2.0**-22  # float32 sums that truncate
_BELOW_EVERYTHING = -2.0


class GpuJoinIndex:
    """A JoinIndex on a device; ``block`` may also be a tensor that already lies there."""

    def __init__(self, join: JoinIndex, device: str = "cuda", tile: Any = None) -> None:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(
                f"the join was sent to '{device}', but torch finds no CUDA device here"
            )
        self._host, self.device, self.tile = join, device, tile
        self.k, self.threshold = join.k, join.threshold
        self._ours = torch.from_numpy(self.queries).to(device)
        self._quick: dict[torch.dtype, tuple[torch.Tensor, torch.Tensor]] = {}

    @property
    def queries(self) -> NDArray[np.float32]:
        return self._host.queries

    def floor_of(self, hits: Hits) -> NDArray[np.float64] | None:
        return self._host.floor_of(hits)

    def prepare(self, sample: NDArray[Any], rows: int) -> None:
        """Nothing to plan."""

    def scan(
        self,
        block: NDArray[Any] | torch.Tensor,
        start: int = 0,
        floor: NDArray[np.float64] | None = None,
    ) -> Hits:
        """Hits among the rows of ``block``, whose first row is row ``start`` of the corpus."""
        if block.ndim != 2 or block.shape[1] != self.queries.shape[1]:
            raise InputError(
                f"the corpus has embeddings of shape {tuple(block.shape)}, the queries have "
                f"{self.queries.shape[1]} dimensions; both must come from the same encoder"
            )
        if len(block) == 0 or len(self.queries) == 0:
            return Hits.empty()
        stored = block if isinstance(block, torch.Tensor) else _tensor(block)
        stored = stored.to(self.device).contiguous()
        scorer = scorer_for(stored, self.tile)
        if stored.dtype == torch.int8:
            rows = scorer.unit_rows(stored)
        else:
            rows = stored if stored.dtype in (torch.float16, torch.bfloat16) else stored.half()
        bad = scorer.not_unit(rows if stored.dtype == torch.int8 else stored)
        unusable = torch.nonzero(bad)[:, 0].cpu().numpy() + start
        if len(unusable):
            stored = torch.where(bad[:, None], torch.zeros_like(stored), stored)
            rows = torch.where(bad[:, None], torch.zeros_like(rows), rows)
        columns = [_no_pairs()]
        size = max(1, _MAXIMA // (len(rows) // scorer.group + 1))
        for first in range(0, len(self.queries), size):
            some = slice(first, first + size)
            known = None if floor is None else torch.from_numpy(floor[some]).to(self.device)
            spoiled = bad if len(unusable) else None
            query, row, similarity = self._pass(some, stored, rows, scorer, known, spoiled)
            columns.append(
                (
                    (query + first).to(torch.int32).cpu().numpy(),
                    row.cpu().numpy() + start,
                    similarity.cpu().numpy(),
                )
            )
        # Passes have different queries, in order: nothing is left to sort.
        queries, positions, similarities = map(np.concatenate, zip(*columns, strict=True))
        return Hits(queries, positions, similarities, unusable)

    def _halved(self, kind: torch.dtype, exact: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The queries in half precision, and how far scores may be off."""
        if kind not in self._quick:
            quick = self._ours.to(kind)
            self._quick[kind] = quick, _margin(self._ours, quick)
        quick, margin = self._quick[kind]
        return quick, margin if exact else margin + _ROUNDED_ROWS

    def _pass(
        self,
        some: slice,
        stored: torch.Tensor,
        rows: torch.Tensor,
        scorer: GroupScorer,
        floor: torch.Tensor | None,
        bad: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Some queries against the block: kept (query, row, similarity), in order."""
        every_quick, every_margin = self._halved(rows.dtype, exact=rows is stored)
        queries, quick, margin = self._ours[some], every_quick[some], every_margin[some]
        whole = len(rows) // scorer.block * scorer.block
        maxima = scorer.maxima(quick, rows[:whole])
        tail = quick.float() @ rows[whole:].float().T  # the few rows that fill no group
        bars = self._bars(maxima, tail, margin, floor, bad is not None)
        lowered = (bars - margin).float()
        group, query = torch.nonzero(maxima >= lowered, as_tuple=True)
        parts = []
        for first in range(0, len(query), _PAIRS * 4):
            some = slice(first, first + _PAIRS * 4)
            scores = scorer.rescore(quick, rows[:whole], query[some], group[some])
            pair, column = torch.nonzero(scores >= lowered[query[some], None], as_tuple=True)
            parts.append((query[some][pair], group[some][pair] * scorer.group + column))
        last, column = torch.nonzero(tail >= lowered[:, None], as_tuple=True)
        parts.append((last, column + whole))
        query, row = (torch.cat(column) for column in zip(*parts, strict=True))
        if bad is not None:
            query, row = query[~bad[row]], row[~bad[row]]
        return self._keep(query, row, _similarity(queries, stored, query, row))

    def _bars(
        self,
        maxima: torch.Tensor,
        tail: torch.Tensor,
        margin: torch.Tensor,
        floor: torch.Tensor | None,
        spoiled: bool,
    ) -> torch.Tensor:
        """Per query, a similarity no kept row can be below (float64)."""
        count = maxima.shape[1]
        if self.k is None:
            return torch.full(
                (count,), float(self.threshold or 0), dtype=torch.float64, device=maxima.device
            )
        # Maxima of different groups are scores of different rows, so the k-th best of any k
        # disjoint groups' maxima is a score that k rows reach.
        whole = len(maxima) // _CHUNK * _CHUNK
        if whole // _CHUNK >= 4 * self.k:
            best = maxima[:whole].view(-1, _CHUNK, count).amax(dim=1)
        else:
            best = torch.cat([maxima, tail.T])
        bars = torch.full((count,), _BELOW_EVERYTHING, device=maxima.device).double()
        if len(best) >= self.k:
            reached = best.T.contiguous().topk(self.k, dim=1).values[:, -1].double() - margin
            # A row that was blanked scores 0 and is no witness for a bar that low.
            bars = torch.where(reached > margin, reached, bars) if spoiled else reached
        if floor is not None:
            bars = torch.maximum(bars, floor)
        return bars if self.threshold is None else bars.clamp(max=self.threshold)

    def _keep(
        self, query: torch.Tensor, row: torch.Tensor, similarity: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """``hits.select`` on the device."""
        order = torch.argsort(row, stable=True)
        order = order[torch.argsort(similarity[order], descending=True, stable=True)]
        order = order[torch.argsort(query[order], stable=True)]
        query, row, similarity = query[order], row[order], similarity[order]
        kept = torch.zeros_like(query, dtype=torch.bool)
        if self.k is not None:
            first = torch.searchsorted(query, query)  # where each query begins
            kept |= torch.arange(len(query), device=query.device) - first < self.k
        if self.threshold is not None:
            kept |= similarity >= self.threshold
        return query[kept], row[kept], similarity[kept]


def _similarity(
    queries: torch.Tensor, rows: torch.Tensor, query: torch.Tensor, row: torch.Tensor
) -> torch.Tensor:
    parts = [torch.empty(0, dtype=torch.float64, device=rows.device)]
    for first in range(0, len(query), _PAIRS):
        some = slice(first, first + _PAIRS)
        theirs = rows[row[some]]
        theirs = unit_rows_of(theirs) if theirs.dtype == torch.int8 else theirs
        parts.append(fold(queries[query[some]].double() * theirs.double()).clone())
    return torch.cat(parts)


def unit_rows_of(stored: torch.Tensor) -> torch.Tensor:
    """Rows of int8 as the unit vectors that ``remote.QuantisedRows`` makes of them."""
    numbers = stored.to(torch.int32)
    lengths = (numbers * numbers).sum(dim=1, dtype=torch.int32).float().sqrt()
    return numbers.float() / torch.where(lengths > 0, lengths, 1.0)[:, None]


_LONGEST = (1 + NORM_TOLERANCE) * 1.01
_ROUNDED_ROWS = 2.0**-11 * _LONGEST + 1e-6  # what rows lose that are rounded to half precision


def _margin(queries: torch.Tensor, quick: torch.Tensor) -> torch.Tensor:
    """Per query, how far a half-precision score may be from the exact one."""
    lost = torch.linalg.vector_norm(queries.double() - quick.double(), dim=1) * _LONGEST
    summed = rounding(queries.shape[1] + 1, _TENSOR_CORE_ROUNDOFF) * _LONGEST
    margin: torch.Tensor = lost + summed
    return margin


def _tensor(block: NDArray[Any]) -> torch.Tensor:
    kind = block.dtype if block.dtype in (np.int8, np.float16, np.float32) else np.float32
    # A copy: memory-mapped pages are read-only, which torch does not know.
    return torch.from_numpy(np.array(block, dtype=kind, order="C"))


def _no_pairs() -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
    return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64)


# The one door to it: the same hits from the GPU, or nothing where it cannot.


_on_device: WeakKeyDictionary[JoinIndex, GpuJoinIndex] = WeakKeyDictionary()
_reasons: list[str] = []  # why this process does without its GPU


def gpu_scan(
    join: JoinIndex,
    block: NDArray[Any],
    floor: NDArray[np.float64] | None = None,
    device: str = "cuda",
) -> Hits | None:
    """``join.scan`` on the GPU; None where its memory, driver or compiler fails, and from then on."""
    if _reasons:
        return None
    try:
        if join not in _on_device:
            _on_device[join] = GpuJoinIndex(join, device)
        return _on_device[join].scan(block, 0, floor)
    except Exception as error:
        _reasons.append(f"{type(error).__name__}: {error}")
        logging.getLogger(__name__).warning("the join goes on without the GPU: %s", _reasons[0])
        return None
