"""A renderer that needs nothing, and runs made with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from heldout.twin import RenderError, RenderTask, Twinning, make_twins


class Inverted:
    """The picture's negative; items named in ``how`` come out in another way."""

    name = "inverted"

    def __init__(self, how: Mapping[str, str] | None = None) -> None:
        self.how = how or {}
        self.drawn: list[str] = []

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"how": dict(self.how), "weights": "/somewhere/else/weights"}

    def render(self, task: RenderTask) -> Image.Image:
        self.drawn.append(task.id)
        how = self.how.get(task.id)
        if how == "same":
            return task.original
        if how == "small":
            return ImageOps.invert(task.original).resize((8, 8))
        if how == "error":
            raise RenderError("no room", "the test says so")
        return ImageOps.invert(task.original)


def twinned(bench: Path | str, out: Path, *, renderer: Any = None, **values: Any) -> Twinning:
    made = make_twins(
        bench,
        run=out,
        draw_with=renderer or Inverted(),
        quiet=True,
        **{"unfiltered": True, **values},
    )
    return made.twinning
