"""Fingerprints per second against imagehash's pHash, on the same real files and the same machine.

    python bench/fingerprints.py [--count 400] [--rounds 5]

Rounds of all contestants alternate and each one's best round counts: the machine may be shared.
"processor ms" is what one picture costs one core, and moves less than the clock on the wall does.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import imagehash
import numpy as np
import pdqhash
from PIL import Image

from heldout.engine import open_engine
from heldout.image import FileOnDisk, ImageRef, decode, pixel_digest, to_rgb
from heldout.overlap.fingerprints import Fingerprint, fingerprint_all

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "fingerprints.json"
CHUNK = 25


def real_files(count: int) -> list[Path]:
    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    files = sorted(
        path
        for folder in ("vqa_rad", "slake", "pmc_articles")
        for path in (data / folder).rglob("*")
        if path.suffix in (".jpg", ".png")
    )
    random.Random(0).shuffle(files)
    return files[:count]


def peer(files: list[Path]) -> None:
    for path in files:
        imagehash.phash(Image.open(path))


def decoding(files: list[Path]) -> None:
    for path in files:
        decode(path.read_bytes())


def digests(files: list[Path]) -> None:
    for path in files:
        pixel_digest(decode(path.read_bytes()))


def references(files: list[Path]) -> list[ImageRef]:
    return [ImageRef(path.name, FileOnDisk(str(path))) for path in files]


def check(files: list[Path]) -> dict[str, int]:
    """How many pictures differ from the reference implementations, and by how many bits at most."""
    different, farthest, quality = 0, 0, 0
    for path, found in zip(files, fingerprint_all(references(files)), strict=True):
        image = decode(path.read_bytes())
        bits, expected = pdqhash.compute(np.asarray(to_rgb(image)))
        reference = int.from_bytes(np.packbits(bits.astype(np.uint8)).tobytes(), "big")
        if not isinstance(found, Fingerprint):
            raise AssertionError(f"{path}: {found}")
        different += found.phash != int(str(imagehash.phash(image)), 16)
        farthest = max(farthest, (reference ^ int.from_bytes(found.pdq, "big")).bit_count())
        quality = max(quality, abs(expected - found.quality))
    return {
        "pictures": len(files),
        "phash_different": different,
        "pdq_bits": farthest,
        "pdq_quality": quality,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    files = real_files(arguments.count)
    refs = references(files)
    chunks = [refs[k : k + CHUNK] for k in range(0, len(refs), CHUNK)]
    tall = [Image.open(io.BytesIO(path.read_bytes())).size for path in files]
    print(
        f"{len(files)} files, {np.mean([w * h for w, h in tall]) / 1e6:.2f} megapixels on average"
    )
    with open_engine("local", workers=arguments.workers) as engine:

        def all_cores() -> None:
            for outcome in engine.map(fingerprint_all, chunks):
                if not outcome.ok:
                    raise AssertionError(outcome.error)

        def without_pixels() -> None:
            fingerprint_all(refs, sizes=())

        contestants: dict[str, Callable[[], Any]] = {
            "imagehash.phash, one process": lambda: peer(files),
            "decoding alone, one process": lambda: decoding(files),
            "decoding and pixel digest, one process": lambda: digests(files),
            "fingerprint, one process": lambda: fingerprint_all(refs),
            "fingerprint, no picture of that size sought": without_pixels,
            f"fingerprint, {arguments.workers} workers": all_cores,
        }
        all_cores()  # workers start and import once, before the clock
        best = {name: [float("inf"), float("inf")] for name in contestants}
        for _ in range(arguments.rounds):
            for name, run in contestants.items():
                wall, processor = time.perf_counter(), time.process_time()
                run()
                spent = (time.perf_counter() - wall, time.process_time() - processor)
                best[name] = [min(pair) for pair in zip(best[name], spent, strict=True)]
    base = best["imagehash.phash, one process"][0]
    rows = []
    print(f"{'':46}{'pictures/s':>12}{'x imagehash':>13}{'processor ms':>14}")
    for name, (wall, processor) in best.items():
        inside = "workers" not in name
        cost = f"{processor / len(files) * 1e3:.2f}" if inside else ""
        print(f"{name:46}{len(files) / wall:>12.0f}{base / wall:>13.2f}{cost:>14}")
        rows.append({"name": name, "per_second": len(files) / wall, "ratio": base / wall})
    agreement = check(files)
    print(agreement)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps({"rows": rows, "agreement": agreement}, indent=2) + "\n")


if __name__ == "__main__":
    main()
