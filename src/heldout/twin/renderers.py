"""Renderers by name; what a renderer needs is imported when somebody asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.model import Connection, Pace
from heldout.twin.renderer import Renderer


@dataclass(frozen=True)
class Kind:
    open: Callable[..., Renderer]
    needs_caption: bool
    about: str


def open_renderer(name: str, **settings: Any) -> Renderer:
    """``settings`` are the renderer's own; one that it does not have is refused with a sentence."""
    if name not in KINDS:
        raise InputError(f"--renderer {name}: there are {', '.join(KINDS)}")
    make = KINDS[name].open
    try:
        inspect.signature(make).bind(**settings)
        return make(**settings)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise InputError(f"--renderer {name} cannot be set up like this: {error}") from error


def _scene(folder: str | Path) -> Renderer:
    from heldout.twin.scene_renderer import SceneRenderer

    return SceneRenderer(folder)


def _flux(**settings: Any) -> Renderer:
    from heldout.twin.flux_renderer import FluxRenderer
    from heldout.twin.flux_settings import FluxSettings

    # Made first: what is wrong with the settings is said before gigabytes are read.
    return FluxRenderer.load(FluxSettings(**settings))


def _edit(
    url: str,
    model: str,
    sizes: str | None = None,
    api_key: str | None = None,
    timeout: float = 120.0,
    pace: Pace | None = None,
    **extra: Any,
) -> Renderer:
    """``sizes``: what the endpoint draws, as '1024x1024,1536x1024', or '' to send pictures as they are.
    Any other setting is a field of the form that is sent, such as quality=high."""
    from heldout.twin.edit_renderer import SIZES, EditRenderer, parse_sizes

    connection = Connection(
        url,
        api_key=api_key,
        timeout=timeout,
        pace=pace or Pace(),
        role="render-",
        key_option="--render-api-key-env",
    )
    drawn = SIZES if sizes is None else parse_sizes(sizes)
    return EditRenderer(connection, model, drawn, {key: str(value) for key, value in extra.items()})


KINDS: Mapping[str, Kind] = {
    "scene": Kind(_scene, False, "redraws procedural scenes exactly, on any machine"),
    "flux": Kind(_flux, True, "FLUX.1-dev with a Canny ControlNet, on a GPU"),
    "edit": Kind(_edit, False, "an OpenAI-compatible image edit endpoint"),
}
