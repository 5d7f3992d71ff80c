"""Letters across a copy are set aside; an object that was changed is not."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont, ImageOps

from heldout.overlap.images._agreement import Frame
from heldout.overlap.images._lettering import is_lettering
from heldout.overlap.images._marks import without_marks
from heldout.overlap.images.features import Floats
from heldout.overlap.images.register import TOO_SMALL, register
from heldout.scenes import compound

pytestmark = pytest.mark.skipif(
    find_spec("cv2") is None, reason="registration needs the extra 'vision'"
)
COPIES = ("same image", "transformed copy")


def blobs(seed: int, size: tuple[int, int] = (320, 300)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, size[::-1], dtype=np.uint8)
    smooth = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(4))
    return ImageOps.autocontrast(smooth).convert("RGB")


def jpeg(image: Image.Image) -> Image.Image:
    stored = io.BytesIO()
    image.save(stored, "JPEG", quality=80)
    return Image.open(io.BytesIO(stored.getvalue()))


@pytest.mark.parametrize("ink", ["white", "black", (200, 30, 30)])
def test_words_across_a_picture_are_a_watermark(ink: str | tuple[int, int, int]) -> None:
    picture, marked = blobs(1), blobs(1)
    font = ImageFont.load_default(size=30.0)
    ImageDraw.Draw(marked).text((40, 120), "SAMPLE COPY", fill=ink, font=font)
    registration = register(picture, marked)
    assert registration.relation in COPIES
    assert "watermarked" in registration.transform
    assert "changed in part" not in registration.transform


def test_a_letter_in_the_corner_is_a_label() -> None:
    picture, marked = blobs(2), blobs(2)
    ImageDraw.Draw(marked).text((10, 10), "A", fill="white", font=ImageFont.load_default(size=24.0))
    registration = register(picture, marked)
    assert registration.relation in COPIES
    assert "changed in part" not in registration.transform


@pytest.mark.parametrize("level", [0, 128, 255])
def test_an_object_painted_in_is_a_change(level: int) -> None:
    picture, changed = blobs(3), blobs(3)
    ImageDraw.Draw(changed).ellipse((140, 120, 185, 165), fill=(level,) * 3)
    registration = register(picture, changed)
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def test_words_in_the_place_of_other_words_are_a_change() -> None:
    def page(words: str) -> Image.Image:
        sheet = blobs(4)
        pen = ImageDraw.Draw(sheet)
        pen.rectangle((20, 110, 300, 160), fill="white")
        pen.text((30, 115), words, fill="black", font=ImageFont.load_default(size=32.0))
        return sheet

    registration = register(page("ALPHA BETA"), page("GAMMA ZETA"))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def _compressed(picture: Image.Image, quality: int = 85) -> Image.Image:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return Image.open(io.BytesIO(buffer.getvalue())).convert("RGB")


def test_an_ink_between_light_and_dark_is_one_ink() -> None:
    """Grey words are darker than light ground and lighter than dark ground."""
    picture, marked = blobs(21), blobs(21)
    font = ImageFont.load_default(size=22.0)
    ImageDraw.Draw(marked).text((60, 140), "Archive 2019", fill=(128,) * 3, font=font)
    registration = register(picture, _compressed(marked, 92))
    assert registration.relation in COPIES
    assert registration.transform == "watermarked"


def _light_scene() -> Image.Image:
    """Hardly any texture but for two things, as in a rendered scene."""
    ground = np.asarray(blobs(22, (224, 224)), np.float32) / 16 + 225
    scene = Image.fromarray(ground.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(scene)
    pen.ellipse((20, 30, 60, 70), fill=(40, 90, 180))
    pen.rectangle((150, 160, 190, 200), fill=(200, 60, 50))
    return scene


@pytest.mark.parametrize("ink", [0, 255])
def test_large_words_that_shine_through_are_a_watermark_on_plain_ground(ink: int) -> None:
    stamp = Image.new("L", (224, 224))
    font = ImageFont.load_default(size=46.0)
    ImageDraw.Draw(stamp).text((8, 90), "PREVIEW", fill=110, font=font)
    marked = _light_scene()
    marked.paste((ink,) * 3, (0, 0), stamp)
    registration = register(_light_scene(), marked)
    assert registration.relation in COPIES
    assert registration.transform == "watermarked"


@pytest.mark.parametrize("levels", [6, -6])
def test_a_faint_thing_in_a_picture_that_was_never_compressed_is_a_change(levels: int) -> None:
    pixels = np.asarray(blobs(23), np.int16).copy()
    y, x = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    pixels[np.hypot(y - 150, x - 160) < 14] += levels
    changed = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    registration = register(blobs(23), changed)
    assert registration.relation not in COPIES or "changed in part" in registration.transform


@pytest.mark.parametrize("seed", [24, 25])
def test_a_chart_with_other_values_is_no_watermarked_copy(seed: int) -> None:
    """All bars are longer: strokes of one ink in a row, but no letters."""

    def chart(longer: int) -> Image.Image:
        sheet = blobs(seed, (360, 280)).point(lambda level: 200 + level // 6)
        pen = ImageDraw.Draw(sheet)
        heights = np.random.default_rng(seed).integers(60, 120, 8)
        for place, height in enumerate(heights.tolist()):
            left = 30 + 38 * place
            pen.rectangle((left, 250 - height - longer, left + 13, 250), fill=(31, 80, 150))
        return sheet

    registration = register(chart(0), chart(50))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def test_bars_that_all_became_higher_are_no_letters() -> None:
    def chart(heights: tuple[float, ...]) -> Image.Image:
        page = Image.new("RGB", (640, 480), "white")
        pen = ImageDraw.Draw(page)
        font = ImageFont.load_default(size=14.0)
        for tick in range(6):
            y = 420 - 74 * tick
            pen.line((70, y, 610, y), fill=(220, 220, 220))
            pen.text((36, y - 8), f"{20 * tick}", fill="black", font=font)
        pen.line((70, 50, 70, 420, 610, 420), fill="black", width=2)
        pen.text((250, 18), "Accuracy by group", fill="black", font=font)
        for place, height in enumerate(heights):
            x = 83 + 90 * place
            pen.rectangle((x, 420 - 3.7 * height, x + 30, 420), fill=(31, 119, 180))
            pen.text((x + 24, 426), "ABCDEF"[place], fill="black", font=font)
        return page

    ours = chart((60.5, 60.5, 67, 87, 33, 41))
    registration = register(ours, chart((70.5, 87, 91, 88.5, 36, 55.5)))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


@pytest.mark.parametrize("values", [(29, 26), (35, 33), (47, 44), (18, 23), (60, 58)])
def test_a_bar_that_became_lower_with_its_figure_is_no_mark(values: tuple[int, int]) -> None:
    """Its end is of the ground's own colour now, and the figure stands a little lower."""

    def chart(value: int) -> Image.Image:
        page = Image.new("RGB", (560, 400), "white")
        pen = ImageDraw.Draw(page)
        font = ImageFont.load_default(size=18.0)
        pen.line((50, 350, 540, 350), fill=0, width=2)
        pen.line((50, 50, 50, 350), fill=0, width=2)
        colours = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee")
        for place, height in enumerate((88, 43, value, 15, 53)):
            left, top = 70 + place * 95, 350 - 3 * height
            pen.rectangle((left, top, left + 60, 350), fill=colours[place])
            pen.text((left + 10, top - 20), str(height), fill=0, font=font)
        return page

    registration = register(chart(values[0]), jpeg(chart(values[1])))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def test_a_label_close_to_the_rim_of_a_dark_panel_is_no_change() -> None:
    panel = blobs(26, (280, 280))
    dark = Image.new("RGB", panel.size)
    mask = Image.new("L", panel.size)
    ImageDraw.Draw(mask).ellipse((40, 40, 240, 240), fill=255)
    dark.paste(panel, (0, 0), mask)
    page = Image.new("RGB", (620, 320))
    page.paste(blobs(27, (280, 280)), (20, 20))
    page.paste(dark, (320, 20))
    ImageDraw.Draw(page).text((323, 21), "B", fill="white", font=ImageFont.load_default(size=18.0))
    registration = register(dark, _compressed(page))
    assert registration.relation in COPIES
    assert "changed in part" not in registration.transform


