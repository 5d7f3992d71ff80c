"""Pictures of 32 pixels: near-duplicates are found, and what differs in one place is left to people."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageOps

from heldout.overlap.images._small import NO_AGREEMENT, STANDS_OUT, _stands_out, is_recoloured
from heldout.overlap.images.register import register
from heldout.overlap.relations import COPIES, TOO_SMALL, Relation

pytest.importorskip("cv2", reason="registration needs heldout[vision]")


def scene(spot: str = "navy", seed: int = 0) -> Image.Image:
    """Soft colours with a few sharp things on them, at four times the size."""
    rng = np.random.default_rng(seed)
    soft = Image.fromarray(rng.integers(70, 190, (7, 7, 3), dtype=np.uint8))
    picture = soft.resize((128, 128), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(picture)
    for x, y in rng.integers(8, 100, (5, 2)).tolist():
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        pen.ellipse((x, y, x + 20, y + 16), fill=colour)
    pen.rectangle((52, 52, 75, 75), fill=spot)
    return picture


def tiny(picture: Image.Image) -> Image.Image:
    return picture.resize((32, 32), Image.Resampling.LANCZOS)


def near_duplicate(picture: Image.Image) -> Image.Image:
    """Another cut, other light, another size in between, compressed."""
    copy = picture.crop((6, 3, 122, 119)).resize((90, 90), Image.Resampling.BICUBIC)
    copy = ImageEnhance.Contrast(tiny(ImageEnhance.Brightness(copy).enhance(1.1))).enhance(0.9)
    buffer = io.BytesIO()
    copy.save(buffer, "JPEG", quality=90)
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_a_near_duplicate_of_32_pixels_is_found_in_any_pose(seed: int) -> None:
    picture = tiny(scene(seed=seed))
    copy = near_duplicate(scene(seed=seed))
    for theirs in (copy, ImageOps.mirror(copy), copy.rotate(90)):
        registration = register(picture, theirs)
        assert registration.relation in COPIES
        assert not is_recoloured(picture, theirs, registration)


def test_another_picture_of_32_pixels_is_none() -> None:
    others = [tiny(scene(seed=seed)) for seed in range(3, 9)]
    assert not any(register(tiny(scene()), other).is_copy for other in others)


def test_a_thing_that_was_changed_in_32_pixels_leaves_it_undecided() -> None:
    changed = scene("rgb(70,70,150)")
    for theirs in (tiny(changed), near_duplicate(changed)):
        registration = register(tiny(scene()), theirs)
        assert (registration.relation, registration.reason) == (Relation.UNDECIDED, TOO_SMALL)


def test_a_fill_pattern_that_was_changed_in_32_pixels_leaves_it_undecided() -> None:
    plain, checked = scene("rgb(90,90,90)", seed=3), scene("rgb(60,60,60)", seed=3)
    pen = ImageDraw.Draw(checked)
    for x in range(52, 76, 5):
        for y in range(52 + (x - 52) % 2 * 5, 76, 10):
            pen.rectangle((x, y, min(x + 4, 75), min(y + 4, 75)), fill="rgb(120,120,120)")
    assert register(tiny(plain), near_duplicate(plain)).is_copy
    for ours, theirs in ((plain, checked), (checked, plain)):
        registration = register(tiny(ours), near_duplicate(theirs))
        assert (registration.relation, registration.reason) == (Relation.UNDECIDED, TOO_SMALL)


def test_a_colour_that_was_changed_in_32_pixels_is_noticed() -> None:
    red, green = "rgb(200,60,60)", "rgb(20,140,40)"  # of about the same grey
    ours = tiny(scene(red))
    same, theirs = near_duplicate(scene(red)), near_duplicate(scene(green))
    registration = register(ours, same)
    assert registration.is_copy and not is_recoloured(ours, same, registration)
    assert is_recoloured(ours, theirs, registration)


@pytest.mark.parametrize("radius", [9, 11, 13])
@pytest.mark.parametrize(
    ("before", "after"),
    [((120, 60, 180), (190, 50, 60)), ((50, 100, 200), (120, 80, 190))],
)
def test_another_colour_of_one_of_three_things_is_no_change_of_all_colours(
    radius: int, before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    """Two bands with weights of their own bring three things on grey ground to nearly any colours."""

    def things(colour: tuple[int, int, int]) -> Image.Image:
        ground = np.random.default_rng(1).integers(205, 240, (5, 5), dtype=np.uint8)
        picture = Image.fromarray(ground).resize((128, 128), Image.Resampling.BICUBIC)
        picture = picture.convert("RGB")
        pen = ImageDraw.Draw(picture)
        pen.ellipse((25, 22, 45, 42), fill=(35, 35, 45))
        pen.polygon([(60, 25), (96, 25), (78, 54)], fill=(245, 120, 30))
        pen.ellipse((31 - radius, 93 - radius, 31 + radius, 93 + radius), fill=colour)
        return picture

    def darker(picture: Image.Image) -> Image.Image:
        copy = ImageEnhance.Brightness(tiny(picture.crop((0, 0, 124, 124)))).enhance(0.87)
        buffer = io.BytesIO()
        copy.save(buffer, "JPEG", quality=90)
        return Image.open(buffer).convert("RGB")

    ours = tiny(things(before))
    same, changed = (darker(things(colour)) for colour in (before, after))
    registration = register(ours, same)
    assert registration.is_copy and not is_recoloured(ours, same, registration)
    registration = register(ours, changed)
    assert not registration.is_copy or is_recoloured(ours, changed, registration)


def test_a_spot_that_stands_out_from_all_others_leaves_it_undecided() -> None:
    quiet = np.full(400, 0.1, np.float32)
    quiet[7] = 0.9
    noisy = np.linspace(0.1, 0.9, 400, dtype=np.float32)
    assert _stands_out(quiet) > STANDS_OUT >= _stands_out(noisy)
    agreement = replace(
        NO_AGREEMENT,
        detail=0.99,
        left=0.1,
        spot=0.9,
        colour=0.2,
        other_spot=1.2,
        other_colour=0.2,
        other_stands_out=_stands_out(noisy),
        patch=1.0,
        usual=1.0,
        contrast=40.0,
    )
    assert agreement.is_copy
    assert not replace(agreement, other_stands_out=_stands_out(quiet)).is_copy


@pytest.mark.parametrize("number", [44, 534, 604, 613, 618])
def test_neighbouring_slices_at_32_pixels_are_not_called_copies(
    shared_data: Path, number: int
) -> None:
    slices = (
        Image.open(shared_data / f"slake/images/xmlab{place}.jpg").convert("RGB")
        for place in (number, number + 1)
    )
    assert not register(*map(tiny, slices)).is_copy


@pytest.mark.parametrize("number", [595, 597])
@pytest.mark.parametrize("quality", [95, 85, 70])
def test_a_compressed_neighbouring_slice_is_not_called_a_copy(
    shared_data: Path, number: int, quality: int
) -> None:
    ours, theirs = (
        tiny(Image.open(shared_data / f"slake/images/xmlab{place}.jpg").convert("RGB"))
        for place in (number, number + 1)
    )
    buffer = io.BytesIO()
    theirs.save(buffer, "JPEG", quality=quality)
    assert not register(ours, Image.open(buffer)).is_copy
