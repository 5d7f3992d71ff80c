"""Zero-shot classification: the class whose prompts are nearest to the picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heldout.evaluate.encoders._ranks import Floats, best_ranks, hits_at

CUTS = (1, 5)


def class_rows(prompt_rows: Floats, templates: int) -> Floats:
    """One unit row per class: the mean of its prompts, which stand together, made a unit again."""
    means = prompt_rows.reshape(-1, templates, prompt_rows.shape[1]).mean(axis=1)
    return _unit(means)


def averaged_rows(rows: Floats, labels: Sequence[str]) -> tuple[list[str], Floats]:
    """Classes in their order of appearance, with the mean of the rows that each has."""
    names = list(dict.fromkeys(labels))
    places = {name: place for place, name in enumerate(names)}
    sums = np.zeros((len(names), rows.shape[1]), np.float64)
    np.add.at(sums, [places[label] for label in labels], _unit(np.asarray(rows, np.float32)))
    return names, _unit(sums.astype(np.float32))


def zero_shot(pictures: Floats, classes: Floats, right: Sequence[int]) -> dict[str, list[float]]:
    """``top-1`` and ``top-5`` of every picture; top-5 only where there are more than five classes."""
    ranks = best_ranks(pictures, classes, [np.array([number], np.int64) for number in right])
    return {f"top-{cut}": hits_at(ranks, cut).tolist() for cut in CUTS if len(classes) > cut}


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit_rows: Floats = (rows / np.where(length > 0, length, 1)).astype(np.float32)
    return unit_rows
