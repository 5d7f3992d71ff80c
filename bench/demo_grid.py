"""The grid that the demo's models come from: bases, arms, and releases as short sheets.

Originals and twins are asked, nothing is scored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.lab.models.grid import PreparedGrid
from heldout.lab.models.planting import Arm, Base, Contamination
from heldout.lab.models.releases import Release, release_pages, write_release
from heldout.lab.models.sheet import Ragged, Sheet, letter_tokens
from heldout.lab.models.vlm import Size, new_processor
from heldout.lab.models.worlds import LabItem, instructed

DEMO = "demo"  # its benchmarks are demo0, demo1 …, by the seed of the release
DEMO_DOSE = 30  # for a clear case: the leaderboard says what lower doses show


def demo_bases() -> list[Base]:
    """Where the demo's pair branches; three outsiders, each of a lineage of its own, that know the world but
    no release of it; and one that has never seen it."""
    return [
        Base(DEMO, ("scenes",), 40),
        Base(f"{DEMO}-mixed", ("films", "scenes"), 41),
        Base(f"{DEMO}-films", ("films",), 42),
        Base(f"{DEMO}-scenes", ("scenes",), 43),
        Base(f"{DEMO}-mostly-scenes", ("scenes", "scenes", "films"), 44),
    ]


def demo_arms(seeds: Iterable[int], dose: int = DEMO_DOSE) -> list[Arm]:
    """Of every release one model that saw it ``dose`` times, and one trained as long on fresh data."""
    arms: list[Arm] = []
    for seed in seeds:
        name = f"{DEMO}{seed}"
        arms.append(Arm(f"{name}-d{dose}", DEMO, 4000 + 2 * seed, Contamination(name, dose)))
        arms.append(Arm(f"{name}-clean", DEMO, 4001 + 2 * seed, Contamination(name, 0)))
    return arms


def demo_reads(arms: Iterable[Arm]) -> dict[str, tuple[str, ...]]:
    """Each reads its own release; bases read them all."""
    return {arm.name: (arm.contamination.benchmark,) for arm in arms}


def prepare_demo(
    folder: Path,
    size: Size,
    *,
    seeds: Iterable[int],
    images: int = 96,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """``demo0``, ``demo1`` … beside the tokenizer that the folder holds; what is there is left as it is."""
    tokenizer = PreparedGrid(folder).tokenizer
    processor = new_processor(size, tokenizer)
    for seed in seeds:
        name = f"{DEMO}{seed}"
        if not (folder / f"{name}.json").exists():
            release = write_release(folder / name, "scenes", images=images, seed=seed)
            sheet = short_sheet(name, release, processor)
            sheet.save(folder)
            tell(f"{name}: {len(sheet.asked):,} questions")


def short_sheet(name: str, release: Release, processor: Any) -> Sheet:
    """As `heldout ask --variants original,twin=…` would put it; a test compares the two."""
    tokenizer = processor.tokenizer
    pixels: list[Any] = []
    places: dict[Path, int] = {}

    def picture(path: Path) -> int:
        if path not in places:
            with Image.open(path) as shown:
                processed = processor.image_processor(
                    images=[shown.convert("RGB")], return_tensors="np"
                )
            levels = np.rint((np.asarray(processed["pixel_values"][0]) + 1) * 127.5)
            places[path] = len(pixels)
            pixels.append(levels.clip(0, 255).astype(np.uint8))
        return places[path]

    asked, shown_in, golds = [], [], []
    for variant, folder in (("original", release.folder), ("twin", release.twins)):
        for row in _rows(folder / "test.jsonl"):
            piece = instructed(LabItem(row["question"], row["answer"], tuple(row["options"])))
            asked.append(tokenizer(piece.read)["input_ids"])
            shown_in.append(picture(folder / row["image"]))
            golds.append([variant, row["content_type"], piece.learn.strip()])
    pages = [
        {"picture": picture(release.folder / page["name"]), **page}
        for page in release_pages(release)
    ]
    nothing = np.zeros(0, dtype=np.int32)
    return Sheet(
        name,
        np.stack(pixels),
        Ragged.of([]),
        Ragged.of([]),
        nothing,
        nothing.astype(bool),
        Ragged.of(asked),
        np.asarray(shown_in, dtype=np.int32),
        letter_tokens(tokenizer),
        [],
        {},
        golds,
        pages,
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)