def _tiny(picture: Image.Image) -> Image.Image:
    return picture.resize((32, 32), Image.Resampling.LANCZOS)


def _dyed(picture: Image.Image) -> Image.Image:
    return ImageOps.colorize(picture.convert("L"), "navy", "orange")


def test_a_tiny_copy_is_found_and_a_tiny_look_alike_is_not() -> None:
    picture = blobs(5, (128, 128))
    moved = picture.crop((4, 0, 128, 124))
    assert register(_tiny(_dyed(picture)), _tiny(_dyed(moved))).relation in COPIES
    assert register(_tiny(picture), _tiny(moved)).relation in COPIES
    other = _dyed(Image.blend(picture, blobs(6, (128, 128)), 0.25))
    registration = register(_tiny(_dyed(picture)), _tiny(other))
    assert registration.relation not in COPIES
    assert registration.reason in ("", TOO_SMALL)


def soft_spot(picture: Image.Image, levels: int, width: float = 14.0) -> Image.Image:
    """The same with a place that is lighter and has no edge."""
    down, across = np.mgrid[: picture.height, : picture.width]
    spot = np.exp(-((across - 170) ** 2 + (down - 140) ** 2) / (2 * width**2))
    greys = np.asarray(picture, np.float32) + levels * spot[..., None]
    return Image.fromarray(np.clip(greys, 0, 255).astype(np.uint8))


