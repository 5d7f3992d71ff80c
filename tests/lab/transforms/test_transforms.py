"""Transforms: what each does, on any picture, the same for the same seed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from lab_pictures import scene
from PIL import Image, ImageChops

from heldout.lab import TRANSFORMS
from heldout.scenes.publishing import LONGEST_FIGURE

SIZES = [(1, 1), (33, 50), (300, 257)]
OTHERS = [scene(seed, 48) for seed in range(90, 95)]


def _noise(size: tuple[int, int], mode: str, seed: int = 0) -> Image.Image:
    shape = (size[1], size[0], 3) if mode in ("RGB", "RGBA") else (size[1], size[0])
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def _same(one: Image.Image, other: Image.Image) -> bool:
    return one.size == other.size and one.mode == other.mode and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_takes_any_picture_and_depends_on_its_seed_alone(name: str) -> None:
    transform = TRANSFORMS[name]
    for mode in ("L", "RGB", "RGBA", "I;16"):
        for size in SIZES:
            image = _noise(size, "L" if mode == "I;16" else mode)
            image = image.convert("I").convert("I;16") if mode == "I;16" else image
            if not transform.applies_to(size):
                continue
            before = image.tobytes()
            made = transform(image, seed=3, key="a", others=OTHERS)
            assert made.mode in ("L", "RGB")
            assert min(made.size) >= 1
            assert _same(made, transform(image, seed=3, key="a", others=OTHERS))
            assert image.tobytes() == before


def test_the_table_holds_the_seeds_transforms_and_what_publishing_does() -> None:
    seeds = [name for name, transform in TRANSFORMS.items() if transform.in_seed]
    assert seeds == [
        "flip-v",
        "flip-h",
        "rot-45",
        "rot-135",
        "rot-225",
        "rot-315",
        "crop-20",
        "crop-50",
        "crop-100",
        "gauss",
        "noise",
        "rs-128",
        "rs-256",
        "gray",
        "invert",
        "red",
        "green",
        "blue",
    ]
    assert {
        "original",
        "rot-90",
        "rot-180",
        "rot-270",
        "crop-half",
        "jpeg-30",
        "jpeg-75",
        "gamma-0.5",
        "gamma-2",
        "bright",
        "contrast",
        "equalize",
        "watermark",
        "border",
        "compound-2",
        "compound-4",
        "compound-6",
    } == set(TRANSFORMS) - set(seeds)


@pytest.mark.parametrize("name", ["noise", "crop-half", "watermark", "border"])
def test_two_pictures_never_get_the_same_draws(name: str) -> None:
    """One noise field on all pictures would make different pictures similar."""
    flat = scene(1, 200)
    made = {TRANSFORMS[name](flat, seed=0, key=key).tobytes() for key in "abcdefgh"}
    assert len(made) > 4
    assert (
        TRANSFORMS[name](flat, seed=1, key="a").tobytes()
        != TRANSFORMS[name](flat, seed=0, key="a").tobytes()
    )


@pytest.mark.parametrize("name", ["flip-v", "flip-h", "rot-180", "invert"])
def test_twice_is_not_at_all(name: str) -> None:
    image = scene(2, 90).crop((0, 0, 90, 61))
    once = TRANSFORMS[name](image)
    assert not _same(once, image)
    assert _same(TRANSFORMS[name](once), image)


def test_turns_go_counterclockwise_and_three_quarters_undo_one() -> None:
    image = scene(3, 90).crop((0, 0, 90, 61))
    turned = TRANSFORMS["rot-90"](image)
    assert turned.size == (61, 90)
    assert turned.getpixel((0, 89)) == image.getpixel((0, 0))
    assert _same(TRANSFORMS["rot-270"](turned), image)
    tilted = TRANSFORMS["rot-45"](image)
    assert tilted.size == image.size
    assert tilted.getpixel((0, 0)) == (0, 0, 0)
    # 225° is 45° upside down.
    difference = ImageChops.difference(
        TRANSFORMS["rot-225"](image), TRANSFORMS["rot-45"](TRANSFORMS["rot-180"](image))
    )
    assert np.asarray(difference).mean() < 2.0


def test_a_crop_removes_its_margin_and_leaves_small_pictures_alone() -> None:
    image = _noise((240, 232), "RGB")
    cropped = TRANSFORMS["crop-100"](image)
    assert _same(cropped, image.crop((100, 100, 140, 132)))
    assert TRANSFORMS["crop-100"].applies_to((232, 900))
    assert not TRANSFORMS["crop-100"].applies_to((900, 231))
    half = TRANSFORMS["crop-half"](image)
    assert half.width * half.height == pytest.approx(240 * 232 / 2, rel=0.01)


def test_downsizing_never_enlarges() -> None:
    assert TRANSFORMS["rs-128"](_noise((300, 200), "L")).size == (192, 128)
    assert not TRANSFORMS["rs-256"].applies_to((256, 900))


def test_noise_has_its_strength() -> None:
    grey = Image.new("L", (300, 300), 128)
    noisy = np.asarray(TRANSFORMS["noise"](grey), dtype=np.float64)
    assert noisy.std() == pytest.approx(25, rel=0.03)
    assert noisy.mean() == pytest.approx(128, abs=0.5)


def test_colours_keep_brightness_and_nothing_else() -> None:
    image = scene(4)
    grey = np.asarray(image.convert("L"))
    for channel, name in enumerate(("red", "green", "blue")):
        pixels = np.asarray(TRANSFORMS[name](image))
        assert (pixels[..., channel] == grey).all()
        assert pixels.sum() == grey.astype(np.int64).sum()
    levels = np.asarray(TRANSFORMS["gray"](image))
    assert (levels == grey[..., None]).all()


def test_a_watermark_is_seen_but_hides_little() -> None:
    image = scene(5, 256)
    changed = np.asarray(ImageChops.difference(TRANSFORMS["watermark"](image), image)).max(axis=2)
    assert 0.005 < (changed > 8).mean() < 0.3


def test_a_border_surrounds_the_whole_picture() -> None:
    image = _noise((100, 80), "RGB")
    framed = np.asarray(TRANSFORMS["border"](image, key="b"))
    assert _holds(framed, np.asarray(image))
    assert len(np.unique(framed[0])) == 1


@pytest.mark.parametrize("count", [2, 4, 6])
def test_a_compound_figure_holds_the_picture_among_others(count: int) -> None:
    image = _noise((60, 44), "RGB")
    transform = TRANSFORMS[f"compound-{count}"]
    assert transform.others == count - 1
    for key in "abcd":
        figure = transform(image, key=key, others=OTHERS)
        # The panel's letter covers its corner; the rest is there, pixel for pixel.
        assert _holds(np.asarray(figure), np.asarray(image.crop((20, 16, 60, 44))))
        assert count <= figure.width * figure.height / (60 * 44) <= 1.5 * count
    large = transform(_noise((1500, 1200), "L"), others=OTHERS)
    assert max(large.size) <= LONGEST_FIGURE + 200
    with pytest.raises(ValueError, match=f"a figure of {count}"):
        transform(image, others=OTHERS[: count - 2])


def test_transforms_travel_to_workers() -> None:
    again = pickle.loads(pickle.dumps(tuple(TRANSFORMS.values())))
    assert [transform.name for transform in again] == list(TRANSFORMS)


def _holds(whole: np.ndarray, part: np.ndarray) -> bool:
    height, width = part.shape[:2]
    first = part[0, 0]
    for top, left in np.argwhere((whole == first).all(axis=2)):
        window = whole[top : top + height, left : left + width]
        if window.shape == part.shape and (window == part).all():
            return True
    return False
