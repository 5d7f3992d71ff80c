from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from heldout.image import FileOnDisk, ImageRef
from heldout.overlap.images._colours import is_recoloured_in_part
from heldout.overlap.images._hues import turned_back, turned_hue
from heldout.overlap.images._registration import Registration
from heldout.overlap.images.verify import _in_doubt

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

    return is_recoloured_in_part(ours, theirs, register(ours, theirs))


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


def inked(colour: tuple[int, int, int], spot: tuple[int, int, int] | None = None) -> Image.Image:
    """A design in one ink on white, perhaps with a spot of another."""
    picture = Image.new("RGB", (240, 240), "white")
    pen = ImageDraw.Draw(picture)
    pen.rectangle((16, 16, 224, 224), fill=colour)
    for number in range(12):
        x, y = 28 + 50 * (number % 4), 30 + 62 * (number // 4)
        shape = (pen.ellipse, pen.rectangle)[number % 2]
        shape((x, y, x + 30 + number, y + 34 - number), outline="white", width=3 + number % 3)
    if spot is not None:
        pen.ellipse((96, 100, 130, 134), fill=spot)
    return picture


def verified(tmp_path: Path, ours: Image.Image, theirs: Image.Image) -> Registration:
    from heldout.overlap.images.register import register

    ours.save(tmp_path / "ours.png")
    ref = ImageRef("ours", FileOnDisk(str(tmp_path / "ours.png")))
    return _in_doubt(register(ours, theirs), ref, theirs)


def test_a_design_in_another_ink_is_no_copy(tmp_path: Path) -> None:
    found = verified(tmp_path, inked(RED), inked(GREEN))
    assert (found.relation, found.reason) == ("undecided", "recoloured in part")
    assert verified(tmp_path, inked(RED), inked(RED).resize((200, 200))).is_copy


def test_a_spot_of_another_colour_on_a_picture_in_one_tint_is_noticed() -> None:
    assert judged(inked(RED), inked(RED, spot=GREEN))
    assert not judged(inked(RED), inked(RED).convert("L"))


def test_a_copy_in_other_colours_is_no_same_image(tmp_path: Path) -> None:
    ours = scene(RED)
    sepia = ImageOps.colorize(ours.convert("L"), (30, 15, 0), (255, 240, 200))
    found = verified(tmp_path, ours, sepia)
    assert (found.relation, found.transform) == ("transformed copy", "colours changed")
    pale = Image.blend(ours, ours.convert("L").convert("RGB"), 0.1)
    assert verified(tmp_path, ours, pale).relation == "same image"


LIGHT_GREEN, LILAC = (200, 228, 188), (222, 212, 232)  # of about the same grey
LIGHT_GREY, LIGHT_RED = (226, 227, 229), (240, 222, 224)


def town(park: tuple[int, int, int]) -> Image.Image:
    """A plan in pale fills, as maps and tables are; one of them is the park."""
    rng = np.random.default_rng(3)
    picture = Image.new("RGB", (480, 480), (247, 244, 238))
    pen = ImageDraw.Draw(picture)
    for number in range(16):
        x, y = 14 + 116 * (number % 4), 14 + 116 * (number // 4)
        fill = tuple(int(level) for level in rng.integers(150, 250, 3))
        shape = (pen.ellipse, pen.rectangle)[number % 2]
        shape((x, y, x + 98, y + 90), fill=park if number == 6 else fill, outline=(90, 90, 90))
        for _ in range(4):
            left, top = x + int(rng.integers(12, 70)), y + int(rng.integers(12, 64))
            pen.rectangle((left, top, left + 12, top + 9), outline=(60, 60, 60))
    return picture


def compressed(picture: Image.Image, quality: int = 75) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


@pytest.mark.parametrize("fills", [(LIGHT_GREEN, LILAC), (LIGHT_GREY, LIGHT_RED)])
def test_a_fill_exchanged_at_equal_lightness_is_no_copy(
    tmp_path: Path, fills: tuple[tuple[int, int, int], tuple[int, int, int]]
) -> None:
    ours, other = (town(fill) for fill in fills)
    for theirs in (other, compressed(other), other.resize((300, 300))):
        found = verified(tmp_path, ours, theirs)
        assert (found.relation, found.reason) == ("undecided", "recoloured in part")


def test_fills_that_changed_with_all_colours_are_a_copy(tmp_path: Path) -> None:
    ours = town(LIGHT_GREEN)
    warm = ours.point(
        [min(255, round(level * gain)) for gain in (1.1, 1.0, 0.88) for level in range(256)]
    )
    for theirs in (
        compressed(ours),
        compressed(ours, quality=30),
        ours.resize((300, 300)),
        compressed(ours.crop((20, 30, 440, 400))),
        ImageEnhance.Color(ours).enhance(1.8),
        ImageEnhance.Color(ours).enhance(0.5),
        ours.point([round(255 * (level / 255) ** 1.6) for level in range(256)] * 3),
        warm,
        ImageOps.colorize(ours.convert("L"), (30, 15, 5), (255, 240, 205)),
    ):
        assert verified(tmp_path, ours, theirs).is_copy
