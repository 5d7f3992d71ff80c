"""Where the time of a full fingerprint goes: processor ms a picture by stage, beside imagehash's pHash.

    OPENBLAS_NUM_THREADS=1 python bench/fingerprint_stages.py [--count 100] [--rounds 5] [--plain]

Each stage is repeated on its own for every picture and its best round counts, so its code and data
are in the caches; in a fingerprint they are not, and "one after the other" is what this adds.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable

import imagehash
import numpy as np
from PIL import Image
from scipy.fft import dct

from fingerprints import real_files
from heldout.image import (
    byte_digest,
    decode,
    grey_digest,
    grey_jpeg,
    grey_plane,
    pixel_digest,
)
from heldout.image import digest as image_digest
from heldout.overlap.images import lanczos as fixed_point
from heldout.overlap.images._pdq import hash_bytes, pdq_coefficients, pdq_samples
from heldout.overlap.images.fingerprint import SIDE, fingerprint, is_flat, phash_of, takes_sums
from heldout.overlap.images.lanczos import grey_of_colours

Stage = tuple[str, Callable[[], object]]
OURS, PEER = "fingerprint", "imagehash.phash"


def our_stages(data: bytes) -> list[Stage]:
    plane = grey_jpeg(data)
    if plane is not None:
        grey = plane
        stages: list[Stage] = [
            ("decoding: JPEGs without colour", lambda: grey_jpeg(data)),
            ("digest of the pixels", lambda: grey_digest(grey)),
        ]
    else:
        image = decode(data)
        single = grey_plane(image)
        grey = grey_of_colours(image) if single is None else single
        stages = [
            ("decoding: the others", lambda: (grey_jpeg(data), decode(data))),
            ("equal channels? and one plane", lambda: grey_plane(image)),
            ("digest of the pixels", lambda: pixel_digest(image, single)),
        ]
        if single is None:
            stages.append(("luminance of colours", lambda: grey_of_colours(image)))
    sums = np.empty((SIDE, len(grey)), np.float32) if takes_sums(grey) else None
    samples = pdq_samples(grey, sums)
    return [
        *stages,
        ("digest of the file", lambda: byte_digest(data)),
        ("PDQ: samples", lambda: pdq_samples(grey, sums)),
        ("PDQ: the rest", lambda: hash_bytes(pdq_coefficients(samples)[0])),
        ("pHash", lambda: phash_of(grey, sums)),
        ("flat?", lambda: is_flat(grey)),
    ]


def peer_stages(data: bytes) -> list[Stage]:
    image = Image.open(io.BytesIO(data))
    image.load()
    grey = image.convert("L")
    small = np.asarray(grey.resize((32, 32), Image.Resampling.LANCZOS))
    return [
        ("decoding", lambda: Image.open(io.BytesIO(data)).load()),
        ("luminance", lambda: image.convert("L")),
        ("reduction to 32 x 32", lambda: grey.resize((32, 32), Image.Resampling.LANCZOS)),
        ("transform", lambda: dct(dct(small, axis=0), axis=1)),
    ]


def best(stage: Callable[[], object], rounds: int) -> float:
    """Processor ms of the best round."""
    found = float("inf")
    for _ in range(rounds + 1):  # the first fills the tables
        start = time.process_time()
        stage()
        found = min(found, time.process_time() - start)
    return found * 1e3


def whole(call: Callable[[bytes], object], files: list[bytes], rounds: int) -> float:
    """One picture after the other, as they come: best round over all, per picture."""
    return best(lambda: [call(data) for data in files], rounds) / len(files)


def table(
    title: str, files: list[bytes], stages: Callable[[bytes], list[Stage]], rounds: int
) -> float:
    spent: dict[str, float] = {}
    for data in files:
        for name, stage in stages(data):
            spent[name] = spent.get(name, 0.0) + best(stage, rounds) / len(files)
    print(title)
    for name, milliseconds in spent.items():
        print(f"  {name:32}{milliseconds:8.3f}")
    return sum(spent.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help="as if nothing had been compiled")
    arguments = parser.parse_args()
    if arguments.plain:
        fixed_point._compiled = image_digest.compiled = lambda: None  # type: ignore[assignment]
    files = [path.read_bytes() for path in real_files(arguments.count)]
    calls = (
        (OURS, our_stages, fingerprint),
        (PEER, peer_stages, lambda data: imagehash.phash(Image.open(io.BytesIO(data)))),
    )
    total = {}
    for title, stages, call in calls:
        staged = table(title, files, stages, arguments.rounds)
        total[title] = whole(call, files, arguments.rounds)
        print(f"  {'one after the other':32}{total[title] - staged:8.3f}")
        print(f"  {'together':32}{total[title]:8.3f}")
    print(f"two processes against a loop: {2 * total[PEER] / total[OURS]:.2f}x", end="; ")
    print(f"3x would be {2 * total[PEER] / 3:.2f} ms a picture")


if __name__ == "__main__":
    main()
