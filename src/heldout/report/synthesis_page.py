"""report.html of a synthesis, and the card of its dataset."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from heldout.errors import counted
from heldout.image import FileOnDisk, ImageError, ImageRef, to_rgb
from heldout.report._reproduce import commands_shown, manifest_shown, templates, visible
from heldout.report.figures import for_paper
from heldout.report.synthesis import PROBES, SynthesisFacts, read_facts, worded
from heldout.review import item_tables
from heldout.settings import command_line
from heldout.store import Run, inside, remove, write_atomic
from heldout.synth import (
    CRITERIA,
    DATASET,
    INTERVALS,
    LETTERS,
    RUBRIC,
    STAGES,
    Draft,
    PaperFigure,
    SynthStage,
    finished,
    folder,
    read_dropped,
    read_rows,
)

# Sample items of a synthesis: some that were published, and one for every reason of rejection.


PUBLISHED, REJECTED = 6, 12
_SIDE, _IMAGES, _CAPTION = 220, 3, 400


@dataclass(frozen=True)
class Sample:
    """``why``: the reason of rejection; empty for a published item. ``pictures``: data addresses."""

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
    samples = {}
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
        samples[name] = _sample(run, draft, shown[draft.figure], *wanted[name])
    return [samples[name] for name in wanted if name in samples]


def _first_published(run: Run) -> list[str]:
    if not finished(run, SynthStage.PUBLISH):
        return []
    rows = sorted(read_rows(run, SynthStage.PUBLISH), key=lambda row: row["rank"])
    return [row["id"] for row in rows[:PUBLISHED]]


def _turned_away(run: Run) -> Iterator[tuple[str, str, str]]:
    for dropped in read_dropped(run, SynthStage.VERIFY):
        yield dropped.id, worded(dropped.reason), dropped.detail
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
    """A small WebP made here, as a data URL: no untrusted file reaches a browser unchanged."""
    try:
        image = to_rgb(ImageRef(path, FileOnDisk(str(inside(run.path, path)))).open())
    except ImageError:
        return ""
    image = image.copy()
    image.thumbnail((_SIDE, _SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


# The dataset card: README.md with the front matter that the Hugging Face hub reads.


_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_SHOWN = 2  # items on the card
_SPECIAL = re.compile(r"([\\`*_{}\[\]|#<>~])")
_ROLES = {
    "generator": "Written by",
    "verifier": "Verified by",
    "shortcut": "Answered without the image by",
    "judge": "Rewordings of benchmark questions judged by",
    "traces": "Reasoning traces by",
}


def dataset_card(facts: SynthesisFacts, samples: Sequence[Sample]) -> str:
    """Statistics, figures, licences, how it was made, and what it is not good for."""
    licences: Mapping[str, int] = facts.statistics.get("licence", {})
    template = templates().get_template("dataset_card.md.j2")
    return template.render(
        facts=facts,
        known=facts.statistics,
        samples=[sample for sample in samples if not sample.why][:_SHOWN],
        roles=_ROLES,
        probes=PROBES,
        intervals=INTERVALS,
        rubric=RUBRIC,
        criteria=len(CRITERIA),
        # Folders of this machine are not published.
        source=Path(str(facts.settings.get("source", ""))).name.replace("`", "'"),
        removed=sum(sum(record.get("removed", {}).values()) for record in facts.contamination),
        size=next((name for most, name in _SIZES if facts.published < most), "n>1M"),
        pretty_name=Markup(json.dumps(facts.name)),
        licence=hub_licence(licences),
        limited=[name for name in licences if "NC" in name or "SA" in name],
        figures={figure.name for figure in facts.figures},
        planted=[planted_recall for planted_recall in facts.recall if not planted_recall.sound],
        counted=counted,
        md=_markdown,
        basename=lambda path: Path(path).name,
    )


def hub_licence(licences: Mapping[str, int]) -> str:
    """One licence by the hub's name for it; several, or one that the hub does not know, are ``other``."""
    ids = {_hub_name(name) for name in licences}
    return (ids.pop() if len(ids) == 1 else "") or "other"


def _hub_name(name: str) -> str:
    if name == "CC0":
        return "cc0-1.0"
    match = re.fullmatch(r"CC (BY(?:-NC|-SA)*) (\d\.\d)", name)
    return f"cc-{match[1].lower()}-{match[2]}" if match else ""


def _markdown(words: object) -> Markup:
    """Untrusted text as plain Markdown on one line."""
    text = str(visible(" ".join(str(words).split())))
    return Markup(_SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")))


def write_synthesis_report(run: Run) -> Path:
    """``report.html`` with its figures; beside a published dataset also ``README.md`` with them."""
    facts, samples = read_facts(run), read_samples(run)
    manifest = run.manifest()
    page: dict[str, Any] = {
        "facts": facts,
        "probes": PROBES,
        "intervals": INTERVALS,
        "published": [sample for sample in samples if not sample.why],
        "rejected": [sample for sample in samples if sample.why],
        "people": item_tables(run),
        "dataset": f"synth/{DATASET}" if facts.published else "",
        "manifest_text": manifest_shown(manifest),
        "commands": commands_shown(manifest["commands"]),
        "review": command_line("review", str(run.path), kind="items"),
        "scripts": [],
        "stages": STAGES,
        "counted": counted,
    }
    _write_figures(facts, run.path / "figures")
    dataset = folder(run) / DATASET
    if dataset.is_dir():
        _write_card(facts, samples, dataset)
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("synthesis.html.j2").render(page))
    return path


def _write_figures(facts: SynthesisFacts, target: Path) -> None:
    remove(target)
    for figure in facts.figures:
        write_atomic(target / f"{figure.name}.svg", for_paper(figure.drawn))


def _write_card(facts: SynthesisFacts, samples: list[Sample], dataset: Path) -> None:
    _write_figures(facts, dataset / "figures")
    write_atomic(dataset / "README.md", dataset_card(facts, samples))
