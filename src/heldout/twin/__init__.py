"""Twins: the same question with a new picture, on which another answer is right."""

from heldout.twin.renderer import Renderer, RenderError, RenderTask

__all__ = ["RenderError", "RenderTask", "Renderer"]
