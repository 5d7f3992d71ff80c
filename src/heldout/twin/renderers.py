"""Renderers by name; what a renderer needs is imported when somebody asks for it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heldout.errors import InputError
from heldout.twin.renderer import Renderer


@dataclass(frozen=True)
class Kind:
    module: str
    takes: str  # the class whose parameters are the renderer's settings
    needs_caption: bool
    about: str


KINDS: Mapping[str, Kind] = {
    "scene": Kind(
        "scene_renderer", "SceneRenderer", False,
        "redraws procedural scenes exactly, on any machine",
    ),
    "flux": Kind(
        "flux_renderer", "FluxSettings", True, "FLUX.1-dev with a Canny ControlNet, on a GPU"
    ),
    "edit": Kind(
        "edit_renderer", "EditEndpointRenderer", True, "an OpenAI-compatible image edit endpoint"
    ),
}  # fmt: skip


def open_renderer(name: str, **settings: Any) -> Renderer:
    """``settings`` are the renderer's own; one that it does not have is refused with a sentence."""
    if name not in KINDS:
        raise InputError(f"--renderer {name}: there are {', '.join(KINDS)}")
    kind = KINDS[name]
    module = importlib.import_module(f"heldout.twin.{kind.module}")
    make = getattr(module, kind.takes)
    known = inspect.signature(make)
    try:
        known.bind(**settings)
    except TypeError as error:
        listed = ", ".join(known.parameters)
        raise InputError(
            f"--renderer {name} cannot be set up like this: {error}; its settings are {listed}"
        ) from error
    made: Renderer = make(**settings)
    if (
        name == "flux"
    ):  # the settings are made first: what is wrong with them is said before loading
        made = module.FluxRenderer.load(made)
    return made
