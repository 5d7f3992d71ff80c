"""Renderers by name, with the exact one and FLUX's settings; what a renderer needs is imported on demand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.model import ModelServer
from heldout.scenes import DrawnScene, NoTwinError, read_question, read_scenes, render, twin_scene

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

    return SceneRenderer(folder)


def _flux(**settings: Any) -> Renderer:
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


# What a drawing by FLUX depends on; the defaults are those of the paper that introduced twins.


MODEL = "black-forest-labs/FLUX.1-dev"
CONTROLNET = "XLabs-AI/flux-controlnet-canny-diffusers"
OFFLOADS = ("none", "model", "sequential")


@dataclass(frozen=True)
class FluxSettings:
    """``model`` and ``controlnet``: names on the hub, or folders in diffusers' layout.

    For the first ``true_cfg_from`` steps only the caption guides; from then on the picture is also guided away
    from ``negative_prompt``, by ``true_cfg``. Pictures of more than ``most_pixels`` are
    drawn smaller and enlarged: FLUX repeats itself beyond two megapixels.
    """

    model: str = MODEL
    controlnet: str = CONTROLNET
    revision: str | None = None
    controlnet_revision: str | None = None
    control_weight: float = 0.8
    steps: int = 25
    guidance: float = 4.0
    true_cfg: float = 3.5
    true_cfg_from: int = 5
    negative_prompt: str = ""
    caption_tokens: int = 512
    most_pixels: int = 2**21
    dtype: str = "auto"  # bfloat16 on a GPU, float32 elsewhere
    device: str = "auto"
    offload: str = "none"

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            kinds = int if isinstance(least, int) else (int, float)
            # Written so that NaN fails the check.
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                kind = "a whole number" if isinstance(least, int) else "a number"
                raise InputError(f"FLUX: {name} is {value!r}; expected {kind}, at least {least:g}")
        for name in ("model", "controlnet", "negative_prompt", "dtype", "device"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"FLUX: {name} is {getattr(self, name)!r}; expected text")
        if self.offload not in OFFLOADS:
            raise InputError(
                f"FLUX: offload is '{self.offload}'; expected one of {', '.join(OFFLOADS)}"
            )


_LEAST: dict[str, float] = {
    "steps": 1,
    "true_cfg_from": 0,
    "most_pixels": 256,
    "caption_tokens": 8,
    "control_weight": 0.0,
    "guidance": 0.0,
    "true_cfg": 1.0,
}


def drawing_size(width: int, height: int, multiple: int, most_pixels: int) -> tuple[int, int]:
    """The nearest size the pipeline can draw: sides are multiples, the area at most ``most_pixels``."""
    shrunk = min(1.0, (most_pixels / (width * height)) ** 0.5)
    sides = (max(1, round(side * shrunk / multiple)) * multiple for side in (width, height))
    wide, high = sides
    return wide, high


# The exact renderer: redraws a procedural scene with the fewest changes that make the answer right.


class SceneRenderer:
    """Draws twins of a benchmark that heldout rendered itself; it needs no model and no caption."""

    name = "scene"

    def __init__(self, folder: str | Path) -> None:
        """``folder``: where the benchmark's table and ``scenes.jsonl`` lie, or one of these files."""
        folder = Path(folder)
        self._folder = folder.parent if folder.is_file() else folder
        if not self._folder.is_dir():
            raise InputError(
                f"{self._folder} does not exist: name the folder of a rendered benchmark"
            )
        self._drawn = read_scenes(self._folder)

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"renderer": self.name, "version": 1}

    def render(self, task: RenderTask) -> Image.Image:
        drawn = self._scene(task)
        probe = read_question(task.question)
        if probe is None:
            raise RenderError("no question about a scene", f"'{task.question:.120}'")
        right = probe.answer(drawn.scene)
        if right != task.old_answer:
            raise RenderError(
                "the old answer is wrong",
                f"'{task.question}' is {right!r} on the original, not {task.old_answer!r:.60}",
            )
        try:
            scene = twin_scene(drawn.scene, probe, task.new_answer)
        except NoTwinError as error:
            raise RenderError(error.reason, error.detail) from error
        return render(scene, drawn.size)

    def _scene(self, task: RenderTask) -> DrawnScene:
        """By the picture's name, where the name is the table's; any other way, by its pixels."""
        pixels = pixel_digest(task.original)
        drawn = self._drawn.get(task.image_name)
        if drawn is None or drawn.pixels != pixels:
            drawn = next(
                (
                    drawn_scene
                    for drawn_scene in self._drawn.values()
                    if drawn_scene.pixels == pixels
                ),
                drawn,
            )
        if drawn is None:
            raise RenderError(
                "no picture of a scene", f"{task.image_name} is not in {self._folder.name}"
            )
        # Drawn again and compared: another version of the renderer would change more than the answer.
        if pixel_digest(render(drawn.scene, drawn.size)) != pixels:
            raise RenderError(
                "not the picture of its scene",
                f"{task.image_name}: its pixels are not those drawn from its scene",
            )
        return drawn
