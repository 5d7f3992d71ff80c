"""Renderer: what draws the picture of a twin, in which the new answer is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from PIL import Image


@dataclass(frozen=True)
class RenderTask:
    """One picture to draw. What a renderer does not need it leaves unread."""

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
    """A drawing is a function of the task and of ``settings``: the same twice."""

    name: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything the drawing depends on besides the task, fit for JSON."""
        ...

    def render(self, task: RenderTask) -> Image.Image:
        """The twin's picture, RGB, of the original's size. Raises RenderError."""
        ...
