"""Render: the new picture of every item, kept the moment it is drawn, and looked at before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark
from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageError, decode, to_rgb
from heldout.model import in_parallel, item_random
from heldout.store import Dropped, Run, inside, opened, remove, replacing
from heldout.twin.ledger import (
    DESCRIBE,
    EDGES,
    RENDER,
    RESAMPLE,
    digest,
    file_name,
    folder,
    read_stage,
    withdraw_of_changed,
    write_stage,
    write_twins,
)
from heldout.twin.renderers import Renderer, RenderError, RenderTask

# Pictures of a twin run on disk: as they were, their edges, and as they were drawn anew.


def place(run: Run, kind: str, name: str) -> Path:
    """``kind``: originals, edges or pictures."""
    return folder(run) / kind / f"{name}.png"


def relative(run: Run, path: Path) -> str:
    return path.relative_to(run.path).as_posix()


def save(path: Path, picture: Image.Image, *, quickly: bool = False) -> None:
    """Save the picture by an atomic rename. ``quickly``: larger files, for pictures that are not published."""
    with replacing(path) as temporary:
        picture.save(temporary, "PNG", compress_level=1 if quickly else 6)


def load(path: Path) -> Image.Image | ImageError:
    """A picture that was saved earlier; the file may have been changed since."""
    try:
        with opened(path) as file:
            return to_rgb(decode(file.read()))
    except ImageError as error:
        return error
    except OSError as error:
        return ImageError("missing image", f"{path.name}: {error.strerror}")


def equal(image: Image.Image, other: Image.Image) -> bool:
    return image.size == other.size and bool(np.array_equal(np.asarray(image), np.asarray(other)))


def sweep(run: Run) -> None:
    """Remove incomplete files of killed processes. Only the writer of the run may call this."""
    for kind in ("originals", "edges", "pictures"):
        for left in (folder(run) / kind).glob(".*.tmp"):
            remove(left)


STAGE = "twin render"
NOT_DRAWN = "not drawn"


@dataclass
class DrawnPictures:
    """``fresh``: how many pictures this call drew. ``ended``: what put an end to it."""

    fresh: int = 0
    reused: int = 0
    failed: dict[str, Dropped] = field(default_factory=dict)
    ended: InputError | None = None


@dataclass(frozen=True)
class _Item:
    row: Mapping[str, Any]  # from all earlier stages
    seed: int
    target: Path
    metadata: Mapping[str, Any]


def render(
    run: Run,
    benchmark: Benchmark,
    renderer: Renderer,
    *,
    seed: int,
    concurrency: int = 1,
    quiet: bool = False,
) -> DrawnPictures:
    """A picture that could not be drawn is tried again by the next call; one that was drawn is not."""
    sweep(run)
    items = _items(run, benchmark, renderer, seed)
    drawn = _draw(run, renderer, items, concurrency, quiet)
    rows: list[dict[str, Any]] = []
    dropped: list[Dropped] = []
    with progress("looking at the pictures", len(items), "pictures", disabled=quiet) as step:
        for item in items:
            problem = drawn.failed.get(item.row["id"]) or _problem(run, item)
            step()
            if problem is not None:
                dropped.append(problem)
                continue
            record = {"picture": relative(run, item.target), "renderer": renderer.name}
            rows.append({**item.row, **record, "seed": item.seed})
    withdraw_of_changed(run, {row["id"]: row["picture"] for row in rows})
    write_stage(run, RENDER, rows, dropped)
    write_twins(run)
    return drawn


def _items(run: Run, benchmark: Benchmark, renderer: Renderer, seed: int) -> list[_Item]:
    resampled = {row["id"]: row for row in read_stage(run, RESAMPLE)}
    captions = {row["id"]: row for row in read_stage(run, DESCRIBE)}
    examples = {example.id: example for example in benchmark}
    settings = {key: value for key, value in renderer.settings.items() if key != "endpoint"}
    items = []
    for outline in read_stage(run, EDGES):
        name = outline["id"]
        row = {**resampled[name], **captions[name], **outline}
        drawn = int(item_random(seed, "twin-picture", name).integers(2**31))
        # Everything the drawing depends on: another caption or setting is another picture, but a server
        # that moved is still the same model.
        rows = [
            renderer.name,
            settings,
            drawn,
            row["original"],
            row["edges"],
            row["caption"],
            row["question"],
            row["old_answer"],
            row["new_answer"],
        ]
        target = place(run, "pictures", file_name(name, digest(rows)[:12]))
        items.append(_Item(row, drawn, target, examples[name].metadata))
    return items


def _draw(
    run: Run, renderer: Renderer, items: list[_Item], concurrency: int, quiet: bool
) -> DrawnPictures:
    drawn = DrawnPictures()
    waiting = [item for item in items if not item.target.exists()]
    drawn.reused = len(items) - len(waiting)

    def draw(item: _Item) -> Dropped | None:
        name = item.row["id"]
        try:
            task = _task(run, item)
            save(item.target, to_rgb(renderer.render(task)))
        except (RenderError, ImageError) as error:
            return Dropped(STAGE, name, error.reason, error.detail)
        return None

    def results() -> Iterator[tuple[_Item, Dropped | None]]:
        return in_parallel(lambda item: (item, draw(item)), waiting, concurrency)

    title = f"drawing with {renderer.name}"
    with progress(title, len(items), "pictures", done=drawn.reused, disabled=quiet) as step:
        try:
            for item, problem in results():
                step()
                if problem is None:
                    drawn.fresh += 1
                else:
                    drawn.failed[item.row["id"]] = problem
        except InputError as error:  # the endpoint is gone, the weights are not there
            drawn.ended = error
    for item in waiting:
        if not item.target.exists() and item.row["id"] not in drawn.failed:
            drawn.failed[item.row["id"]] = Dropped(
                STAGE, item.row["id"], NOT_DRAWN, "the renderer ended before it"
            )
    return drawn


def _task(run: Run, item: _Item) -> RenderTask:
    row = item.row
    original, outline = (load(inside(run.path, row[name])) for name in ("original", "edges"))
    if isinstance(original, ImageError):
        raise original
    if isinstance(outline, ImageError):
        raise outline
    return RenderTask(
        row["id"],
        row["image_name"],
        original,
        outline.convert("L"),
        row["caption"],
        row["question"],
        row["old_answer"],
        row["new_answer"],
        item.seed,
        item.metadata,
    )


def _problem(run: Run, item: _Item) -> Dropped | None:
    """What is wrong with a drawn picture; it stays on disk because it was paid for."""
    name = item.row["id"]
    drawn, original = load(item.target), load(inside(run.path, item.row["original"]))
    for picture in (drawn, original):
        if isinstance(picture, ImageError):
            return Dropped(STAGE, name, picture.reason, picture.detail)
    assert not isinstance(drawn, ImageError) and not isinstance(original, ImageError)
    if drawn.size != original.size:
        sizes = f"{drawn.width}x{drawn.height}, not {original.width}x{original.height}"
        return Dropped(STAGE, name, "picture of another size", sizes)
    if equal(drawn, original):
        return Dropped(STAGE, name, "picture unchanged", "every pixel is as it was")
    return None
