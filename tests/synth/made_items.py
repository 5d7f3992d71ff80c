"""Runs for the stages after verification: items written straight into the tables of a synthesis."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from heldout.store import Run
from heldout.synth import LETTERS, Draft, FigureImage, PaperFigure, SynthSettings, SynthStage
from heldout.synth._mechanical import check_by_code
from heldout.synth._verify import verdict_row, write_verdict
from heldout.synth.ingest._images import store, stored_name
from heldout.synth.ledger import read_rows, writing
from heldout.synth.rubric import CRITERIA, Category

PERFECT = {one.key: (one.category is not Category.PENALTY, "") for one in CRITERIA}


def png(picture: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def figure(run: Path, name: str, images: Sequence[bytes], **fields: Any) -> PaperFigure:
    """A selected figure, its images stored in the run."""
    Run.create(run, seed=42)
    kept = []
    for data in images:
        with Image.open(io.BytesIO(data)) as opened:
            size, ending = opened.size, f".{(opened.format or 'png').lower()}"
        image = FigureImage(f"{name}{ending}", hashlib.sha256(data).hexdigest(), *size)
        assert store(run, image, data)
        kept.append(dataclasses.replace(image, path=stored_name(image)))
    row = {
        "id": name,
        "article": name.partition("/")[0],
        "label": "Figure 1",
        "caption": "A chest CT.",
        "references": ("See Figure 1.",),
        "images": tuple(kept),
        "licence": "CC BY 4.0",
        "licence_url": "https://creativecommons.org/licenses/by/4.0/",
        "redistributable": True,
        "attribution": f"Ada. {name}",
        "source": "made",
        "primary": "clinical imaging",
        "secondary": "computerized tomography",
    }
    return PaperFigure(**{**row, **fields})


def item(name: str, question: str, options: Sequence[str], answer: str = "A") -> Draft:
    return Draft(name, name, question, tuple(options), answer, generator="made", raw="{}")


def write_run(
    path: Path,
    items: Sequence[tuple[Draft, PaperFigure]],
    flagged: Sequence[str] = (),
    **settings: Any,
) -> Run:
    """Tables of select, generate, verify and shortcut, as those stages would have written them."""
    run = Run.create(path, seed=42)
    chosen = SynthSettings(source="made", **settings)
    with writing(run, SynthStage.SELECT, "made") as table:
        for _, one in items:
            table.keep(one.as_row())
    with writing(run, SynthStage.GENERATE, "made") as table:
        for draft, _ in items:
            table.keep(draft.as_row())
    with writing(run, SynthStage.VERIFY, "made") as table:
        for draft, one in items:
            verdict = verdict_row(draft, check_by_code(draft, one), PERFECT, chosen, "made")
            write_verdict(table, verdict)
    with writing(run, SynthStage.SHORTCUT, "made") as table:
        for verdict in read_rows(run, SynthStage.VERIFY):
            name = verdict["id"]
            if verdict["accepted"]:
                table.keep({"id": name, "probes": [], "flagged": name in flagged, "reason": ""})
    return run


def five(right: str, *wrong: str) -> tuple[str, ...]:
    assert len(wrong) == len(LETTERS) - 1
    return (right, *wrong)
