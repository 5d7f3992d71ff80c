"""A run folder with as many matches as one likes: real tables, pictures of noise, nothing scanned."""

from __future__ import annotations

import hashlib
import io
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.store import Run, empty_table
from heldout.store.schema import make_table

RELATIONS = ("same image", "transformed copy", "undecided", "look-alike")
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
)


def made_up_run(folder: Path, pairs: int, corpora: tuple[str, ...] = ("web", "books")) -> Run:
    run = Run.create(folder, command=["heldout", "overlap", "made-up"])
    run.claim_benchmark(
        {
            "name": "made-up",
            "source": "made-up",
            "fingerprint": "0" * 64,
            "reader": "made up",
            "split": None,
            "items": pairs,
        }
    )
    items, matches, thumbnails = [], [], {}
    for number in range(pairs):
        picture = _digest(f"benchmark {number}")
        own = _digest(f"corpus {number}")
        relation = RELATIONS[number % len(RELATIONS)]
        items.append(
            {
                "benchmark_id": f"q{number}",
                "position": number,
                "cluster": picture,
                "question": HOSTILE if number == 30 else f"What is number {number}?",
                "options": [],
                "answer": str(number),
                "image_names": [f"{number}.png"],
                "image_digests": [picture],
                "metadata": "{}",
            }
        )
        matches.append(
            {
                "benchmark_id": f"q{number}",
                "image_index": 0,
                "corpus": corpora[number % len(corpora)],
                "corpus_id": f"item{number}",
                "method": "pixels-2",
                "similarity": 0.99,
                "degree": "hard",
                "relation": relation,
                "transform": "flipped horizontally",
                "modality": "image only" if number % 4 < 2 else "none",
                "label_relation": "unknown",
                "evidence": json.dumps(_evidence(picture, own)),
            }
        )
        for digest in (picture, own):
            thumbnails[digest] = {
                "digest": digest,
                "width": 64,
                "height": 48,
                "webp": _picture(number % 64),
            }
    run.write_table("items", make_table("items", items))
    run.write_table("matches", make_table("matches", matches))
    run.write_table("thumbnails", make_table("thumbnails", thumbnails.values()))
    run.write_table("dropped", empty_table("dropped"))
    run.update("stages", {f"overlap/{name}": _stage(name, pairs) for name in corpora})
    return run


def _evidence(picture: str, own: str) -> dict[str, Any]:
    warp = [[-1.0, 0.0, 63.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    return {
        "benchmark_image": picture,
        "benchmark_pixels": picture,
        "corpus_image": own,
        "corpus_source": "",
        "corpus_text": "a caption",
        "corpus_question": "",
        "corpus_answer": "",
        "registration": {"warp": warp, "inverted": False, "detail": 0.97},
    }


def _stage(corpus: str, images: int) -> dict[str, Any]:
    nothing = (
        "decoded",
        "with_answer",
        "dropped",
        "lost_items",
        "missing",
        "without_image",
        "pairs",
        "unverified_pairs",
    )
    return {
        "corpus": corpus,
        "source": corpus,
        "reader": "made up",
        "fingerprint": "0" * 64,
        "shards": 1,
        "reused": 0,
        "failed": {},
        "hashes": True,
        "encoder": None,
        "nearest": 2,
        "counts": {**dict.fromkeys(nothing, 0), "items": images, "images": images},
    }


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


@lru_cache
def _picture(seed: int) -> bytes:
    """Coarse noise: some hundred bytes."""
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).resize((64, 48)).save(buffer, "WEBP", quality=50, method=0)
    return buffer.getvalue()
