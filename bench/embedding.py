"""How busy embed_shard keeps its encoder: against the encoder alone on pictures already prepared.

    python bench/embedding.py [--count 48] [--rounds 3] [--encoder SPEC]
    python bench/embedding.py --shape l14 --count 6144 --side 512 --workers 1 4 16 --precision bfloat16

Without --encoder it is the vision tower of CLIP B/32 (or, with --shape, L/14) at its real size with random
weights: the work is that of the published one, and nothing has to be downloaded.

With --workers the pictures are --count JPEGs of --side pixels in tars, and worker processes embed them as a search
does: all on the one GPU where there is one. Their rate stands beside that of the encoder alone and that of the
same processes where they only read, decode and resize. The first round starts the workers; the best round counts.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.corpus import Corpus, CorpusItem, Shard, open_corpus
from heldout.engine import open_engine, usable_cores
from heldout.overlap.images.embed import BATCH as SEARCH_BATCH
from heldout.overlap.images.embed import embed_shard
from heldout.overlap.images.encoder import Encoder, Floats, open_encoder

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "embedding.json"
BATCH = 16
PER_TAR = 64
PREPARED = 512  # pictures that the encoder alone is given again and again
SHAPES: dict[str, dict[str, int]] = {
    "b32": {},
    "l14": {
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "patch_size": 14,
    },
}


def clip_b32(folder: Path, shape: str = "b32") -> str:
    import transformers

    text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    config = transformers.CLIPConfig(
        text_config={**text, "num_attention_heads": 2},
        vision_config=SHAPES[shape],
        projection_dim=768 if shape == "l14" else 512,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    kind().save_pretrained(folder)
    return f"transformers:{folder}"


def real_files() -> list[Path]:
    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    return [path for name in ("vqa_rad", "slake") for path in sorted((data / name).rglob("*.jpg"))]


def copy_files(folder: Path, count: int) -> None:
    files = real_files()
    folder.mkdir()
    for path in files[:: max(1, len(files) // count)][:count]:
        shutil.copy(path, folder)


def measure(encoder: Encoder, folder: Path, rounds: int) -> dict[str, float]:
    corpus = open_corpus(folder)
    shards = list(corpus.shards())
    items = [item for shard in shards for item in corpus.read(shard)]
    images = [item.image.open() for item in items if isinstance(item, CorpusItem) and item.image]
    start = time.perf_counter()
    prepared = np.stack([encoder.prepare(image) for image in images])
    preparing = time.perf_counter() - start
    encoder.embed(prepared[:BATCH])
    alone, streamed = float("inf"), float("inf")
    for _ in range(rounds):  # alternating: the machine may be shared
        start = time.perf_counter()
        for k in range(0, len(prepared), BATCH):
            encoder.embed(prepared[k : k + BATCH])
        alone = min(alone, time.perf_counter() - start)
        start = time.perf_counter()
        found = sum(len(embed_shard(corpus, s, encoder, batch=BATCH).rows) for s in shards)
        streamed = min(streamed, time.perf_counter() - start)
        if found != len(prepared):
            raise AssertionError(f"{found} of {len(prepared)} pictures came back")
    return {
        "pictures": len(prepared),
        "encoder_alone_per_second": len(prepared) / alone,
        "embed_shard_per_second": len(prepared) / streamed,
        "share": alone / streamed,
        "one_after_the_other_share": alone / (alone + preparing),
    }


# Many pictures, several processes, one encoder.


def write_tar(folder: Path, side: int, number: int) -> int:
    """PER_TAR colour JPEGs whose longer side has ``side`` pixels; no two of all tars have the same bytes."""
    files = real_files()
    with tarfile.open(folder / f"{number:05d}.tar", "w") as tar:
        for place in range(PER_TAR):
            which = number * PER_TAR + place
            again, which_file = divmod(which, len(files))
            with Image.open(files[which_file]) as image:
                picture = image.convert("RGB")
            # A file that comes again has lost some rows and columns at its edges.
            picture = picture.crop((again % 8, again // 8, picture.width, picture.height))
            scale = side / max(picture.size)
            size = (round(picture.width * scale), round(picture.height * scale))
            buffer = io.BytesIO()
            picture.resize(size, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
            entry = tarfile.TarInfo(f"{which:08d}.jpg")
            entry.size = buffer.tell()
            buffer.seek(0)
            tar.addfile(entry, buffer)
    return PER_TAR


class PreparedAs(Encoder):
    """Pictures are read, decoded and resized as for another encoder."""

    def __init__(self, inner: Encoder) -> None:
        self._inner, self.dimension = inner, inner.dimension
        self.identity = f"{inner.identity} | {type(self).__name__}"

    def prepare(self, image: Image.Image) -> Floats:
        return self._inner.prepare(image)


class InHalfPrecision(PreparedAs):
    """Under torch's autocast: matrix products in bfloat16, the rest as it was."""

    def _forward(self, batch: Floats) -> Floats:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.autocast(device, dtype=torch.bfloat16):
            return self._inner._forward(batch)