@pytest.mark.parametrize("levels", [-25, 16, 40])
def test_an_opacity_without_an_edge_is_a_change(levels: int) -> None:
    picture = ImageOps.autocontrast(blobs(6).point(lambda level: 60 + level // 2), cutoff=0)
    registration = register(picture, soft_spot(picture, levels))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def test_another_tone_is_no_change_in_part() -> None:
    picture = blobs(7)
    lighter = picture.point(lambda level: round(255 * (level / 255) ** 0.7))
    sharper = picture.filter(ImageFilter.UnsharpMask(2, 80, 2))
    for copy in (lighter, sharper, picture.filter(ImageFilter.GaussianBlur(2))):
        registration = register(picture, copy)
        assert registration.relation in COPIES
        assert "changed in part" not in registration.transform


def test_a_panel_that_agrees_does_not_hide_the_rest() -> None:
    """Two things on white paper are cut apart like panels; what the other shows counts, too."""

    def page(seed: int) -> Image.Image:
        sheet = Image.new("RGB", (420, 200), "white")
        sheet.paste(blobs(8, (256, 180)), (10, 10))
        sheet.paste(blobs(seed, (120, 180)), (286, 10))
        return sheet

    registration = register(page(9), page(10))
    assert registration.relation not in COPIES or "changed in part" in registration.transform


def test_burnt_in_words_that_became_softer_are_no_change_beside_a_panels_letter(
    shared_data: Path,
) -> None:
    names = ("synpic31232", "synpic22874", "synpic21028")
    films = [
        Image.open(shared_data / f"vqa_rad/images/{name}.jpg").convert("RGB") for name in names
    ]
    figure = compound(films[0], np.random.default_rng(0), [*films[1:], films[1]], count=4)
    registration = register(films[0], figure)
    assert registration.relation in COPIES
    assert "watermarked" in registration.transform and "in part" not in registration.transform


def test_edges_that_became_softer_are_no_letters_beside_a_changed_object() -> None:
    """A bright bar that was resampled differs at its rim, in a few thin pieces: no word with the object above it."""
    import cv2

    draw = np.random.default_rng(3)
    ground = cv2.GaussianBlur(draw.normal(0, 1, (225, 352)).astype(np.float32), (0, 0), 3)
    ours = 60 + 18 * ground / ground.std()
    ours[200:206, 40:320] = 240
    theirs = ours.copy()
    theirs[199, 172:185] = 120 + ours[199, 172:185] / 2
    for left in (158, 190):
        theirs[200, left : left + 6] = 105
    theirs = cv2.GaussianBlur(theirs, (0, 0), 0.5) + draw.normal(0, 1.5, ours.shape)

    def frame(candidate: Floats) -> Frame:
        everywhere = np.ones(ours.shape, bool)
        return Frame(ours, candidate.astype(np.float32), everywhere, 1.0, 1.0, np.eye(3), 1.0, 1.0)

    down, across = np.mgrid[: ours.shape[0], : ours.shape[1]]
    spot = ((across - 179) / 5) ** 2 + ((down - 78) / 7) ** 2 <= 1
    assert without_marks(cv2, frame(np.where(spot, theirs + 55, theirs)), False) is None
    page = Image.new("L", ours.shape[::-1])
    ImageDraw.Draw(page).text((120, 60), "SAMPLE", fill=255, font=ImageFont.load_default(size=24.0))
    marked = without_marks(cv2, frame(np.maximum(theirs, np.asarray(page, np.float32))), False)
    assert marked is not None and marked.worst == 0 and marked.veiled > 0


def test_a_panels_letter_and_a_thing_far_from_it_are_no_word() -> None:
    """Any two things lie in a row: a letter in the corner made a word of the vessels of a piece pasted in."""
    picture, changed = blobs(5), blobs(5)
    drawn = ImageDraw.Draw(changed)
    for x, y in ((210, 200), (238, 196), (224, 214), (212, 232), (240, 230)):
        drawn.arc((x, y, x + 14, y + 14), 20, 200, fill="white", width=3)
    assert "changed in part" in register(picture, changed).transform
    drawn.text((10, 10), "A", fill="white", font=ImageFont.load_default(size=24.0))
    assert "changed in part" in register(picture, changed).transform


@pytest.mark.parametrize("quality", [75, 92])
def test_a_jpeg_that_is_stored_once_more_is_the_same_image(shared_data: Path, quality: int) -> None:
    """Most of its pixels stay the same to the last level; blocks all over the picture do not."""
    film = Image.open(shared_data / "vqa_rad/images/synpic51426.jpg").convert("RGB")
    registration = register(film, _compressed(film, quality))
    assert registration.relation == "same image"
    changed = np.asarray(film, np.int16).copy()
    changed[120:140, 120:140] += 14
    edited = _compressed(Image.fromarray(changed.clip(0, 255).astype(np.uint8)), quality)
    assert "changed in part" in register(film, edited).transform


def test_points_that_lie_about_in_a_row_are_no_word() -> None:
    """Five points of a plot that are gone: thin, of one ink and on a line, but not beside each other."""
    import cv2

    points, word = np.zeros((512, 512), np.uint8), np.zeros((512, 512), np.uint8)
    for x, y in ((50, 250), (150, 262), (260, 245), (370, 258), (470, 250)):
        cv2.circle(points, (x, y), 5, 1, -1)
    cv2.putText(word, "S A M P L E", (40, 250), cv2.FONT_HERSHEY_SIMPLEX, 1.0, 1, 2)
    found = [is_lettering(cv2, ink > 0, ink * 120.0, True) for ink in (points, word)]
    assert found == [False, True]


def test_a_few_specks_of_one_size_in_a_row_are_no_word() -> None:
    """Four windows of a house at night that are dark now, too small to have corners; letters differ in size."""
    import cv2

    windows, short, long = (np.zeros((252, 252), np.uint8) for _ in range(3))
    for x in (84, 92, 100, 108):
        windows[96:104, x : x + 5] = 1
        windows[[96, 97, 102, 103], x] = windows[[96, 97, 102, 103], x + 4] = 0
    windows[96, 86:88] = 0  # compression eats at them
    for text, ink in (("t i m e", short), ("n n n n n n n n", long)):
        cv2.putText(ink, text, (40, 98), cv2.FONT_HERSHEY_SIMPLEX, 0.35, 1, 1)
    found = [is_lettering(cv2, ink > 0, ink * 120.0, True) for ink in (windows, short, long)]
    assert found == [False, True, True]
