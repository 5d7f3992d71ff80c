"""Rendered scenes at 32 pixels: near-duplicates called copies, and decoys that pass for them.

    python bench/small_scenes.py --scenes 150 --seeds 2 3

Pairs are verified directly, so that what is lost is lost by verification and not by the shortlist, and many more are
judged than bench/pictures.py plants. Seeds are draws that settled no bound. Prints a Markdown table for
docs/overlap.md, and which bounds a copy exceeds that is not called one. Intervals are Clopper–Pearson.
"""

from __future__ import annotations

import argparse
from collections import Counter

import cv2
import numpy as np
from PIL import Image

from heldout.overlap.images import _small as bounds
from heldout.overlap.images.register import register
from heldout.scenes import SCENES, vary
from heldout.stats import binomial_interval
from planted_pictures import small_copy

KINDS = ("near-duplicate", "decoy: one attribute changed", "decoy: only a fill changed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--scenes", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3])
    given = parser.parse_args()
    print("| seed | kind | planted | called a copy | interval |\n|--:|---|--:|--:|---|")
    exceeded: Counter[str] = Counter()
    for seed in given.seeds:
        called: Counter[str] = Counter()
        draw = np.random.default_rng([seed, 5])
        for _ in range(given.scenes):
            scene = SCENES.draw(draw)
            fill, decoy = vary(scene, draw, "texture"), SCENES.vary(scene, draw)
            plain, copy = small_copy(SCENES.render(scene, 224), draw)
            others = [small_copy(SCENES.render(other, 224), draw)[1] for other in (decoy, fill)]
            for kind, picture in zip(KINDS, (copy, *others), strict=True):
                beyond = _exceeded(plain, picture)
                called[kind] += not beyond
                if kind == KINDS[0] and beyond:
                    exceeded[" and ".join(beyond)] += 1
        for kind in KINDS:
            low, high, *_ = binomial_interval(called[kind], given.scenes)
            share = f"{called[kind]} ({called[kind] / given.scenes:.3f})"
            print(f"| {seed} | {kind} | {given.scenes} | {share} | {low:.3f}–{high:.3f} |")
    print("\nNear-duplicates that are not called copies exceed:")
    for names, count in exceeded.most_common():
        print(f"- {names}: {count}")


def _exceeded(query: Image.Image, candidate: Image.Image) -> list[str]:
    """The bounds that a pair exceeds, in light alone or in light and colour; empty for a copy."""
    registration = register(query, candidate)
    if not registration.is_copy:
        return ["bounds of light alone"]
    ours, theirs = (
        [np.asarray(band) for band in picture.convert("YCbCr").split()]
        for picture in (query, candidate)
    )
    warp = np.array(registration.warp)
    agreement = bounds.small_agreement(cv2, ours, theirs, warp, registration.inverted)
    if agreement.is_copy:
        return []
    worst_colour = max(agreement.colour, agreement.other_colour)
    found = {
        "the worst spot": agreement.spot > 1.0,
        "the worst spot the other way": agreement.other_spot > bounds.OTHER_WAY,
        "the worst spot's colour": worst_colour > bounds.OTHER_COLOUR,
        "the worst spot against the others": agreement.other_stands_out > bounds.STANDS_OUT,
        "a patch": agreement.patch > bounds.OF_CONTRAST * agreement.contrast,
    }
    return [name for name, beyond in found.items() if beyond] or ["another bound"]


if __name__ == "__main__":
    main()
