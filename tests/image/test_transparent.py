"""Pictures with an alpha channel as they are looked at."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from heldout.image import to_rgb


def ink(grey: int, word: str = "SIGMA") -> Image.Image:
    picture = Image.new("RGBA", (300, 120), (grey, grey, grey, 0))
    ImageDraw.Draw(picture).text((20, 30), word, fill=(grey, grey, grey, 255), font_size=56)
    return picture


@pytest.mark.parametrize("grey", [255, 245])
def test_white_ink_on_nothing_can_be_seen(grey: int) -> None:
    seen = np.asarray(to_rgb(ink(grey)))
    assert seen.min() == 0 and seen.max() >= grey - 1


@pytest.mark.parametrize("grey", [0, 128, 200])
def test_other_ink_lies_on_white(grey: int) -> None:
    seen = np.asarray(to_rgb(ink(grey)))
    assert seen.max() == 255 and seen.min() == grey


def test_a_picture_that_shows_nothing_stays_white() -> None:
    assert np.asarray(to_rgb(Image.new("RGBA", (64, 64), (0, 0, 0, 0)))).min() == 255
    assert np.asarray(to_rgb(Image.new("RGBA", (64, 64), (255, 255, 255, 200)))).min() == 255


def test_copies_in_white_ink_are_found_and_other_words_are_not() -> None:
    pytest.importorskip("cv2", reason="registration needs heldout[vision]")
    from heldout.overlap.images.register import register

    ours = ink(255, "SIGMA 479 kiwi")
    assert register(ours, ours.resize((270, 108))).is_copy
    assert not register(ours, ink(255, "THETA 310 plum")).is_copy
