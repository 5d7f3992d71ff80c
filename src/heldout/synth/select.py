"""Select: equal buckets by label, shares by number of images, drawn by seed; images are copied to
the run."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from heldout.engine import progress
from heldout.errors import InputError
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import PaperFigure
from heldout.synth.ingest.images import read_located, store, stored_name
from heldout.synth.labels import DEFAULT, EVERYTHING, labels_of_caption, split_labels
from heldout.synth.ledger import BATCH, StageWriter, read_rows
from heldout.synth.settings import SynthSettings, SynthStage

STAGE = "select"


def _select(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    buckets: dict[str, list[tuple[str, int]]] = defaultdict(list)  # label → (figure, images)
    labels: dict[str, tuple[str, str]] = {}
    others: Counter[str] = Counter()
    for row in read_rows(context.run, SynthStage.INGEST):
        figure = PaperFigure.of_row(row)
        primary, secondary = labels[figure.id] = figure_labels(figure)
        bucket = bucket_of(primary, secondary, settings)
        if bucket is None:
            others[secondary] += 1
            detail = (
                f"labels {primary or 'none'} / {secondary or 'none'} are not among those selected"
            )
            writer.drop(Dropped(STAGE, figure.id, "label not selected", detail))
        else:
            buckets[bucket].append((figure.id, len(figure.images)))
    if not buckets:
        seen = ", ".join(f"{label} {count:,}" for label, count in others.most_common(8))
        raise InputError(
            f"no figure has a label that is selected; there are {seen}: set labels, or 'all'"
        )
    chosen = draw(buckets, settings)
    _write(context, writer, chosen, labels)


SELECT = StageWork(
    SynthStage.SELECT,
    _select,
    ("labels", "quota", "image_shares", "limit", "seed"),
    (SynthStage.INGEST,),
)


def figure_labels(figure: PaperFigure) -> tuple[str, str]:
    """As the source gives them, else by rules over the caption."""
    if figure.primary or figure.secondary:
        return figure.primary, figure.secondary
    return labels_of_caption(figure.caption)


def bucket_of(primary: str, secondary: str, settings: SynthSettings) -> str | None:
    """The first selected label that a figure has, or None."""
    wanted = tuple(label.lower() for label in settings.labels) or DEFAULT
    own = (*split_labels(secondary), *split_labels(primary))
    if EVERYTHING in wanted:
        return own[0] if own else "unlabelled"
    return next((label for label in own if label in wanted), None)


def draw(
    buckets: Mapping[str, Sequence[tuple[str, int]]], settings: SynthSettings
) -> dict[str, str]:
    """Chosen figures with their buckets. Every bucket gets an equal quota; within it the shares of
    figures with one, two, … images are kept as far as there are such figures."""
    names = sorted(buckets)
    shares: dict[str, int] = {}
    for place, name in enumerate(names):
        equal = (
            None
            if settings.limit is None
            else settings.limit // len(names) + (place < settings.limit % len(names))
        )
        most = [value for value in (equal, settings.quota) if value is not None]
        shares[name] = min(most) if most else len(buckets[name])
    chosen: dict[str, str] = {}
    for name in names:
        rng = random.Random(f"{settings.seed}/{name}")
        by_images: dict[int, list[str]] = defaultdict(list)
        for figure, images in sorted(buckets[name]):
            by_images[images].append(figure)
        if shares[name] >= len(buckets[name]):  # all are wanted: the shares have nothing to choose
            chosen |= {figure: name for figures in by_images.values() for figure in figures}
            continue
        left = shares[name]
        # Few figures have several images: their targets are met first, and one image fills what is left.
        for images in sorted(by_images, reverse=True):
            share = (
                settings.image_shares[images - 1] if images <= len(settings.image_shares) else 0.0
            )
            target = left if images == min(by_images) else min(left, round(shares[name] * share))
            picked = rng.sample(by_images[images], min(target, len(by_images[images])))
            chosen |= dict.fromkeys(picked, name)
            left -= len(picked)
    return chosen


def _write(
    context: StageContext,
    writer: StageWriter,
    chosen: Mapping[str, str],
    labels: Mapping[str, tuple[str, str]],
) -> None:
    """Selected figures in the order of the source, their images copied once each."""
    with progress("copying images", len(chosen), "figures", disabled=context.quiet) as step:
        batch: list[PaperFigure] = []
        for row in read_rows(context.run, SynthStage.INGEST):
            if row["id"] in chosen:
                batch.append(PaperFigure.of_row(row))
            elif bucket_of(*labels[row["id"]], context.settings) is not None:
                writer.drop(Dropped(STAGE, row["id"], "quota full", "not drawn for its label"))
            if len(batch) >= BATCH:
                _copy(context, writer, batch, labels)
                step(len(batch))
                batch = []
        _copy(context, writer, batch, labels)
        step(len(batch))


def _copy(
    context: StageContext,
    writer: StageWriter,
    figures: Iterable[PaperFigure],
    labels: Mapping[str, tuple[str, str]],
) -> None:
    figures = list(figures)
    images = {image.location: image for figure in figures for image in figure.images}
    failed: dict[str, str] = {}
    waiting = {
        location for location, image in images.items()
        if not (context.run.path / stored_name(image)).exists()
    }  # fmt: skip
    try:
        for location, data in read_located(sorted(waiting)):
            store(context.run.path, images[location], data)
            waiting.discard(location)
    except OSError as error:
        failed |= dict.fromkeys(waiting, f"{error}")
    failed |= {
        location: failed.get(location, "it is gone since it was read") for location in waiting
    }
    for figure in figures:
        lost = next((image.location for image in figure.images if image.location in failed), None)
        if lost is not None:
            writer.drop(Dropped(STAGE, figure.id, "missing image", f"{lost}: {failed[lost]}"))
            continue
        stored = tuple(
            dataclasses.replace(image, path=stored_name(image)) for image in figure.images
        )
        primary, secondary = labels[figure.id]
        kept = dataclasses.replace(figure, images=stored, primary=primary, secondary=secondary)
        writer.keep(kept.as_row())
