"""Twins: the same question with a new picture, on which another answer is right. See docs/twins.md."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.twin.renderer import Renderer, RenderError, RenderTask
    from heldout.twin.renderers import open_renderer
    from heldout.twin.resample import Resampled, resample

__all__ = ["RenderError", "RenderTask", "Renderer", "Resampled", "open_renderer", "resample"]

__getattr__ = load_on_first_use(__name__, __file__)
