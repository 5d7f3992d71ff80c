"""Pictures from an image edit endpoint: a real server that draws, refuses, fails and lies."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from heldout.errors import InputError
from heldout.model.endpoint import Backoff, Connection, EndpointError
from heldout.twin.edit_renderer import EditRenderer, Spent, frame, parse_sizes
from heldout.twin.renderers import Renderer, RenderError, RenderTask

KEY = "sesame-77"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "edit_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.communicate()


@pytest.fixture
def renderer(port: int) -> Callable[..., EditRenderer]:
    def make(how: str = "plain", **changed: Any) -> EditRenderer:
        quick = Backoff(attempts=3, first_seconds=0.01)
        url = f"http://127.0.0.1:{port}/{how}/v1"
        timeout = changed.pop("timeout", 20.0)
        connection = Connection(url, api_key=KEY, timeout=timeout, backoff=quick)
        return EditRenderer(connection, "drawer", **{"sizes": ((96, 64), (64, 96)), **changed})

    return make


@pytest.fixture
def told(port: int) -> Callable[[], Any]:
    def read() -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts") as answer:
            return json.loads(answer.read())

    return read


def task(size: tuple[int, int] = (48, 32), **changed: Any) -> RenderTask:
    """A smooth picture: enlarging it and shrinking it again changes little."""
    across, down = np.meshgrid(np.linspace(30, 220, size[0]), np.linspace(20, 200, size[1]))
    pixels = np.stack([across, down, np.full_like(across, 90)], axis=2).astype(np.uint8)
    values: dict[str, Any] = {
        "id": "1",
        "image_name": "1.png",
        "original": Image.fromarray(pixels),
        "edges": Image.new("L", size),
        "caption": "Zwei Kätzchen.",
        "question": "How many cats?",
        "old_answer": "one",
        "new_answer": "two",
        "seed": 3,
    }
    return RenderTask(**{**values, **changed})


def far(one: Image.Image, other: Image.Image) -> int:
    return int(np.abs(np.asarray(one, dtype=int) - np.asarray(other, dtype=int)).max())


@pytest.mark.parametrize("size", [(48, 32), (32, 48), (96, 64), (50, 50), (200, 40), (7, 90)])
def test_the_answer_comes_back_at_the_originals_place_and_size(
    size: tuple[int, int], renderer: Callable[..., EditRenderer]
) -> None:
    one = task(size)
    contract: Renderer = renderer()
    made = contract.render(one)
    assert (made.mode, made.size) == ("RGB", size)
    smooth = np.asarray(made, dtype=int) - np.asarray(ImageOps.invert(one.original), dtype=int)
    assert np.abs(np.median(smooth)) <= 2
    assert np.abs(smooth).mean() < 6
    assert far(renderer(sizes=()).render(one), ImageOps.invert(one.original)) == 0


def test_the_form_holds_what_the_endpoint_needs(
    renderer: Callable[..., EditRenderer], told: Callable[[], Any]
) -> None:
    renderer(extra={"quality": "high"}).render(task())
    (sent,) = told()["last"]
    assert sent["path"] == "/plain/v1/images/edits"
    assert sent["key"] == f"Bearer {KEY}"
    assert (sent["model"], sent["n"], sent["size"], sent["quality"]) == (
        "drawer",
        "1",
        "96x64",
        "high",
    )
    assert sent["response_format"] == "b64_json"
    for words in ("How many cats?", ": one\n", ": two\n", "Zwei Kätzchen."):
        assert words in sent["prompt"]


def test_tokens_and_pictures_are_counted(renderer: Callable[..., EditRenderer]) -> None:
    one = renderer()
    for _ in range(2):
        one.render(task())
    assert one.spent == Spent(2, 600, 8000)
    with pytest.raises(RenderError):
        (empty := renderer("noise")).render(task())
    assert empty.spent.pictures == 1  # it was paid for


@pytest.mark.parametrize(("how", "asked"), [("busy", 3), ("cut", 2), ("picky", 2), ("inline", 1)])
def test_what_passes_is_asked_again(
    how: str, asked: int, renderer: Callable[..., EditRenderer], told: Callable[[], Any]
) -> None:
    one = renderer(how)
    assert one.render(task()).size == (48, 32)
    assert told()["posted"][how] == asked
    if how == "picky":  # learnt once
        one.render(task())
        assert told()["posted"][how] == asked + 1


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("policy", "refused by the endpoint"),
        ("strict", "refused by the endpoint"),
        ("broken", "the endpoint failed"),
        ("garbage", "the endpoint failed"),
        ("slow", "the endpoint failed"),
        ("empty", "no picture in the answer"),
        ("nothing", "no picture in the answer"),
        ("odd", "no picture in the answer"),
        ("text", "not base64"),
        ("address", "a picture behind an address"),
        ("bomb", "decompression bomb"),
        ("noise", "not an image"),
        ("half", "truncated image"),
        ("square", "a picture of another shape"),
    ],
)
def test_what_fails_has_a_reason(
    how: str, reason: str, renderer: Callable[..., EditRenderer]
) -> None:
    with pytest.raises(RenderError) as caught:
        renderer(how, timeout=0.3 if how == "slow" else 20.0).render(task())
    assert caught.value.reason == reason
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(("how", "words"), [("gone", "is not there"), ("key", "api_key_env")])
def test_what_no_picture_can_pass_ends_the_run(
    how: str, words: str, renderer: Callable[..., EditRenderer]
) -> None:
    with pytest.raises(EndpointError, match=words):
        renderer(how).render(task())


def test_a_server_that_dies_ends_the_run_and_its_pictures_stand(
    renderer: Callable[..., EditRenderer],
) -> None:
    one = renderer("mortal-2")
    for _ in range(2):
        one.render(task())
    with pytest.raises(EndpointError, match="did not answer"):
        one.render(task())
    assert one.spent.pictures == 2


def test_a_broken_server_is_not_asked_for_ever_but_a_prudish_one_is(
    renderer: Callable[..., EditRenderer],
) -> None:
    for how in ("broken", "strict"):
        one = renderer(how)
        for _ in range(4):
            with pytest.raises(RenderError):
                one.render(task())
        with pytest.raises(EndpointError, match=r"\b5 pictures\b"):
            one.render(task())
    prudish = renderer("policy")
    for _ in range(8):
        with pytest.raises(RenderError, match="safety"):
            prudish.render(task())


def test_settings_fit_json_and_hold_no_key(renderer: Callable[..., EditRenderer]) -> None:
    text = json.dumps(dict(renderer().settings))
    assert KEY not in text
    assert json.loads(text)["template"] == "edit/1"


def test_sizes_are_parsed_or_refused() -> None:
    assert parse_sizes("1024x1024, 1536x1024") == ((1024, 1024), (1536, 1024))
    assert parse_sizes("") == ()
    with pytest.raises(InputError, match="WIDTHxHEIGHT"):
        parse_sizes("1024")


def test_the_frame_is_the_one_that_wastes_least() -> None:
    sizes = ((64, 64), (96, 64), (64, 96))
    chosen = {
        size: frame(Image.new("RGB", size), sizes).picture.size
        for size in ((10, 10), (30, 20), (20, 30), (300, 20))
    }
    assert chosen == {
        (10, 10): (64, 64),
        (30, 20): (96, 64),
        (20, 30): (64, 96),
        (300, 20): (96, 64),
    }
