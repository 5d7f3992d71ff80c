"""A real benchmark's training split as a pool of rows, beside what the worlds give without end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.image import ImageError, to_rgb
from heldout.image.decode import decode
from heldout.lab.forms import Asked, Rows, document, instructed, plain
from heldout.lab.pool import Lengths, Pool


def real_pool(benchmark: Benchmark, tokenizer: Any, side: int, lengths: Lengths, seed: int) -> Pool:
    """Per picture its items as plain turns, as instructed turns and as a text, in three drawn orders."""
    pictured, text = Rows(tokenizer, lengths.pictured), Rows(tokenizer, lengths.text)
    pixels: list[Any] = []
    rows: list[Any] = []
    owner: list[int] = []
    texts: list[Any] = []
    rng = np.random.default_rng((seed, 41))
    for picture, items in _pages(benchmark, side):
        for form in (plain, instructed, plain, instructed, document):
            drawn = [form(items[place]) for place in rng.permutation(len(items))]
            made = pictured.rows(drawn)
            rows += made
            owner += [len(pixels)] * len(made)
        texts += text.rows([document(item) for item in items])
        pixels.append(picture)
    return Pool(
        np.stack(pixels), np.stack([ids for ids, _ in rows]), np.stack([one for _, one in rows]),
        np.asarray(owner, dtype=np.int64), np.stack([ids for ids, _ in texts]),
        np.stack([one for _, one in texts]),
    )  # fmt: skip


def words(benchmark: Benchmark) -> Iterator[str]:
    for one in benchmark:
        item = Asked(one.question or "", one.answer or "", tuple(one.options))
        yield document(item).learn


def _pages(benchmark: Benchmark, side: int) -> Iterator[tuple[Any, list[Asked]]]:
    pages: dict[str, tuple[Any, list[Asked]]] = {}
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        if not (example.question and example.answer and example.images):
            continue
        if cluster not in pages:
            try:
                shown = to_rgb(decode(example.images[0].read()))
            except ImageError:
                continue  # a picture that cannot be read teaches nothing
            small = shown.resize((side, side), Image.Resampling.BICUBIC)
            pages[cluster] = (np.asarray(small).transpose(2, 0, 1), [])
        item = Asked(example.question, example.answer, tuple(example.options))
        pages[cluster][1].append(item)
    yield from pages.values()
