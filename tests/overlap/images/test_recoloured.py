from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from heldout.overlap.images._hues import turned_back, turned_hue
from heldout.overlap.images.verify import recoloured_in_part

pytest.importorskip("cv2", reason="registration needs heldout[vision]")


def scene(colour: tuple[int, int, int]) -> Image.Image:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(90, 200, (12, 12, 3), dtype=np.uint8)).resize(
        (240, 240), 3
    )
    draw = ImageDraw.Draw(image)
    for k in range(9):
        draw.ellipse(
            (20 + 70 * (k % 3), 20 + 70 * (k // 3), 60 + 70 * (k % 3), 60 + 70 * (k // 3)),
            outline="black",
            width=3,
        )
    draw.rectangle((100, 100, 135, 135), fill=colour)
    return image


RED, GREEN = (200, 60, 60), (20, 140, 40)  # of about the same grey


def judged(ours: Image.Image, theirs: Image.Image) -> bool:
    from heldout.overlap.images.register import register

    return recoloured_in_part(ours, theirs, register(ours, theirs))


def test_one_recoloured_part_is_noticed() -> None:
    assert judged(scene(RED), scene(GREEN))
    assert judged(scene(RED), ImageOps.mirror(scene(GREEN)))


def test_copies_of_the_whole_are_not_suspected() -> None:
    ours = scene(RED)
    buffer = io.BytesIO()
    ours.save(buffer, "JPEG", quality=40)
    grey = ImageOps.grayscale(ours).convert("RGB")
    for theirs in (
        ours,
        Image.open(buffer),
        ours.resize((130, 130)),
        ImageOps.mirror(ours),
        ours.crop((15, 15, 225, 225)),
        grey,
    ):
        assert not judged(ours, theirs)


def test_a_negative_is_a_copy_of_the_whole_and_may_be_recoloured_in_part() -> None:
    assert not judged(scene(RED), ImageOps.invert(scene(RED)))
    assert judged(scene(RED), ImageOps.invert(scene(GREEN)))


def colourful(turn: int = 0) -> Image.Image:
    picture = scene(RED)
    pen = ImageDraw.Draw(picture)
    for number, colour in enumerate(((220, 180, 30), (40, 90, 210), (160, 50, 190), (30, 150, 60))):
        pen.rectangle((10 + 58 * number, 70, 50 + 58 * number, 100), fill=colour)
    hue, saturation, light = picture.convert("HSV").split()
    turned = hue.point([(step + turn) % 256 for step in range(256)])
    return Image.merge("HSV", (turned, saturation, light)).convert("RGB")


IDENTITY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@pytest.mark.parametrize("turn", [43, 85, 128, 200])
def test_hues_that_are_all_turned_are_turned_back(turn: int) -> None:
    angle = turned_hue(colourful(), colourful(turn), IDENTITY)
    assert angle is not None and abs(angle - turn) <= 2
    back = np.asarray(turned_back(colourful(turn), angle), np.int16)
    assert np.abs(back - np.asarray(colourful(), np.int16)).mean() < 6


def test_one_thing_in_another_colour_is_no_turn_of_hues() -> None:
    changed = colourful()
    ImageDraw.Draw(changed).rectangle((10, 70, 50, 100), fill=(30, 40, 220))
    assert turned_hue(colourful(), changed, IDENTITY) is None
    assert turned_hue(colourful(), colourful(), IDENTITY) is None
    assert turned_hue(scene(RED).convert("L"), scene(GREEN).convert("L"), IDENTITY) is None