class OnlyPrepared(PreparedAs):
    """The encoder does not run; all rows are the same."""

    def _forward(self, batch: Floats) -> Floats:
        return np.ones((len(batch), self.dimension), np.float32)


@functools.lru_cache(maxsize=2)
def opened(spec: str, precision: str) -> Encoder:
    encoder = open_encoder(spec)
    return InHalfPrecision(encoder) if precision == "bfloat16" else encoder


def rows_of(spec: str, precision: str, batch: int, run: bool, corpus: Corpus, shard: Shard) -> int:
    encoder = opened(spec, precision)
    chosen = encoder if run else OnlyPrepared(encoder)
    return len(embed_shard(corpus, shard, chosen, batch=batch).rows)


def encoder_alone(encoder: Encoder, folder: Path, batch: int, seconds: float = 3.0) -> float:
    """Pictures per second: batches that lie prepared in memory, copied to the device and encoded."""
    corpus = open_corpus(folder)
    images: list[Image.Image] = []
    for shard in corpus.shards():
        items = [item for item in corpus.read(shard) if isinstance(item, CorpusItem)]
        images += [item.image.open() for item in items if item.image]
        if len(images) >= PREPARED:
            break
    prepared = np.stack([encoder.prepare(image) for image in images[:PREPARED]])
    batches = [prepared[k : k + batch] for k in range(0, len(prepared), batch)]
    encoder.embed(batches[0])
    best = 0.0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        for pixels in batches:
            encoder.embed(pixels)
        best = max(best, len(prepared) / (time.perf_counter() - start))
    return best


def measure_workers(folder: Path, spec: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Rates in pictures per second, for each number of workers."""
    precision, batch = arguments.precision, arguments.batch
    if not real_files():
        raise SystemExit("the real pictures are missing: set HELDOUT_SHARED")
    folder.mkdir(parents=True, exist_ok=True)
    tars = -(-arguments.count // PER_TAR)
    missing = [n for n in range(tars) if not (folder / f"{n:05d}.tar").exists()]
    with open_engine("local") as engine:
        for outcome in engine.map(functools.partial(write_tar, folder, arguments.side), missing):
            if outcome.value is None:
                raise AssertionError(f"tar {outcome.task}: {outcome.error}")
    corpus = open_corpus(folder)
    shards = list(corpus.shards())[:tars]
    encoder = opened(spec, precision)
    alone = {size: encoder_alone(encoder, folder, size) for size in (batch, 8 * batch)}
    lines = []
    for workers in arguments.workers:
        rates = {}
        with open_engine("local", workers=workers) as engine:
            for run in (False, True):
                work = functools.partial(rows_of, spec, precision, batch, run, corpus)
                best = float("inf")
                for _ in range(arguments.rounds):
                    begun = time.perf_counter()
                    outcomes = list(engine.map(work, shards))
                    spent = time.perf_counter() - begun
                    failed = [each.error for each in outcomes if each.value is None]
                    found = sum(each.value or 0 for each in outcomes)
                    if failed or found < len(shards) * PER_TAR * 0.99:  # a blank picture is dropped
                        raise AssertionError(f"{found} pictures came back; {failed[:1]}")
                    best = min(best, spent)
                rates[run] = found / best
        line = {"workers": workers, "per_second": rates[True], "prepared_per_second": rates[False]}
        line |= {
            "share": rates[True] / alone[batch],
            "share_of_large": rates[True] / alone[8 * batch],
        }
        lines.append(line)
        print(json.dumps(line), flush=True)
    return {
        "device": _device(),
        "cores": usable_cores(),
        "precision": precision,
        "batch": batch,
        "pictures": len(shards) * PER_TAR,
        "side": arguments.side,
        "encoder_alone_per_second": alone,
        "workers": lines,
    }


def _device() -> str:
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "cpu"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoder")
    parser.add_argument("--shape", choices=list(SHAPES), default="b32")
    parser.add_argument("--workers", type=int, nargs="+", help="processes; without, this one alone")
    parser.add_argument("--side", type=int, default=512, help="pixels, with --workers")
    parser.add_argument("--batch", type=int, default=SEARCH_BATCH, help="with --workers")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--pictures", type=Path, help="where the tars are made and kept")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heldout-embedding-") as folder:
        spec = arguments.encoder or clip_b32(
            Path(folder) / f"clip-{arguments.shape}-random", arguments.shape
        )
        pictures = Path(folder) / "pictures"
        encoder = open_encoder(spec)
        result: dict[str, Any] = {"encoder": encoder.identity}
        if arguments.workers:
            result |= measure_workers(arguments.pictures or pictures, spec, arguments)
        else:
            copy_files(pictures, arguments.count)
            shares = measure(encoder, pictures, arguments.rounds)
            result |= {name: round(v, 3) for name, v in shares.items()}
    print(json.dumps(result, indent=2))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
