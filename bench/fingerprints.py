"""Fingerprints per second against imagehash's pHash, on the same real files and the same machine.

    python bench/fingerprints.py [--count 200] [--rounds 5] [--workers 2]
    python bench/fingerprints.py --cores 1 2 4 8 16    # images/s of a scan with so many worker processes

Contestants take turns and each one's best round counts: the machine may be shared. "core ms" is what
one picture costs one core; it moves less than the clock on the wall does. Everything runs in worker
processes that were started, and had their imports, before the clock.

``--cores`` puts tars of real JPEG pictures through the scan of a search for VQA-RAD: reading, digests, hashes,
comparison, and the run folder. Every worker has the same number of pictures to do, however many workers there
are; one worker is the process that also writes the run folder. Cores that share caches, memory or a physical
core slow each other down whatever runs on them, so the same pictures are also decoded by processes that do
nothing else.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import multiprocessing
import os
import random
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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


# Scans with more and more worker processes.


TAR_PICTURES = 64
DECODED = 256  # pictures that every process decodes for comparison


@dataclass(frozen=True)
class ScanRate:
    workers: int
    pictures: int
    seconds: float
    linear: float  # share of ``workers`` times the rate of the first row
    decoding_linear: float  # the same of processes that decode the pictures with Pillow


def jpegs() -> list[Path]:
    """Real JPEG files that are not VQA-RAD's, the smallest first."""
    files = [path for path in real_files(10**6) if path.suffix == ".jpg"]
    return sorted(
        (path for path in files if path.parent.parent.name != "vqa_rad"),
        key=lambda path: (path.stat().st_size, path),
    )


def write_tars(files: list[Path], folder: Path) -> list[Path]:
    """Tars with as much work in each: files are dealt to them by size."""
    folder.mkdir()
    count = max(1, round(len(files) / TAR_PICTURES))
    written = []
    for number in range(count):
        written.append(folder / f"{number}.tar")
        with tarfile.open(written[-1], "w") as tar:
            for index, path in enumerate(files[number::count]):
                tar.add(path, f"{index:04d}.jpg")
    return written


def decode_together(files: list[Path], workers: int) -> float:
    """Pictures per second of ``workers`` processes that decode all of ``files`` each, at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier, spent = context.Barrier(workers), context.SimpleQueue()
    processes = [
        context.Process(target=_decode_all, args=(files, barrier, spent)) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    rate: float = sum(len(files) / spent.get() for _ in processes)
    for process in processes:
        process.join()
    return rate


def _decode_all(files: list[Path], barrier: Any, spent: Any) -> None:
    from PIL import Image

    pictures = [path.read_bytes() for path in files]
    barrier.wait()
    start = time.perf_counter()
    for data in pictures:
        Image.open(io.BytesIO(data)).load()
    spent.put(time.perf_counter() - start)


def with_one_thread() -> None:
    """Start again with one thread for each process: libraries read these variables when they are loaded."""
    from heldout.engine.engine import CORES, THREAD_VARIABLES

    one = {name: "1" for name in THREAD_VARIABLES if name != CORES}
    if any(os.environ.get(name) != value for name, value in one.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **one})


def scans(counts: list[int], *, times: int, rounds: int) -> list[ScanRate]:
    """A scan with each number of workers, each of which has all pictures ``times`` times to do."""
    from heldout.benchmark import read_benchmark
    from heldout.corpus import open_corpus
    from heldout.engine import LocalEngine
    from heldout.overlap.images.scan import _ShardSearch
    from heldout.store import Run

    files = jpegs()
    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    benchmark = read_benchmark(data / "vqa_rad" / "vqa_rad_public.json")
    best = {count: (float("inf"), 0.0) for count in counts}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tars = write_tars(files, folder / "tars")
        run = Run.create(folder / "warm", command=["bench/fingerprints.py"])
        search = _ShardSearch.of(benchmark, run, LocalEngine(1), None, True, True)
        for number in range(rounds):
            for count in counts:
                place = folder / f"{number}-{count}"
                (place / "corpus").mkdir(parents=True)
                for copy in range(times * count):
                    for (
                        tar
                    ) in tars:  # a file that comes again in one tar would not be decoded again
                        os.link(tar, place / "corpus" / f"{copy:03d}-{tar.name}")
                (place / "first").mkdir()
                for copy in range(2 * count):
                    os.link(tars[copy % len(tars)], place / "first" / f"{copy:03d}.tar")
                with LocalEngine(count) as engine:
                    search.engine = engine
                    search.run = run
                    search.search(open_corpus(place / "first", name=f"first-{number}-{count}"))
                    search.run = Run.create(place / "run", command=["bench/fingerprints.py"])
                    corpus = open_corpus(place / "corpus")
                    start = time.perf_counter()
                    result, *_ = search.search(corpus)
                    seconds = time.perf_counter() - start
                pictures = times * count * len(files)
                if result.failed or result.counts["images"] != pictures:
                    raise SystemExit(f"{result.counts} of {pictures} pictures; {result.failed}")
                decoded = decode_together(files[:: max(1, len(files) // DECODED)], count)
                spent = f"{pictures:,} pictures in {seconds:.1f} s"
                print(f"{count} workers: {spent}; Pillow alone {decoded:,.0f} /s", flush=True)
                best[count] = (min(seconds, best[count][0]), max(decoded, best[count][1]))
    done = {count: times * count * len(files) for count in counts}
    first = counts[0]
    rate, decoding_rate = done[first] / best[first][0] / first, best[first][1] / first
    return [
        ScanRate(
            workers=count,
            pictures=done[count],
            seconds=best[count][0],
            linear=done[count] / best[count][0] / count / rate,
            decoding_linear=best[count][1] / count / decoding_rate,
        )
        for count in counts
    ]


def print_scans(rows: list[ScanRate]) -> None:
    from heldout.engine import usable_cores

    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    together = siblings.read_text().strip() if siblings.exists() else "not known"
    print(f"{usable_cores()} cores; threads of the first physical core: {together}")
    print(
        "| workers | pictures | s | pictures/s | … per worker | of linear | Pillow alone, of linear |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        rate = row.pictures / row.seconds
        print(
            f"| {row.workers} | {row.pictures:,} | {row.seconds:.1f} | {rate:,.0f} | {rate / row.workers:.0f} | "
            f"{row.linear:.2f} | {row.decoding_linear:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--cores", type=int, nargs="+", help="scan with so many worker processes")
    parser.add_argument(
        "--times", type=int, default=2, help="with --cores: how often each worker has all"
    )
    arguments = parser.parse_args()
    if arguments.cores:
        with_one_thread()
        scanned = scans(arguments.cores, times=arguments.times, rounds=arguments.rounds)
        print_scans(scanned)
        OUT.parent.mkdir(parents=True, exist_ok=True)
        OUT.with_name("cores.json").write_text(json.dumps([asdict(row) for row in scanned]) + "\n")
        return
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
