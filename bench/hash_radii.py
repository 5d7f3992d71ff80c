"""Why the hash radii are what they are: how near copies lie, and how many strangers lie as near.

    python bench/hash_radii.py [--every 8]

Copies are made of every n-th radiograph of SLAKE, VQA-RAD and VQA-Med; strangers are pairs of
different pictures of two collections that share none. Both in the eight poses, as the scan compares.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from heldout.image import to_rgb
from heldout.overlap.images._pdq import pdq, pdq_poses
from heldout.overlap.images.encoder import in_pose
from heldout.overlap.images.fingerprint import phash
from heldout.overlap.images.hashes import BYTES, PDQ, PHASH, RADII
from heldout.overlap.images.lanczos import grey_pixels

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
TRIED = {PDQ: (23, 31, 40, 60), PHASH: (4, 6, 8, 10)}
FOLDERS = {"SLAKE": "slake/images", "VQA-RAD": "vqa_rad", "VQA-Med": "vqa_med_2019"}
Bits = NDArray[np.uint8]


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


def trimmed(image: Image.Image, share: float) -> Image.Image:
    across, down = (round(side * (1 - share) / 2) for side in image.size)
    return image.crop((across, down, image.width - across, image.height - down))


def noisy(image: Image.Image, share: float) -> Image.Image:
    pixels = np.asarray(image, dtype=np.float64)
    noise = np.random.default_rng(0).normal(0, share * 255, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "JPEG 30": lambda image: jpeg(image, 30),
    "256 x 256": lambda image: image.resize((256, 256)),
    "128 x 128": lambda image: image.resize((128, 128)),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "flipped": ImageOps.mirror,
    "quarter turn": lambda image: image.rotate(90, expand=True),
    "blur 2 px": lambda image: image.filter(ImageFilter.GaussianBlur(2)),
    "noise 10 %": lambda image: noisy(image, 0.10),
    "brighter 30 %": lambda image: ImageEnhance.Brightness(image).enhance(1.3),
    "gamma 0.6": lambda image: image.point([round(255 * (v / 255) ** 0.6) for v in range(256)] * 3),
    "98 % of each side": lambda image: trimmed(image, 0.98),
    "95 % of each side": lambda image: trimmed(image, 0.95),
    "turned by 2°": lambda image: image.rotate(2),
    "frame of 20 px": lambda image: ImageOps.expand(image, 20),
}


def codes(image: Image.Image) -> dict[str, Bits]:
    """(1, bytes) per method, of the picture as it is."""
    small = phash(image).to_bytes(BYTES[PHASH], "big")
    return {PDQ: _bits([pdq(image)[0]]), PHASH: _bits([small])}


def pose_codes(image: Image.Image) -> dict[str, Bits]:
    """(8, bytes) per method."""
    grey = Image.fromarray(grey_pixels(image)).resize((32, 32), Image.Resampling.LANCZOS)
    small = [phash(in_pose(grey, pose)).to_bytes(BYTES[PHASH], "big") for pose in range(8)]
    return {PDQ: _bits(pdq_poses(image)[0]), PHASH: _bits(small)}


def distances(poses: Bits, others: Bits) -> NDArray[np.int64]:
    """Per row of ``others`` the bits by which it differs from the nearest pose."""
    apart = np.unpackbits(poses[:, None] ^ others[None], axis=2).sum(axis=2, dtype=np.int64)
    return np.asarray(apart.min(axis=0))


def _bits(found: list[bytes]) -> Bits:
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--every", type=int, default=8, help="pictures that copies are made of")
    every = parser.parse_args().every
    files = {name: sorted((DATA / place).rglob("*.jpg")) for name, place in FOLDERS.items()}
    header = "".join(f"{m} ≤{r:<4}" for m in RADII for r in TRIED[m])
    chosen = [to_rgb(Image.open(path)) for found in files.values() for path in found[::every]]
    queries = [pose_codes(image) for image in chosen]
    print(f"share of {len(chosen)} copies within a radius\n{'':20}{header}either as scanned")
    for name, change in COPIES.items():
        near: dict[str, list[int]] = {PDQ: [], PHASH: []}
        for image, query in zip(chosen, queries, strict=True):
            for method, code in codes(change(image)).items():
                near[method].append(int(distances(query[method], code)[0]))
        row = [np.mean(np.array(near[m]) <= r) for m in RADII for r in TRIED[m]]
        both = np.mean([np.array(near[m]) <= RADII[m] for m in RADII], axis=0) > 0
        print(f"{name:20}" + "".join(f"{v:<9.3f}" for v in row) + f"{both.mean():.3f}")
    print(f"\npairs of strangers within a radius\n{'':20}{header}pairs")
    corpus = [codes(to_rgb(Image.open(path))) for path in files["SLAKE"]]
    for name in ("VQA-RAD", "VQA-Med"):
        counts = dict.fromkeys(((m, r) for m in RADII for r in TRIED[m]), 0)
        for path in files[name]:
            query = pose_codes(to_rgb(Image.open(path)))
            for method in RADII:
                found = distances(query[method], np.concatenate([one[method] for one in corpus]))
                for radius in TRIED[method]:
                    counts[method, radius] += int((found <= radius).sum())
        pairs = len(files[name]) * len(corpus)
        told = "".join(f"{count:<9}" for count in counts.values())
        print(f"{name + ' × SLAKE':20}{told}{pairs:,}")


if __name__ == "__main__":
    main()
