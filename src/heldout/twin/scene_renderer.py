"""The exact renderer: redraws a procedural scene with the fewest changes that make the answer right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from heldout.errors import InputError
from heldout.image import pixel_digest
from heldout.scenes import DrawnScene, NoTwinError, read_question, read_scenes, render, twin_scene
from heldout.twin.renderers import RenderError, RenderTask


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
