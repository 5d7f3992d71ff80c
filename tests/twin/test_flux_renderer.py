"""FLUX's own pipeline and ControlNet, with tiny random weights: drawn through the product's loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from heldout.errors import InputError
from heldout.twin.edges import canny
from heldout.twin.flux_renderer import FluxRenderer
from heldout.twin.renderers import FluxSettings, Renderer, RenderError, RenderTask, drawing_size

STEPS = 7


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Loaded where tests run, not where they are collected: it takes seconds."""
    pytest.importorskip("torch")
    pytest.importorskip("diffusers", reason="diffusers is not installed on this platform's suite")
    pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    import tiny_flux

    folder = tmp_path_factory.mktemp("flux")
    return {
        "model": tiny_flux.save_flux(folder / "flux"),
        "hint": tiny_flux.save_controlnet(folder / "hint", hint=True),
        "encoded": tiny_flux.save_controlnet(folder / "encoded", hint=False),
    }


def load(weights: dict[str, Path], controlnet: str = "hint", **changed: Any) -> FluxRenderer:
    names = {"model": str(weights["model"]), "controlnet": str(weights[controlnet])}
    return FluxRenderer.load(FluxSettings(**{"steps": STEPS, "device": "cpu", **names, **changed}))


@pytest.fixture(scope="module")
def renderer(weights: dict[str, Path]) -> FluxRenderer:
    return load(weights)


@pytest.fixture(scope="module")
def other(weights: dict[str, Path], renderer: FluxRenderer) -> Callable[..., FluxRenderer]:
    """Other settings over weights that are loaded once."""
    loaded = {"hint": renderer, "encoded": load(weights, "encoded")}

    def make(kind: str = "hint", **changed: Any) -> FluxRenderer:
        whole = loaded[kind]
        return FluxRenderer(whole._pipeline, replace(whole._chosen, **changed))

    return make


def task(**changed: Any) -> RenderTask:
    original = Image.new("RGB", (50, 37), "white")
    ImageDraw.Draw(original).ellipse((10, 5, 40, 30), fill="black")
    values: dict[str, Any] = {
        "id": "1",
        "image_name": "1.png",
        "original": original,
        "edges": canny(original),
        "caption": "a red circle",
        "question": "What colour?",
        "old_answer": "black",
        "new_answer": "red",
        "seed": 7,
    }
    return RenderTask(**{**values, **changed})


def calls(renderer: FluxRenderer, one: RenderTask) -> Counter[str]:
    """How often the transformer and the ControlNet were run for one picture."""
    counted: Counter[str] = Counter()
    handles = [
        getattr(renderer._pipeline, name).register_forward_hook(
            lambda *_, name=name: counted.update([name])
        )
        for name in ("transformer", "controlnet", "text_encoder_2")
    ]
    renderer.render(one)
    for handle in handles:
        handle.remove()
    return counted


def test_the_defaults_are_those_of_the_paper() -> None:
    chosen = FluxSettings()
    assert (chosen.control_weight, chosen.steps, chosen.guidance) == (0.8, 25, 4.0)
    assert (chosen.true_cfg, chosen.true_cfg_from) == (3.5, 5)


def test_a_picture_of_the_originals_size_that_follows_from_the_seed(
    renderer: FluxRenderer,
) -> None:
    contract: Renderer = renderer
    one, again, other = (contract.render(task(seed=seed)) for seed in (7, 7, 8))
    assert (one.mode, one.size) == ("RGB", (50, 37))
    assert one.tobytes() == again.tobytes()
    assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize("kind", ["hint", "encoded"])
def test_edges_caption_and_weight_matter(kind: str, other: Callable[..., FluxRenderer]) -> None:
    strong, none = other(kind, true_cfg=1.0), other(kind, control_weight=0.0)
    empty = Image.new("L", (50, 37))
    assert strong.render(task()).tobytes() != strong.render(task(edges=empty)).tobytes()
    assert strong.render(task()).tobytes() != strong.render(task(caption="two")).tobytes()
    if kind == "hint":  # the other kind draws a random sample of the edges, and then the noise
        assert none.render(task()).tobytes() == none.render(task(edges=empty)).tobytes()


