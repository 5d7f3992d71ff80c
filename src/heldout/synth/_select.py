"""Select: equal buckets by label, shares by number of images, drawn by seed; images are copied to
the run."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from heldout.engine import progress
from heldout.errors import InputError
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import DEFAULT, EVERYTHING, PaperFigure, labels_of_caption, split_labels
from heldout.synth.draft import RULES as LABELS
from heldout.synth.ingest._images import read_located, store, stored_name
from heldout.synth.ledger import BATCH, StageWriter, read_dropped, read_rows
from heldout.synth.settings import NOT_SELECTED, SynthSettings, SynthStage

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
            writer.drop(Dropped(STAGE, figure.id, NOT_SELECTED, detail))
        else:
            buckets[bucket].append((figure.id, len(figure.images)))
    if not buckets and not others:
        dropped = Counter(
            dropped.reason for dropped in read_dropped(context.run, SynthStage.INGEST)
        )
        why = ", ".join(f"{reason} {count:,}" for reason, count in dropped.most_common(5))
        hint = "; the setting any_licence keeps them, and what is made may not be passed on"
        refused = {"licence", "third-party copyright", "no attribution"} & dropped.keys()
        raise InputError(
            f"no figure is left to select from; ingest dropped all: {why}"
            + (hint if refused else "")
        )
    if not buckets:
        seen = ", ".join(f"{label} {count:,}" for label, count in others.most_common(8))
        raise InputError(
            f"no figure has a label that is selected; there are {seen}: give the "
            f"setting labels (some of them, or 'all')"
        )
    chosen = draw(buckets, settings)
    full = {
        name
        for name, figures in buckets.items()
        if settings.quota is not None
        and sum(chosen.get(figure) == name for figure, _ in figures) >= settings.quota
    }
    _write(context, writer, chosen, labels, full)


SELECT = StageWork(
    SynthStage.SELECT,
    _select,
    ("labels", "quota", "image_shares", "limit", "seed"),
    (SynthStage.INGEST,),
    (LABELS,),
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
    """Chosen figures with their buckets. Every bucket gets an equal quota, and what a small one cannot
    fill goes to the others; within a bucket the shares of figures with one, two, … images are kept as
    far as there are such figures."""
    quotas = shared_out({name: len(figures) for name, figures in buckets.items()}, settings)
    chosen: dict[str, str] = {}
    for name in sorted(buckets):
        rng = random.Random(f"{settings.seed}/{name}")
        by_images: dict[int, list[str]] = defaultdict(list)
        for figure, images in sorted(buckets[name]):
            by_images[images].append(figure)
        for figures in by_images.values():
            rng.shuffle(figures)
        targets = {
            images: round(quotas[name] * settings.image_shares[images - 1])
            for images in by_images
            if images <= len(settings.image_shares)
        }
        # First every share, those of several images before those of one; then what is left of the quota.
        order = sorted(by_images, reverse=True)
        picked = [
            figure for images in order for figure in by_images[images][: targets.get(images, 0)]
        ]
        spare = [
            figure
            for images in sorted(by_images)
            for figure in by_images[images][targets.get(images, 0) :]
        ]
        chosen |= dict.fromkeys([*picked, *spare][: quotas[name]], name)
    return chosen


def shared_out(sizes: Mapping[str, int], settings: SynthSettings) -> dict[str, int]:
    """How many figures of each bucket: equal parts of the limit, at most the quota and what there is."""
    most = {
        name: size if settings.quota is None else min(size, settings.quota)
        for name, size in sizes.items()
    }
    if settings.limit is None:
        return most
    names = sorted(most)
    random.Random(f"{settings.seed}/labels").shuffle(names)  # which labels get the remainder
    left = settings.limit
    parts: dict[str, int] = {}
    for place, name in enumerate(sorted(names, key=lambda name: most[name])):
        parts[name] = min(most[name], -(-left // (len(names) - place)))
        left -= parts[name]
    return parts


def _write(
    context: StageContext,
    writer: StageWriter,
    chosen: Mapping[str, str],
    labels: Mapping[str, tuple[str, str]],
    full: Collection[str],
) -> None:
    """Selected figures in the order of the source, their images copied once each. ``full``: labels that
    have their quota; others were cut by the limit."""
    with progress("copying images", len(chosen), "figures", disabled=context.quiet) as step:
        batch: list[PaperFigure] = []
        for row in read_rows(context.run, SynthStage.INGEST):
            if row["id"] in chosen:
                batch.append(PaperFigure.of_row(row))
            elif (label := bucket_of(*labels[row["id"]], context.settings)) is not None:
                why = "quota full" if label in full else "limit reached"
                writer.drop(Dropped(STAGE, row["id"], why, f"not drawn among those with {label}"))
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
        location
        for location, image in images.items()
        if not (context.run.path / stored_name(image)).exists()
    }
    try:
        for location, data in read_located(sorted(waiting)):
            if store(context.run.path, images[location], data):
                waiting.discard(location)
    except OSError as error:
        failed |= dict.fromkeys(waiting, f"{error}")
    failed |= {
        location: failed.get(location, "it is gone or another one since it was read")
        for location in waiting
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
