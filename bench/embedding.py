"""How busy embed_shard keeps its encoder: against the encoder alone on pictures already prepared.

    python bench/embedding.py [--count 48] [--rounds 3] [--encoder SPEC]

Without --encoder it is the vision tower of CLIP B/32 at its real size with random weights: the work
is that of the published one, and nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from heldout.corpus import CorpusItem, open_corpus
from heldout.overlap.images.embed import embed_shard
from heldout.overlap.images.encoder import Encoder, open_encoder

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "embedding.json"
BATCH = 16


def clip_b32(folder: Path) -> str:
    import transformers

    text = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    config = transformers.CLIPConfig(text_config={**text, "num_attention_heads": 2})
    transformers.CLIPModel(config).save_pretrained(folder)
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    kind().save_pretrained(folder)
    return f"transformers:{folder}"


def copy_files(folder: Path, count: int) -> None:
    data = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
    files = [path for name in ("vqa_rad", "slake") for path in sorted((data / name).rglob("*.jpg"))]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="heldout-embedding-") as folder:
        copy_files(Path(folder) / "pictures", arguments.count)
        spec = arguments.encoder or clip_b32(Path(folder) / "clip-b32-random")
        encoder = open_encoder(spec)
        shares = measure(encoder, Path(folder) / "pictures", arguments.rounds)
    result = {"encoder": encoder.identity, **{name: round(v, 3) for name, v in shares.items()}}
    print(json.dumps(result, indent=2))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
