"""Registration on real radiographs: copies are found and named, other pictures are not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from aligned_panel import aligned_panel
from heldout.overlap.images.features import cheap_features
from heldout.overlap.images.register import register
from heldout.overlap.relations import CHANGED

pytestmark = pytest.mark.skipif(
    find_spec("cv2") is None, reason="registration needs the extra 'vision'"
)

CHEST = "vqa_rad/images/synpic29265.jpg"
HEAD = "slake/images/xmlab441.jpg"


@cache
def radiograph(data: Path, name: str) -> Image.Image:
    image = Image.open(data / name).convert("RGB")
    image.thumbnail((512, 512))  # the tests must be quick; registration does not care
    return image


@pytest.fixture
def chest(shared_data: Path) -> Image.Image:
    return radiograph(shared_data, CHEST)


def test_a_picture_is_the_same_image_as_itself(chest: Image.Image) -> None:
    found = register(chest, chest.copy())
    assert (found.relation, found.transform, found.pose) == ("same image", "none", "upright")
    assert found.overlap[0] > 0.99 and found.residual < 0.001 and found.is_copy
    assert np.allclose(found.warp, np.eye(3), atol=0.01)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (ImageOps.mirror, "flipped horizontally"),
        (ImageOps.flip, "flipped vertically"),
        (lambda image: image.rotate(90, expand=True), "rotated 90°"),
        (lambda image: image.rotate(270, expand=True), "rotated 270°"),
        (lambda image: image.rotate(45, Image.Resampling.BILINEAR), "rotated 45°"),
        (ImageOps.invert, "inverted"),
        (lambda image: ImageOps.invert(ImageOps.mirror(image)), "flipped horizontally, inverted"),
        (lambda image: image.resize((256, 256)), "resized"),
        (lambda image: image.crop((60, 60, 420, 420)), "cropped to"),
        (lambda image: image.filter(ImageFilter.GaussianBlur(3)), "blurred"),
        (lambda image: ImageOps.expand(image, 40, (255, 255, 255)), "with a border"),
        (lambda image: ImageOps.colorize(image.convert("L"), "black", "red"), "coloured"),
    ],
)
def test_a_transformed_copy_is_found_and_its_transform_named(chest, change, words) -> None:
    found = register(chest, change(chest))
    assert found.relation == "transformed copy"
    assert words in found.transform
    assert found.inverted == ("inverted" in words)


def test_the_warp_takes_query_pixels_to_candidate_pixels(chest: Image.Image) -> None:
    found = register(chest, chest.crop((60, 30, 460, 400)))
    x, y, depth = np.array(found.warp) @ [260.0, 230.0, 1.0]
    assert (x / depth, y / depth) == pytest.approx((200.0, 200.0), abs=0.7)


def test_a_panel_of_a_compound_figure_is_found_where_it_is(shared_data: Path) -> None:
    picture, other = radiograph(shared_data, HEAD), radiograph(shared_data, CHEST)
    page = Image.new("RGB", (760, 510), "white")
    for index in range(6):
        panel = picture if index == 4 else other
        page.paste(panel.resize((240, 240)), (10 + index % 3 * 250, 10 + index // 3 * 250))
    found = register(picture, page)
    assert found.relation == "transformed copy"
    assert "(panel at 260,260,240,240)" in found.transform
    assert found.overlap[1] == pytest.approx(240 * 240 / (760 * 510), rel=0.05)
    back = register(page, picture)
    assert back.relation == "transformed copy" and "compound" in back.transform


@pytest.mark.parametrize("name", ["synpic23130", "synpic52248"])
@pytest.mark.parametrize("across", [True, False])
def test_a_panel_is_seen_in_its_own_size_where_the_page_was_made_smaller(
    shared_data: Path, name: str, across: bool
) -> None:
    films = shared_data / "vqa_rad/images"
    picture, other = (
        Image.open(films / f"{film}.jpg").convert("RGB") for film in (name, "synpic54610")
    )
    (width, height), gutter = picture.size, round(0.03 * max(picture.size))
    beside = (width + 2 * gutter, gutter) if across else (gutter, height + 2 * gutter)
    page = Image.new("RGB", (beside[0] + width + gutter, beside[1] + height + gutter), "white")
    page.paste(other.resize(picture.size), (gutter, gutter))
    page.paste(picture, beside)
    pen = ImageDraw.Draw(page)
    letter = ImageFont.load_default(size=0.06 * min(picture.size))
    pen.text((beside[0] + 2, beside[1] + 1), "B", "white", letter, stroke_width=1, stroke_fill=0)
    found = register(picture, page)
    assert found.is_copy and CHANGED not in found.transform
    place = (beside[0] + 2 * width // 5, beside[1] + 2 * height // 5)
    pen.ellipse((*place, place[0] + 22, place[1] + 18), fill=(150, 150, 150))
    edited = register(picture, page)
    assert not edited.is_copy or CHANGED in edited.transform


def test_white_noise_is_no_other_picture(chest: Image.Image) -> None:
    pixels = np.asarray(chest, dtype=np.float32)
    noise = np.random.default_rng(1).normal(0, 12.0, (*pixels.shape[:2], 1))
    noisy = Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))
    assert register(chest, noisy).is_copy


def test_a_local_change_is_named_and_is_not_the_same_image(chest: Image.Image) -> None:
    changed = chest.copy()
    ImageDraw.Draw(changed).text((90, 110), "A 1", fill="white", font_size=60)
    found = register(chest, changed)
    assert found.relation == "transformed copy" and "changed in part" in found.transform


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slake/images/xmlab597.jpg", "slake/images/xmlab598.jpg"),
        ("slake/images/xmlab531.jpg", "slake/images/xmlab69.jpg"),
        ("slake/images/xmlab413.jpg", "slake/images/xmlab414.jpg"),
        ("vqa_rad/images/synpic26697.jpg", "vqa_med_2019/train_images/synpic26696.jpg"),
    ],
)
def test_neighbouring_slices_of_one_study_are_not_one_image(shared_data, one, other) -> None:
    found = register(Image.open(shared_data / one), Image.open(shared_data / other))
    assert found.relation in ("look-alike", "undecided")
    assert found.correlation > 0.93  # greys alone would have called it a copy


def _slices(seed: int) -> list[Image.Image]:
    """Two neighbours of a smooth volume: what one shows has moved on a little in the other."""
    from scipy.ndimage import gaussian_filter

    draw = np.random.default_rng(seed)
    scales = (2.0, 4.0, 8.0)
    volume = sum(s**2 * gaussian_filter(draw.normal(size=(12, 256, 256)), s) for s in scales)
    volume = (volume - volume.min()) / np.ptp(volume) * 255
    return [Image.fromarray(volume[place].astype(np.uint8)) for place in (5, 6)]


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_neighbouring_slices_of_a_fine_volume_are_undecided(seed: int) -> None:
    one, other = _slices(seed)
    found = register(one, other)
    assert (found.relation, found.reason) == ("undecided", "agrees in part")
    assert register(one, _compressed(one, 30)).is_copy


def _compressed(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


@pytest.mark.parametrize("quality", [20, 30])
def test_strong_compression_keeps_a_copy_one(chest: Image.Image, quality: int) -> None:
    assert register(chest, _compressed(chest, quality)).is_copy


@pytest.mark.parametrize(
    ("change", "toned"),
    [
        (lambda image: ImageEnhance.Brightness(image).enhance(0.6), True),
        (lambda image: ImageEnhance.Brightness(image).enhance(1.15), True),
        (lambda image: _compressed(image, 30), False),
        (lambda image: _compressed(image, 92), False),
    ],
)
def test_a_copy_that_became_lighter_or_darker_is_not_called_compressed(
    chest: Image.Image, change: Callable[[Image.Image], Image.Image], toned: bool
) -> None:
    registration = register(chest, change(chest))
    assert registration.is_copy
    assert (registration.transform == "tone changed") is toned


def test_other_patients_and_other_views_are_told_apart(shared_data: Path) -> None:
    chest, head = radiograph(shared_data, CHEST), radiograph(shared_data, HEAD)
    assert register(chest, head).relation == "unrelated"
    xrays = [f"slake/images/xmlab{number}.jpg" for number in (103, 105)]
    first, second = (radiograph(shared_data, name) for name in xrays)
    assert register(first, second).relation in ("look-alike", "unrelated")


def test_features_are_computed_once_and_the_answer_is_the_same(chest: Image.Image) -> None:
    turned = chest.rotate(180)
    query = cheap_features(chest)
    assert register(query, cheap_features(turned)) == register(chest, turned)


def test_the_result_is_json(chest: Image.Image) -> None:
    found = json.loads(json.dumps(register(chest, ImageOps.mirror(chest)).as_json()))
    assert found["relation"] == "transformed copy" and found["pose"] == "flipped horizontally"
    assert np.array(found["warp"]).shape == (3, 3)


def test_blank_and_tiny_pictures_prove_nothing(picture) -> None:
    import io

    blank = Image.new("RGB", (300, 200), (90, 90, 90))
    assert register(blank, blank.copy()).relation == "undecided"
    tiny, other = (Image.open(io.BytesIO(picture(seed))) for seed in (1, 2))
    assert register(tiny, tiny.copy()).relation == "same image"
    assert not register(tiny, other).is_copy


def test_the_panel_shows_query_candidate_on_query_and_difference(chest: Image.Image) -> None:
    found = register(chest, chest.rotate(90, expand=True))
    sheet = np.asarray(aligned_panel(chest, chest.rotate(90, expand=True), found), np.float32)
    width = (sheet.shape[1] - 12) // 3
    left, middle, right = (
        sheet[:, start : start + width] for start in (0, width + 6, 2 * width + 12)
    )
    assert np.abs(left - middle).mean() < 6.0
    assert right.mean() < 12.0


def test_a_photograph_and_its_known_modifications(shared_data: Path) -> None:
    folder = shared_data / "copies"
    original = cheap_features(Image.open(folder / "pdq_bridge_mods/aaa-orig.jpg"))
    for name in ("high-contrast", "blur-a-lot", "square-128x128", "shrink-a-lot"):
        found = register(original, Image.open(folder / f"pdq_bridge_mods/{name}.jpg"))
        assert found.is_copy, name


def test_a_copy_sharpened_until_it_glows_is_one(shared_data: Path) -> None:
    folder = shared_data / "copies/pdq_bridge_mods"
    original, glowing = (
        Image.open(folder / name) for name in ("aaa-orig.jpg", "sharpen-a-lot.jpg")
    )
    assert register(original, glowing).relation == "transformed copy"


@pytest.mark.parametrize("number", [189, 198, 345, 380, 487, 515])
def test_noise_of_a_tenth_of_the_range_is_allowed_for(shared_data: Path, number: int) -> None:
    picture = Image.open(shared_data / f"slake/images/xmlab{number}.jpg").convert("L")
    noise = np.random.default_rng(number).normal(0.0, 25.5, (picture.height, picture.width))
    noisy = np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)
    assert register(picture, Image.fromarray(noisy)).relation == "transformed copy"


@pytest.mark.parametrize("ink", ["white", "black"])
def test_a_translucent_watermark_is_lifted_and_named(chest: Image.Image, ink: str) -> None:
    marked = _veiled(chest, chest, ink)
    for one, other in ((chest, marked), (marked, chest)):
        found = register(one, other)
        assert found.relation == "transformed copy"
        assert "watermarked" in found.transform
        assert "changed in part" not in found.transform


def test_what_was_changed_under_a_watermark_is_not_overlooked(
    chest: Image.Image, shared_data: Path
) -> None:
    other = radiograph(shared_data, "vqa_rad/images/synpic100132.jpg").resize(chest.size)
    changed = chest.copy()
    width, height = chest.size
    box = (width // 6, height // 3, width * 5 // 6, height * 2 // 3)
    changed.paste(other.crop(box), box[:2])
    found = register(chest, _veiled(chest, changed, "white"))
    assert not found.is_copy or "changed in part" in found.transform


def _veiled(like: Image.Image, picture: Image.Image, ink: str) -> Image.Image:
    veil = Image.new("L", like.size, 0)
    place = (like.width // 20, round(like.height * 0.4))
    ImageDraw.Draw(veil).text(place, "SAMPLE", fill=120, font_size=like.width // 5)
    return Image.composite(Image.new("RGB", like.size, ink), picture, veil)


@pytest.mark.parametrize(
    "curve",
    [
        lambda level: 255 * (level / 255) ** 0.5,
        lambda level: 255 * (level / 255) ** 2,
        lambda level: 1.4 * level,
        lambda level: 1.5 * (level - 128) + 128,
    ],
    ids=["gamma 0.5", "gamma 2", "brighter, clipped", "more contrast, clipped"],
)
def test_a_copy_in_another_tone_is_a_copy(
    chest: Image.Image, curve: Callable[[int], float]
) -> None:
    levels = [min(255, max(0, round(curve(level)))) for level in range(256)]
    registration = register(chest, chest.point(levels * 3))
    assert registration.is_copy
    assert "changed in part" not in registration.transform


def test_an_equalised_copy_is_a_copy(shared_data: Path) -> None:
    """The curve has steps of dozens of levels: the mean of what it makes is not what it makes of the mean."""
    film = radiograph(shared_data, "slake/images/xmlab622.jpg")
    assert register(film, ImageOps.equalize(film)).transform == "tone changed"


def _painted(picture: Image.Image) -> Image.Image:
    changed = picture.copy()
    ImageDraw.Draw(changed).ellipse((200, 200, 240, 236), fill=(150, 150, 150))
    return changed


def _lighter(picture: Image.Image) -> Image.Image:
    """Without an edge, and by less than the tone changes."""
    down, across = np.mgrid[: picture.height, : picture.width]
    spot = np.exp(-((across - 220) ** 2 + (down - 220) ** 2) / (2 * 24.0**2))
    greys = np.asarray(picture, np.float32) + 30 * spot[..., None]
    return Image.fromarray(np.clip(greys, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("change", [_painted, _lighter])
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_a_change_in_a_copy_in_another_tone_is_a_change(
    chest: Image.Image, change: Callable[[Image.Image], Image.Image], power: float
) -> None:
    other = change(chest).point([round(255 * (level / 255) ** power) for level in range(256)] * 3)
    registration = register(chest, other)
    assert not registration.is_copy or "changed in part" in registration.transform


@pytest.mark.parametrize(
    ("name", "other"), [("xmlab435.jpg", "xmlab467.jpg"), ("xmlab535.jpg", "xmlab66.jpg")]
)
def test_what_differs_all_over_is_no_mark(shared_data: Path, name: str, other: str) -> None:
    """Heads of other patients: setting aside whatever differs would leave only the black around them."""
    pictures = [Image.open(shared_data / "slake/images" / each) for each in (name, other)]
    assert register(*pictures).relation == "look-alike"


def _drawn_scene() -> Image.Image:
    picture = Image.new("RGB", (224, 224), (196, 190, 178))
    pen = ImageDraw.Draw(picture)
    pen.ellipse((30, 36, 84, 90), fill=(200, 40, 40))
    pen.rectangle((120, 50, 166, 96), fill=(40, 90, 200))
    pen.polygon([(60, 180), (96, 118), (132, 180)], fill=(30, 150, 70))
    pen.rectangle((160, 140, 196, 190), outline=(20, 20, 20), width=4)
    return picture


def test_a_crop_by_whole_pixels_is_a_copy_and_nothing_in_it_was_changed() -> None:
    """Drawings have little but edges: laid a tenth of a pixel off, each of them would look changed."""
    scene = _drawn_scene()
    registration = register(scene, scene.crop((13, 7, 203, 197)))
    assert registration.is_copy and registration.residual == 0
    assert registration.transform.startswith("cropped to")
    assert "changed in part" not in registration.transform


def test_a_faint_change_in_such_a_crop_is_a_change() -> None:
    scene = _drawn_scene()
    changed = scene.copy()
    ImageDraw.Draw(changed).rectangle((124, 54, 140, 70), fill=(48, 98, 204))
    registration = register(scene, changed.crop((13, 7, 203, 197)))
    assert "changed in part" in registration.transform
