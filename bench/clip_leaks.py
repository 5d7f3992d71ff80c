"""What leaked pictures do to a small CLIP whose training set is known: train it, then ask `heldout impact`.

    python bench/clip_leaks.py train --work WORK --out OUT         # torch, transformers, NumPy, Pillow
    for name in leaky clean; do cat OUT/clip-$name.tar.* | tar -x -C bench/out/clip; done
    python bench/clip_leaks.py tables --models bench/out/clip --out bench/out/clip --docs docs

``train`` renders a training set into which test pictures leaked in four known ways, and one of the same
size without them, trains one CLIP of ten million weights on each and packs each into parts of 15 MB.
``tables`` renders the same pictures again, runs `heldout overlap` and `heldout impact --encoder` on them
and stores the figures, from which ``bench/measured.py clip-leaks`` writes the page.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
import tarfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from captioned_scenes import ARMS, SIDE, TEMPLATES, Captioned, World, classes

PART = 15 << 20  # bytes of one file that is handed over
LEAKY, CLEAN = "leaky", "clean"
_UNBOUNDED = 1e6  # minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("train", "tables"))
    parser.add_argument(
        "--out", type=Path, required=True, help="train: packed models; tables: runs"
    )
    parser.add_argument("--work", type=Path, help="train: the models as folders (else in --out)")
    parser.add_argument("--models", type=Path, help="tables: folder with the two models")
    parser.add_argument("--docs", type=Path, help="tables: where the figures of the page go, too")
    parser.add_argument("--strangers", type=int, default=World.strangers)
    parser.add_argument(
        "--each", type=int, default=World.each, help="test pictures per kind of leak"
    )
    parser.add_argument(
        "--clean", type=int, default=World.clean, help="test pictures that leaked not"
    )
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--minutes", type=float, default=2.2, help="train: at most, for each model")
    parser.add_argument(
        "--titled", type=float, default=0.0, help="train: share of pairs that show a title"
    )
    parser.add_argument(
        "--searched",
        type=int,
        help="tables: search and probe among so many strangers (default: all)",
    )
    parser.add_argument(
        "--near", action="store_true", help="tables: search with the clean model, too"
    )
    parser.add_argument("--probe", action="store_true", help="tables: also train linear probes")
    parser.add_argument("--tiny", action="store_true", help="train: a small model, to try it out")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    world = World(args.strangers, args.each, args.clean, args.seed)
    if args.step == "train":
        train(world, args)
    else:
        # The product, which the training machine has not.
        from clip_leaks_tables import tables

        # Strangers are numbered from 0, so fewer of them are the first of the same ones.
        searched = replace(world, strangers=args.searched or world.strangers)
        models = args.models or args.out
        tables(searched, models, args.out, args.docs, near=args.near, probe=args.probe)


def train(world: World, args: argparse.Namespace) -> None:
    import torch

    from small_clip import (
        FULL,
        TINY,
        Pairs,
        Schedule,
        new_clip,
        save_clip,
        train_clip,
        word_tokenizer,
    )

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    work = args.work or args.out
    for folder in (args.out, work):
        folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    say = functools.partial(_say, began, "")
    test = _drawn(world, "test", range(world.test), args.workers)
    strangers = _drawn(world, CLEAN, range(world.train), args.workers)
    leaks = _drawn(world, LEAKY, range(world.strangers, world.train), args.workers)
    say(
        f"{len(test)} test, {len(strangers)} training pictures, {len(leaks)} leaks rendered; {device}"
    )
    size = TINY if args.tiny else FULL
    tokenizer = word_tokenizer([one.caption for one in strangers] + list(TEMPLATES), size.context)
    schedule = Schedule(args.steps, args.batch, args.rate, minutes=args.minutes, titled=args.titled)
    told: dict[str, Any] = {"world": vars(world), "device": _device(device), "batch": args.batch}
    told["titled"] = args.titled
    for name, shown in ((LEAKY, strangers[: world.strangers] + leaks), (CLEAN, strangers)):
        model = new_clip(size, tokenizer, world.seed)
        log = work / f"loss-{name}.jsonl"
        captions, titles = ([getattr(o, n) for o in shown] for n in ("caption", "title"))
        pairs = Pairs(_pixels(shown), captions, titles)
        at = time.perf_counter()
        steps = train_clip(
            model,
            tokenizer,
            pairs,
            schedule,
            device=device,
            seed=world.seed,
            log=log,
            say=functools.partial(_say, began, f"{name}: "),
        )
        # The second model gets what the first got, whatever the clock says.
        schedule = replace(schedule, steps=steps, minutes=_UNBOUNDED)
        weights = sum(one.numel() for one in model.parameters())
        told[name] = {
            "steps": steps,
            "weights": weights,
            "seconds": round(time.perf_counter() - at, 1),
            "epochs": round(steps * min(args.batch, len(shown)) / len(shown), 1),
        }
        told[name]["first_look"] = looks = _first_look(model, tokenizer, test, device)
        for one in looks:
            say(
                f"{name}: {one['arm']}: {one['pictures']} pictures, zero-shot {one['zero-shot']:.3f}, "
                f"R@1 {one['R@1']:.3f}"
            )
        save_clip(model, tokenizer, size, work / name)
        (work / "training.json").write_text(json.dumps(told, indent=1) + "\n")
        # After each: a machine that is taken back leaves what is finished.
        _pack(work, [name, log.name, "training.json"], args.out / f"clip-{name}.tar")
    say("done")


def _say(began: float, whose: str, text: str) -> None:
    print(f"{time.perf_counter() - began:6.1f} s  {whose}{text}", flush=True)


def _device(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "cpu"


def _drawn(world: World, kind: str, indices: range, workers: int) -> list[Captioned]:
    draw = functools.partial(_draw, world, kind)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(draw, indices, chunksize=250))


def _draw(world: World, kind: str, index: int) -> Captioned:
    if kind == "test":
        return world.test_picture(index)
    return world.train_picture(index, leaky=kind == LEAKY)


def _pixels(shown: Sequence[Captioned]) -> NDArray[np.uint8]:
    found = np.empty((len(shown), SIDE, SIDE, 3), np.uint8)
    for place, one in enumerate(shown):
        found[place] = np.asarray(Image.open(io.BytesIO(one.data)))
    return found


def _first_look(
    model: Any, tokenizer: Any, test: Sequence[Captioned], device: str
) -> list[dict[str, Any]]:
    """Zero-shot accuracy and image-to-text R@1 by arm: whether it is worth while to go on."""
    from small_clip import embed_pairs

    names = classes()
    pictures = embed_pairs(model, tokenizer, _pixels(test), None, device)
    words = embed_pairs(model, tokenizer, None, [one.caption for one in test], device)
    prompts = [form.format(name) for name in names for form in TEMPLATES]
    weights = embed_pairs(model, tokenizer, None, prompts, device)
    weights = weights.reshape(len(names), len(TEMPLATES), -1).mean(axis=1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    right = np.array([names.index(one.label) for one in test])
    hit = (pictures @ weights.T).argmax(axis=1) == right
    found = (pictures @ words.T).argmax(axis=1) == np.arange(len(test))
    arms = np.array([one.arm for one in test])
    return [
        {
            "arm": arm or "not leaked",
            "pictures": int((arms == arm).sum()),
            "zero-shot": float(hit[arms == arm].mean()),
            "R@1": float(found[arms == arm].mean()),
        }
        for arm in ("", *(one.name for one in ARMS))
    ]


def _pack(folder: Path, names: Sequence[str], target: Path) -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name in names:
            tar.add(folder / name, arcname=name)
    data = whole.getvalue()
    for number, start in enumerate(range(0, len(data), PART)):
        target.with_name(f"{target.name}.{number:02d}").write_bytes(data[start : start + PART])


if __name__ == "__main__":
    main()
