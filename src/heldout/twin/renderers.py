"""Renderers by name; what a renderer needs is imported on demand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from heldout.errors import InputError
from heldout.model import ModelServer

# Renderer: what draws the picture of a twin, in which the new answer is right.


@dataclass(frozen=True)
class RenderTask:
    """One picture to draw. A renderer ignores what it does not need."""

    id: str
    image_name: str  # as the benchmark calls the picture
    original: Image.Image  # RGB, native size
    edges: Image.Image  # "L", the same size: white on black
    caption: str  # the scene as it would be if the new answer were right
    question: str
    old_answer: str
    new_answer: str
    seed: int
    metadata: Mapping[str, Any] = field(default_factory=dict)


class RenderError(Exception):
    """This one picture cannot be drawn; ``reason`` is few, stable words, ``detail`` the facts."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Renderer(Protocol):
    """A drawing depends on the task and on ``settings`` alone."""

    name: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything the drawing depends on besides the task, fit for JSON."""
        ...

    def render(self, task: RenderTask) -> Image.Image:
        """The twin's picture, RGB, of the original's size. Raises RenderError."""
        ...


@dataclass(frozen=True)
class RendererKind:
    open: Callable[..., Renderer]
    needs_caption: bool
    about: str


def open_renderer(name: str, **settings: Any) -> Renderer:
    """``settings`` are the renderer's own; one that it does not have is refused with a sentence."""
    if name not in KINDS:
        raise InputError(f"renderer {name}: there are {', '.join(KINDS)}")
    make = KINDS[name].open
    try:
        inspect.signature(make).bind(**settings)
        return make(**settings)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InputError(f"renderer {name}: it cannot be set up like this: {error}") from error


def _scene(folder: str | Path) -> Renderer:
    from heldout.twin.scene_renderer import SceneRenderer

    return SceneRenderer(folder)


def _flux(**settings: Any) -> Renderer:
    from heldout.twin._flux_settings import FluxSettings
    from heldout.twin.flux_renderer import FluxRenderer

    # Made first: mistakes in the settings are reported before gigabytes are read.
    return FluxRenderer.load(FluxSettings(**settings))


def _edit(server: ModelServer, model: str, sizes: str | None = None, **extra: Any) -> Renderer:
    """``sizes``: what the endpoint draws, as '1024x1024,1536x1024', or '' to send pictures as they are.
    Any other setting is a field of the form that is sent, such as quality=high."""
    from heldout.twin.edit_renderer import SIZES, EditRenderer, parse_sizes

    drawn = SIZES if sizes is None else parse_sizes(sizes)
    fields = {key: str(value) for key, value in extra.items()}
    return EditRenderer(server.connect("render_endpoint"), model, drawn, fields)


SCENE, FLUX, EDIT = "scene", "flux", "edit"
KINDS: Mapping[str, RendererKind] = {
    SCENE: RendererKind(_scene, False, "redraws procedural scenes exactly, on any machine"),
    FLUX: RendererKind(_flux, True, "FLUX.1-dev with a Canny ControlNet, on a GPU"),
    EDIT: RendererKind(_edit, False, "an OpenAI-compatible image edit endpoint"),
}
