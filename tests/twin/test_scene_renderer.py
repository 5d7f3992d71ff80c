"""The exact renderer draws the twin of its own pictures, and refuses every other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.errors import InputError
from heldout.image import decode, to_rgb
from heldout.scenes import SceneQuestion, WrittenBenchmark, twin_scene, write_benchmark
from heldout.scenes import render as draw
from heldout.twin.edges import canny
from heldout.twin.renderers import Renderer, RenderError, RenderTask, SceneRenderer


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> WrittenBenchmark:
    return write_benchmark(tmp_path_factory.mktemp("scenes") / "bench", images=6, seed=5)


@pytest.fixture
def task(written: WrittenBenchmark) -> Callable[..., RenderTask]:
    def make(image: str, id: str, item: SceneQuestion, **changed: object) -> RenderTask:
        original = to_rgb(decode((written.folder / image).read_bytes()))
        wrong = [c for c in item.options or item.probe.choices if c != item.answer]
        values = {
            "id": id,
            "image_name": image,
            "original": original,
            "edges": canny(original),
            "caption": "",
            "question": item.question,
            "old_answer": item.answer,
            "new_answer": wrong[0],
            "seed": 0,
        }
        return RenderTask(**{**values, **changed})  # type: ignore[arg-type]

    return make


def test_every_item_is_drawn_with_its_new_answer_or_says_why_not(
    written: WrittenBenchmark, task: Callable[..., RenderTask]
) -> None:
    renderer: Renderer = SceneRenderer(written.folder)
    drawn = 0
    for image, asked in written.questions.items():
        for id, question in asked:
            one = task(image, id, question)
            try:
                picture = renderer.render(one)
            except RenderError as error:
                assert error.reason == "no room for the change"
                continue
            scene = twin_scene(written.scenes[image], question.probe, one.new_answer)
            assert question.probe.answer(scene) == one.new_answer
            assert picture.tobytes() == draw(scene, 224).tobytes()
            assert (picture.mode, picture.size) == ("RGB", one.original.size)
            assert picture.tobytes() != one.original.tobytes()
            drawn += 1
    assert drawn >= 0.9 * written.items


def test_the_table_or_its_folder_may_be_named_and_a_picture_called_otherwise_is_known(
    written: WrittenBenchmark, task: Callable[..., RenderTask]
) -> None:
    image, asked = next(iter(written.questions.items()))
    id, question = asked[0]
    one = SceneRenderer(written.folder).render(task(image, id, question))
    other = SceneRenderer(written.folder / "test.jsonl").render(
        task(image, id, question, image_name="copy.png")
    )
    assert one.tobytes() == other.tobytes()


def test_other_pictures_and_questions_are_refused_with_a_reason(
    written: WrittenBenchmark, task: Callable[..., RenderTask]
) -> None:
    image, asked = next(iter(written.questions.items()))
    id, question = asked[0]
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    touched = to_rgb(decode((written.folder / image).read_bytes())).copy()
    touched.putpixel((3, 3), (1, 2, 3))
    cases = {
        "not the picture of its scene": {"original": touched},
        "no picture of a scene": {"original": Image.fromarray(noise), "image_name": "x.png"},
        "no question about a scene": {"question": "Why?"},
        "the old answer is wrong": {"old_answer": "a guess"},
        "no such answer": {"new_answer": "a guess"},
        "the same answer": {"new_answer": question.answer},
    }
    renderer = SceneRenderer(written.folder)
    for reason, changed in cases.items():
        with pytest.raises(RenderError) as caught:
            renderer.render(task(image, id, question, **changed))
        assert caught.value.reason == reason


def test_a_scene_that_was_rewritten_is_not_believed(
    written: WrittenBenchmark, task: Callable[..., RenderTask], tmp_path: Path
) -> None:
    text = (written.folder / "scenes.jsonl").read_text()
    (tmp_path / "scenes.jsonl").write_text(text.replace('"striped"', '"dotted"'))
    changed = [
        image
        for image, scene in written.scenes.items()
        if any(item.texture == "striped" for item in scene.objects)
    ]
    renderer = SceneRenderer(tmp_path)
    id, question = written.questions[changed[0]][0]
    with pytest.raises(RenderError, match="not the picture of its scene"):
        renderer.render(task(changed[0], id, question))


def test_a_benchmark_that_heldout_did_not_draw_has_no_scenes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="from a seed"):
        SceneRenderer(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        SceneRenderer(tmp_path / "nowhere")
