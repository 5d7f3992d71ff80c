"""Fingerprints per second against imagehash's pHash, on the same real files and the same machine.

    python bench/fingerprints.py [--count 200] [--rounds 5] [--workers 2]

Contestants take turns and each one's best round counts: the machine may be shared. "core ms" is what
one picture costs one core; it moves less than the clock on the wall does. Everything runs in worker
processes that were started, and had their imports, before the clock.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from heldout.overlap.images.hashes import PDQ, PHASH, SLACK, HashedShard, Waiting, build_hash_index

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "fingerprints.json"
CHUNK = 5  # pictures a worker takes at a time: few, so that both end together


@dataclass(frozen=True)
class Row:
    name: str
    processes: int
    per_second: float
    core_ms: float
    against_loop: float  # of imagehash in one process, which is what its users run
    against_same: float  # of imagehash in as many processes


def real_files(count: int) -> list[Path]:
    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    files = sorted(
        path
        for folder in ("vqa_rad", "slake", "vqa_med_2019", "pmc_articles")
        for path in (data / folder).rglob("*")
        if path.suffix in (".jpg", ".png")
    )
    random.Random(0).shuffle(files)
    return files[:count]


def imagehash_phash(files: list[Path]) -> None:
    import imagehash
    from PIL import Image

    for path in files:
        imagehash.phash(Image.open(path))


def pdqhash_pdq(files: list[Path]) -> None:
    import numpy as np
    import pdqhash
    from PIL import Image

    for path in files:
        pdqhash.compute(np.asarray(Image.open(path).convert("RGB")))


def decoding(files: list[Path]) -> None:
    from heldout.image import decode

    for path in files:
        decode(path.read_bytes())


def decoding_and_digests(files: list[Path]) -> None:
    """What a fingerprint would cost if its two hashes cost nothing."""
    from heldout.image import byte_digest, decoded_digest

    for path in files:
        data = path.read_bytes()
        byte_digest(data)
        decoded_digest(data)


def fingerprints(files: list[Path]) -> None:
    from heldout.overlap.images.fingerprint import fingerprint

    for path in files:
        fingerprint(path.read_bytes())


def without_pixels(files: list[Path]) -> None:
    from heldout.overlap.images.fingerprint import fingerprint

    for path in files:
        fingerprint(path.read_bytes(), sizes=())


def screening(files: list[Path]) -> None:
    from heldout.overlap.images.fingerprint import screen

    for path in files:
        screen(path.read_bytes())


Contestant = Callable[[list[Path]], None]
PEER = "imagehash.phash"
# It comes as source: no compiler, no peer.
HAS_PDQHASH = importlib.util.find_spec("pdqhash") is not None
CONTESTANTS: tuple[tuple[str, Contestant, bool], ...] = (  # name, what it does, on all workers too
    (PEER, imagehash_phash, True),
    ("pdqhash.compute", pdqhash_pdq, False),
    ("decoding alone", decoding, False),
    ("decoding, bytes, pixels: no hash", decoding_and_digests, True),
    ("fingerprint: bytes, pixels, pHash, PDQ", fingerprints, True),
    ("fingerprint where no size fits: bytes, pHash, PDQ", without_pixels, True),
    ("screen where no size fits: bytes, pHash, PDQ", screening, True),
)


def timed(contestant: Contestant, files: list[Path]) -> float:
    """Processor seconds; runs in a worker."""
    start = time.process_time()
    contestant(files)
    return time.process_time() - start


def measure(files: list[Path], *, rounds: int = 5, workers: int = 2) -> list[Row]:
    """One row per contestant and number of processes, best of ``rounds`` that take turns."""
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # workers inherit it: a core each, as in a scan
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    chunks = [files[k : k + CHUNK] for k in range(0, len(files), CHUNK)]
    plan = [
        (name, contestant, processes)
        for name, contestant, spread in CONTESTANTS
        if contestant is not pdqhash_pdq or HAS_PDQHASH
        for processes in ((1, workers) if spread else (1,))
    ]
    best = {(name, processes): (float("inf"), float("inf")) for name, _, processes in plan}
    try:
        for number in range(rounds + 1):
            for name, contestant, processes in plan:
                parts = [files] if processes == 1 else chunks
                start = time.perf_counter()
                core = sum(pool.map(timed, [contestant] * len(parts), parts))
                spent = (time.perf_counter() - start, core)
                if number:  # the first round warms up imports and tables
                    pairs = zip(best[name, processes], spent, strict=True)
                    wall, core = (min(pair) for pair in pairs)
                    best[name, processes] = (wall, core)
    finally:
        pool.shutdown()
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before
    return [
        Row(
            name=name,
            processes=processes,
            per_second=len(files) / best[name, processes][0],
            core_ms=best[name, processes][1] / len(files) * 1e3,
            against_loop=best[PEER, 1][0] / best[name, processes][0],
            against_same=best[PEER, processes][0] / best[name, processes][0],
        )
        for name, _, processes in plan
    ]


def check(files: list[Path]) -> dict[str, int]:
    """How many pictures differ from the reference implementations, and by how many bits at most."""
    import imagehash
    import numpy as np

    from heldout.image import decode, to_rgb
    from heldout.overlap.images.fingerprint import fingerprint, screen

    different, farthest, quality = 0, 0, 0
    moved: dict[str, list[int]] = {"pdq": [], "phash": []}
    for path in files:
        data = path.read_bytes()
        image, found = decode(data), fingerprint(data)
        reference = int.from_bytes(found.pdq, "big")
        different += found.phash != int(str(imagehash.phash(image)), 16)
        if HAS_PDQHASH:
            import pdqhash

            bits, expected = pdqhash.compute(np.asarray(to_rgb(image)))
            reference = int.from_bytes(np.packbits(bits.astype(np.uint8)).tobytes(), "big")
            farthest = max(farthest, (reference ^ int.from_bytes(found.pdq, "big")).bit_count())
            quality = max(quality, abs(expected - found.quality))
        first = screen(data)
        moved["pdq"].append((reference ^ int.from_bytes(first.pdq, "big")).bit_count())
        moved["phash"].append((first.phash ^ found.phash).bit_count())
    return {
        "pictures": len(files),
        "phash_different": different,
        **({"pdq_bits_at_most": farthest, "pdq_quality_at_most": quality} if HAS_PDQHASH else {}),
        "screen_pdq_bits_at_most": max(moved["pdq"]),
        "screen_pdq_beyond_slack": sum(bits > SLACK[PDQ] for bits in moved["pdq"]),
        "screen_phash_bits_at_most": max(moved["phash"]),
        "screen_phash_beyond_slack": sum(bits > SLACK[PHASH] for bits in moved["phash"]),
    }


def lost(files: list[Path]) -> dict[str, int]:
    """Candidates that a scan finds with every picture decoded whole, and those that screening loses.

    The corpus are copies of ``files`` in the disguises of hash_radii.py, as JPEG and of another size.
    """
    from PIL import Image

    from hash_radii import COPIES
    from heldout.image import ImageRef, InlineBytes, decode, to_rgb
    from heldout.overlap.images.fingerprint import fingerprint, screen

    refs = {
        path.name: ImageRef(path.name, InlineBytes(path.read_bytes(), path.name)) for path in files
    }
    index = build_hash_index(refs)
    whole, screened = HashedShard(index), HashedShard(index)
    pictures = decoded = 0
    for name, ref in refs.items():
        picture = to_rgb(decode(ref.read()))
        side = max(384, round(min(picture.size) * 0.9))
        for disguise, change in COPIES.items():
            copy = to_rgb(change(picture))
            scale = side / min(copy.size)
            copy = copy.resize(
                (round(copy.width * scale), round(copy.height * scale)), Image.Resampling.BICUBIC
            )
            buffer = io.BytesIO()
            copy.save(buffer, "JPEG", quality=88)
            data = buffer.getvalue()
            item = f"{disguise} of {name}"
            whole.add(item, fingerprint(data, sizes=()), None)
            held = ImageRef(item, InlineBytes(data, item))
            screened.wait(Waiting(item, held, screen(data), None))
            pictures += 1
    left = {pair(row) for row in whole.candidates(0)}
    right = {pair(row) for row in screened.candidates(0)}
    assert right <= left  # only what was decoded whole is a candidate
    decoded = len(screened.ids)
    items = {item for _, _, item in left} - {item for _, _, item in right}
    return {
        "corpus_pictures": pictures,
        "decoded_whole": decoded,
        "candidates": len(left),
        "lost": len(left - right),
        "pictures_lost_by_both_hashes": len(items),
    }


def pair(row: dict[str, object]) -> tuple[object, object, object]:
    return row["method"], row["picture"], row["corpus_id"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--copies", type=int, default=100)
    arguments = parser.parse_args()
    files = real_files(arguments.count)
    rows = measure(files, rounds=arguments.rounds, workers=arguments.workers)
    print(f"{'':52}{'processes':>10}{'pictures/s':>12}{'x loop':>8}{'x same':>8}{'core ms':>9}")
    for row in rows:
        print(
            f"{row.name:52}{row.processes:>10}{row.per_second:>12.0f}{row.against_loop:>8.2f}"
            f"{row.against_same:>8.2f}{row.core_ms:>9.2f}"
        )
    agreement = check(files) | {"screening": lost(files[: arguments.copies])}
    print(json.dumps(agreement, indent=2))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    found = {"rows": [asdict(row) for row in rows], "agreement": agreement}
    OUT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
