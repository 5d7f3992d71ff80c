"""At which similarity do light copies and different pictures part, for one encoder?

    python bench/degrees.py A B … [--encoder pixels] [--queries 200]

A, B, … are collections (folders, benchmark files). A must share no source with the others: a pair of a
picture of A and one of the others is a pair of *different* pictures. What the nearest pictures within
one collection reach (slices of one study, say) is printed beside it, not counted as different.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import open_corpus
from heldout.lab import TRANSFORMS, Collection, collect
from heldout.overlap.encoders import Encoder, open_encoder
from heldout.stats import binomial_interval

LIGHT = ("jpeg-75", "jpeg-30", "rs-256", "rs-128", "gray", "gauss")
BOUNDS = (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--encoder", default="pixels")
    parser.add_argument("--queries", type=int, default=200, help="pictures to make copies of")
    options = parser.parse_args()
    encoder = open_encoder(options.encoder)
    found = [collect(open_corpus(source)) for source in options.collections]
    rows = [_rows(one, encoder) for one in found]
    print(f"encoder: {encoder.identity}\n")
    print("| light copy | n | least | 1 % | 5 % | median |\n|---|--:|--:|--:|--:|--:|")
    copies = np.concatenate(
        [_copies(name, found, rows, encoder, options.queries) for name in LIGHT]
    )
    print("\n| nearest picture | n | median | 95 % | 99 % | most |\n|---|--:|--:|--:|--:|--:|")
    across = [rows[0] @ other.T for other in rows[1:]]
    for source, near in zip(options.collections[1:], across, strict=True):
        _line(f"{options.collections[0]} in {source}", near.max(axis=1))
    for source, own in zip(options.collections, rows, strict=True):
        near = own @ own.T
        np.fill_diagonal(near, -1.0)
        _line(f"{source} in itself", near.max(axis=1))
    different = np.concatenate([near.ravel() for near in across])
    print("\n| similarity ≥ | light copies | different pairs |\n|---|--:|--:|")
    for bound in BOUNDS:
        print(f"| {bound:g} | {_rate(copies >= bound)} | {_rate(different >= bound)} |")


def _rows(collection: Collection, encoder: Encoder) -> NDArray[np.float32]:
    return np.concatenate([encoder.encode([item.image.open()]) for item in collection.items])


def _copies(
    name: str,
    found: list[Collection],
    rows: list[NDArray[np.float32]],
    encoder: Encoder,
    count: int,
) -> NDArray[np.float64]:
    """The similarity of pictures to their own copies, as many from every collection."""
    transform, values = TRANSFORMS[name], []
    for collection, own in zip(found, rows, strict=True):
        for position in collection.sample(count // len(found), seed=0):
            item = collection.items[position]
            picture = item.image.open()
            if transform.applies_to(picture.size):
                copy = encoder.encode([transform(picture, key=item.digest)])[0]
                values.append(float(copy @ own[position]))
    result = np.array(values)
    print(f"| {name} | {len(result)} | {_quantiles(result, (0, 0.01, 0.05, 0.5))} |")
    return result


def _line(name: str, values: NDArray[np.float32]) -> None:
    print(f"| {name} | {len(values)} | {_quantiles(values, (0.5, 0.95, 0.99, 1))} |")


def _quantiles(values: NDArray[np.floating], wanted: tuple[float, ...]) -> str:
    return " | ".join(f"{value:.4f}" for value in np.quantile(values, wanted))


def _rate(hits: NDArray[np.bool_]) -> str:
    count = int(hits.sum())
    low, high, *_ = binomial_interval(count, len(hits))
    return f"{count:,} of {len(hits):,} [{low:.2g}, {high:.2g}]"


if __name__ == "__main__":
    main()