def test_true_guidance_starts_at_its_step(
    other: Callable[..., FluxRenderer], renderer: FluxRenderer
) -> None:
    renderer.render(task())  # encodes the negative prompt once and for all
    counted = calls(renderer, task())
    assert counted["transformer"] == STEPS + (STEPS - 5)
    assert (counted["controlnet"], counted["text_encoder_2"]) == (STEPS, 1)
    for changed, expected in (
        ({"true_cfg_from": 0}, 2 * STEPS),
        ({"true_cfg_from": STEPS}, STEPS),
        ({"true_cfg": 1.0}, STEPS),
    ):
        assert calls(other(**changed), task())["transformer"] == expected


@pytest.mark.parametrize("kind", ["hint", "encoded"])
def test_two_calls_go_the_way_of_one(kind: str, other: Callable[..., FluxRenderer]) -> None:
    """Guidance of one adds nothing: stopping and going on must not change the picture."""
    import torch

    whole = other(kind, true_cfg=1.0)
    cut = other(kind, true_cfg=1.0 + 1e-7, true_cfg_from=3)
    assert calls(cut, task())["transformer"] == STEPS + STEPS - 3
    with torch.no_grad():
        one, two = (np.asarray(made.render(task()), dtype=int) for made in (whole, cut))
    assert np.abs(one - two).max() <= 1
    assert one.std() > 1


def test_the_guided_steps_change_the_picture(other: Callable[..., FluxRenderer]) -> None:
    pictures = {start: other(true_cfg_from=start).render(task()).tobytes() for start in (0, 5, 7)}
    assert len(set(pictures.values())) == 3


def test_settings_tell_everything_and_fit_json(renderer: FluxRenderer) -> None:
    import json

    told = json.loads(json.dumps(dict(renderer.settings)))
    assert told["renderer"] == "flux"
    assert (told["dtype"], told["device"], told["steps"]) == ("float32", "cpu", STEPS)
    assert told["true_cfg_from"] == 5


def test_captions_that_cannot_be_read_whole_are_refused(renderer: FluxRenderer) -> None:
    for reason, caption in {"caption too long": "a red star " * 200, "no caption": "  "}.items():
        with pytest.raises(RenderError) as caught:
            renderer.render(task(caption=caption))
        assert caught.value.reason == reason


def test_a_picture_too_large_for_the_memory_is_dropped_unless_none_fits(
    other: Callable[..., FluxRenderer],
) -> None:
    import torch

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    one = other(steps=1)
    handle = one._pipeline.transformer.register_forward_pre_hook(full)
    with pytest.raises(InputError, match="offload=model"):
        one.render(task())
    handle.remove()
    one.render(task())
    handle = one._pipeline.transformer.register_forward_pre_hook(full)
    with pytest.raises(RenderError, match="48 x 32") as caught:
        one.render(task())
    handle.remove()
    assert caught.value.reason == "out of memory"


@pytest.mark.parametrize(
    ("size", "most", "expected"),
    [
        ((50, 37), 2**21, (48, 32)),
        ((5, 4000), 2**21, (16, 4000)),
        ((640, 480), 2**21, (640, 480)),
        ((4000, 3000), 2**20, (1184, 880)),
    ],
)
def test_sizes_are_the_nearest_that_can_be_drawn(
    size: tuple[int, int], most: int, expected: tuple[int, int]
) -> None:
    assert drawing_size(*size, 16, most) == expected


def test_missing_weights_say_what_to_do(weights: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"hf auth login") as caught:
        load({**weights, "model": tmp_path / "nothing"})
    assert "nothing" in str(caught.value)
    with pytest.raises(InputError, match="FluxControlNetModel"):
        load({**weights, "hint": tmp_path})


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"steps": 2.5},
        {"steps": "many"},
        {"true_cfg": float("nan")},
        {"offload": "disk"},
        {"dtype": "int8"},
        {"negative_prompt": 7},
    ],
)
def test_settings_that_mean_nothing_are_refused(
    wrong: dict[str, Any], weights: dict[str, Path]
) -> None:
    with pytest.raises(InputError, match="FLUX"):
        load(weights, **wrong)
