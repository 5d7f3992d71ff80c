"""Top-5 of 4,096 queries × 4 million rows × 768 on one GPU, against the plain product of that shape.

    python bench/join_gpu.py                      # on a machine with a CUDA GPU; torch and triton only
    python bench/join_gpu.py --shapes             # other widths, numbers of queries, fp16, int8: a line each
    python bench/join_gpu.py --rows 20000 --queries 64 --device cpu    # does it run

Prints one JSON document: the rate of the plain product (scores written in half precision, as a selection
would need them), of a product + topk loop, and of the join with every tile shape; and whether
the hits equal brute force. Rates count 2·queries·rows·width operations for all of them.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

SOURCE = Path(__file__).resolve().parents[1] / "src" / "heldout"
STEP = 65536  # rows per product of the two baselines
SHAPES = (  # queries, rows, width, kind
    (4096, 4_000_000, 768, "bfloat16"),
    (4096, 4_000_000, 512, "bfloat16"),
    (4096, 2_000_000, 1024, "bfloat16"),
    (4096, 2_000_000, 1536, "bfloat16"),
    (1, 4_000_000, 768, "bfloat16"),
    (64, 4_000_000, 768, "bfloat16"),
    (100_000, 400_000, 768, "bfloat16"),
    (4096, 4_000_000, 768, "float16"),
    (4096, 4_000_000, 768, "int8"),
    (4096, 4_000_000, 512, "int8"),
    (4096, 2_000_000, 1536, "int8"),
    (64, 4_000_000, 768, "int8"),
)


def light_import() -> None:
    """Make what the join imports importable where only torch is installed: skip the outer rooms."""
    for name, folder in (("heldout", SOURCE), ("heldout.overlap", SOURCE / "overlap")):
        package = types.ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules[name] = package


def embeddings(count: int, width: int, device: str, seed: int, kind: str) -> torch.Tensor:
    """Unit rows with a mean, clusters and a decaying spectrum, as encoders give."""
    shape = torch.Generator(device).manual_seed(0)
    draw = torch.Generator(device).manual_seed(seed)
    scale = torch.arange(1, width + 1, device=device) ** -0.4
    scale /= scale.norm()
    mean = torch.randn(width, generator=shape, device=device)
    centres = torch.randn((500, width), generator=shape, device=device) * scale
    out = torch.empty((count, width), dtype=getattr(torch, kind), device=device)
    for first in range(0, count, 250_000):
        size = min(250_000, count - first)
        pick = torch.randint(0, 500, (size,), generator=draw, device=device)
        noise = torch.randn((size, width), generator=draw, device=device) * scale
        rows = 0.7 * mean / mean.norm() + 0.7 * (0.6 * centres[pick] + 0.8 * noise)
        rows = torch.nn.functional.normalize(rows, dim=1)
        if kind == "int8":  # as quantised collections have them: the largest number of a row is 127
            rows = torch.round(rows * (127 / rows.abs().amax(dim=1, keepdim=True)))
        out[first : first + size] = rows
    return out


def seconds(work: Callable[[], Any], device: str, repeats: int) -> list[float]:
    times = []
    for attempt in range(repeats + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        if attempt:  # the first compiles and warms up
            times.append(time.perf_counter() - begun)
    return times


def product(queries: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    for first in range(0, len(rows), STEP):
        part = rows[first : first + STEP]
        torch.mm(queries, part.T, out=out[:, : len(part)] if len(part) < STEP else out)


def product_and_topk(queries: torch.Tensor, rows: torch.Tensor, k: int) -> torch.Tensor:
    best, place = [], []
    for first in range(0, len(rows), STEP):
        found = torch.mm(queries, rows[first : first + STEP].T).topk(k, dim=1)
        best.append(found.values)
        place.append(found.indices + first)
    top = torch.cat(best, dim=1).topk(k, dim=1).indices
    return torch.cat(place, dim=1).gather(1, top)


def unit_part(rows: torch.Tensor) -> torch.Tensor:
    """float64 rows as the join defines them: of int8 the unit vectors in single precision."""
    if rows.dtype != torch.int8:
        return rows.double()
    from heldout.overlap.images._join_gpu import unit_rows_of

    return unit_rows_of(rows).double()


def brute_force(queries: torch.Tensor, rows: torch.Tensor, k: int) -> torch.Tensor:
    """float64 similarities of the k nearest rows, for a few queries."""
    best = torch.full((len(queries), 0), 0.0, dtype=torch.float64, device=rows.device)
    for first in range(0, len(rows), 100_000):
        scores = queries.double() @ unit_part(rows[first : first + 100_000]).T
        best = torch.cat([best, scores], dim=1).topk(min(k, len(rows)), dim=1).values
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--kind", choices=("bfloat16", "float16", "int8"), default="bfloat16")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("-k", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    light_import()
    if options.shapes:
        for shape in SHAPES:
            result = measure(shape, options.k, options.device, 3, every_tile=False)
            print(json.dumps(result), flush=True)
        return
    shape = options.queries, options.rows, options.width, options.kind
    result = measure(shape, options.k, options.device, options.repeats, every_tile=True)
    text = json.dumps(result, indent=1)
    print(text)
    if options.out:
        options.out.write_text(text)


def measure(
    shape: tuple[int, int, int, str], k: int, device: str, repeats: int, *, every_tile: bool
) -> dict[str, Any]:
    from heldout.overlap.images._join_gpu import GpuJoinIndex, scorer_for
    from heldout.overlap.images._join_index import JoinIndex

    count, length, width, kind = shape
    rows = embeddings(length, width, device, 1, kind)
    as_numbers = "float16" if kind == "int8" else kind  # what the plain product multiplies
    queries = embeddings(count, width, device, 2, as_numbers)
    host = queries.float().cpu().numpy()
    operations = 2.0 * count * length * width
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": torch.__version__,
        "shape": [*shape, k],
    }

    def record(times: list[float]) -> dict[str, float]:
        middle = statistics.median(times)
        return {
            "seconds": round(middle, 5),
            "best": round(min(times), 5),
            "tflops": round(operations / middle / 1e12, 1),
        }

    numbers = scorer_for(rows).unit_rows(rows) if kind == "int8" else rows
    out = torch.empty((count, STEP), dtype=numbers.dtype, device=device)
    plainly = partial(product, queries, numbers, out)
    result["product"] = record(seconds(plainly, device, repeats))
    tiles: list[Any] = [None]
    if every_tile:
        loop = seconds(lambda: product_and_topk(queries, numbers, k), device, 2)
        result["product_and_topk"] = record(loop)
        if device == "cuda":
            from heldout.overlap.images._join_kernels import TILES, maxima

            tiles = list(TILES)
    check = torch.arange(0, count, max(1, count // 64), device=device)
    truth = brute_force(_unit(host, check), rows, k).cpu().numpy()
    result["tiles"] = []
    for tile in tiles:
        entry: dict[str, Any] = {"tile": list(tile) if tile else "default"}
        try:
            index = GpuJoinIndex(JoinIndex(host, k=k), device, tile)
            hits = index.scan(rows)
            found = hits.similarity.reshape(count, k)[check.cpu().numpy()]
            entry["largest_difference"] = float(np.abs(found - truth).max())
            if tile:  # the kernel alone: what is left of the join is selection
                quick = torch.from_numpy(index.queries).to(device).to(numbers.dtype)
                whole = numbers[: length // tile.rows * tile.rows]
                entry["kernel"] = record(seconds(partial(maxima, quick, whole, tile), device, 3))
            entry["join"] = record(seconds(partial(index.scan, rows), device, repeats))
            entry["of_product"] = round(result["product"]["seconds"] / entry["join"]["seconds"], 3)
        except Exception as error:  # a shape this GPU cannot run must not end the table
            entry["error"] = f"{type(error).__name__}: {error}"[:400]
        gc.collect()
        result["tiles"].append(entry)
    result["product_again"] = record(seconds(plainly, device, repeats))
    return result


def _unit(host: np.ndarray[Any, Any], which: torch.Tensor) -> torch.Tensor:
    """The queries as the join normalises them."""
    from heldout.overlap.images._join import unit_queries

    return torch.from_numpy(unit_queries(host)).to(which.device)[which]


if __name__ == "__main__":
    main()
