"""Twins: the same question with a new picture, on which another answer is right. See docs/twins.md."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.twin.drawing import render
    from heldout.twin.edges import HIGH, LOW, edges, faint
    from heldout.twin.ledger import (
        EDGES,
        RENDER,
        finished,
    )
    from heldout.twin.publish import publish
    from heldout.twin.renderers import Renderer, RenderError, RenderTask
    from heldout.twin.resample import NewAnswer, resample
    from heldout.twin.settings import TwinSettings
    from heldout.twin.twinning import Twinning, TwinResult, make_twins
    from heldout.twin.verify import describe

__all__ = [
    "EDGES",
    "HIGH",
    "LOW",
    "RENDER",
    "NewAnswer",
    "RenderError",
    "RenderTask",
    "Renderer",
    "TwinResult",
    "TwinSettings",
    "Twinning",
    "describe",
    "edges",
    "faint",
    "finished",
    "make_twins",
    "publish",
    "render",
    "resample",
]

__getattr__ = load_on_first_use(__name__, __file__, verb="make_twins")
