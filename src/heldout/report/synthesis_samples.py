"""Items of a synthesis to look at: some that were published, one for every way to be turned away."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

from heldout.image import FileOnDisk, ImageError, ImageRef, to_rgb
from heldout.report.synthesis import worded
from heldout.store import Run
from heldout.synth import LETTERS, Draft, PaperFigure, SynthStage
from heldout.synth.ledger import finished, read_dropped, read_rows

PUBLISHED, REJECTED = 6, 12
_SIDE, _IMAGES, _CAPTION = 220, 3, 400


@dataclass(frozen=True)
class Sample:
    """``why``: what turned the item away; empty for a published one. ``pictures``: data addresses."""

    id: str
    question: str
    options: tuple[tuple[str, str], ...]
    answer: str
    caption: str
    licence: str
    attribution: str
    why: str
    detail: str
    pictures: tuple[str, ...]
    files: tuple[str, ...]


def read_samples(run: Run) -> list[Sample]:
    """Published items first, in their order; then one rejected item for each reason."""
    if not finished(run, SynthStage.VERIFY):
        return []
    wanted = dict.fromkeys(_first_published(run), ("", ""))
    seen: set[str] = set()
    for name, reason, detail in _turned_away(run):
        if reason not in seen and len(seen) < REJECTED:
            seen.add(reason)
            wanted[name] = (reason, detail)
    found = {}
    balanced = {}
    if finished(run, SynthStage.BALANCE):
        rows = read_rows(run, SynthStage.BALANCE)
        balanced = {row["id"]: row for row in rows if row["id"] in wanted}
    drafts = map(Draft.of_row, read_rows(run, SynthStage.GENERATE))
    kept = {draft.id: draft for draft in drafts if draft.id in wanted}
    needed = {draft.figure for draft in kept.values()}
    figures = map(PaperFigure.of_row, read_rows(run, SynthStage.SELECT))
    shown = {figure.id: figure for figure in figures if figure.id in needed}
    for name, draft in kept.items():
        if (row := balanced.get(name)) is not None:
            draft = replace(draft, options=tuple(row["options"]), answer=row["answer"])
        found[name] = _sample(run, draft, shown[draft.figure], *wanted[name])
    return [found[name] for name in wanted if name in found]


def _first_published(run: Run) -> list[str]:
    if not finished(run, SynthStage.PUBLISH):
        return []
    rows = sorted(read_rows(run, SynthStage.PUBLISH), key=lambda row: row["rank"])
    return [row["id"] for row in rows[:PUBLISHED]]


def _turned_away(run: Run) -> Iterator[tuple[str, str, str]]:
    for one in read_dropped(run, SynthStage.VERIFY):
        yield one.id, worded(one.reason), one.detail
    if finished(run, SynthStage.DECONTAMINATE):
        for row in read_rows(run, SynthStage.DECONTAMINATE):
            if row["removed"]:
                yield row["id"], f"{row['relation']} ({row['benchmark']})", row["detail"]


def _sample(run: Run, draft: Draft, figure: PaperFigure, why: str, detail: str) -> Sample:
    caption = figure.caption
    return Sample(
        id=draft.id,
        question=draft.question,
        options=tuple(zip(LETTERS, draft.options, strict=True)),
        answer=draft.answer,
        caption=caption if len(caption) <= _CAPTION else f"{caption[:_CAPTION]}…",
        licence=figure.licence,
        attribution=figure.attribution,
        why=why,
        detail=detail,
        pictures=tuple(
            shown for image in figure.images[:_IMAGES] if (shown := _small(run, image.path))
        ),
        files=tuple(image.path for image in figure.images),
    )


def _small(run: Run, path: str) -> str:
    """A small WebP made here as a data address: no stranger's file reaches a browser as it is."""
    try:
        image = to_rgb(ImageRef(path, FileOnDisk(str(run.path / path))).open())
    except ImageError:
        return ""
    image = image.copy()
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
