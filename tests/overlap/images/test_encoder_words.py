"""Words: what a picture holds, wherever it lies in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from heldout.overlap.images._pixels import COUNT, WORDS_DIMENSION, find_pieces, row_of_words
from heldout.overlap.images.encoder import open_encoder

pytest.importorskip("cv2", reason="local features need heldout[vision]")


@pytest.fixture(scope="module")
def radiographs(shared_data: Path) -> list[Image.Image]:
    files = sorted((shared_data / "slake/images").glob("*.jpg"))[::30]
    return [Image.open(path).convert("L") for path in files]


def row(picture: Image.Image) -> np.ndarray:
    return row_of_words(find_pieces(picture))


@pytest.mark.parametrize(
    ("change", "mirrored", "inverted"),
    [
        (ImageOps.mirror, True, False),
        (ImageOps.flip, True, False),
        (ImageOps.invert, False, True),
        (lambda picture: ImageOps.mirror(ImageOps.invert(picture)), True, True),
        (lambda picture: picture.transpose(Image.Transpose.ROTATE_90), False, False),
    ],
)
def test_words_of_a_changed_picture_follow_from_its_own(
    radiographs: list[Image.Image], change: object, mirrored: bool, inverted: bool
) -> None:
    for picture in radiographs[:4]:
        copy = row(change(picture))  # type: ignore[operator]
        pieces = find_pieces(picture)
        found = row_of_words(pieces, mirrored=mirrored, inverted=inverted) @ copy
        assert found > 0.5
        if mirrored or inverted:  # bodies are nearly symmetric, so the plain words fit a little
            assert row_of_words(pieces) @ copy < found - 0.2


def test_half_of_a_picture_is_found_among_other_patients(radiographs: list[Image.Image]) -> None:
    encoder = open_encoder("pixels")
    corpus = encoder.encode(radiographs)
    for number, picture in enumerate(radiographs[:6]):
        width, height = (round(side * 0.5**0.5) for side in picture.size)
        left, top = (picture.width - width) // 3, (picture.height - height) // 7
        half = encoder.encode([picture.crop((left, top, left + width, top + height))])[0]
        _, rows = encoder.encode_views(picture)
        best = (rows @ corpus.T).max(axis=0)
        best[number] = -1  # the whole picture is not what is looked for
        assert (rows @ half).max() > best.max()


def test_a_window_keeps_the_pieces_inside_it(radiographs: list[Image.Image]) -> None:
    pieces = find_pieces(radiographs[0], closer=1.5)
    corner = pieces.inside(0.5, (1.0, 0.0))
    assert 0 < len(corner.points) < len(pieces.points)
    assert (corner.points[:, 0] >= 0.5).all()
    assert (corner.points[:, 1] < 0.5).all()
    assert len(pieces.inside(1.0, (0.0, 0.0)).points) == min(COUNT, len(pieces.points))
    assert (pieces.large().sizes > 5).all()


def test_a_picture_without_pieces_has_a_row_of_its_own(radiographs: list[Image.Image]) -> None:
    blank = [row(Image.new("L", size, 30)) for size in ((40, 40), (300, 10), (1, 1))]
    assert all(np.array_equal(one, blank[0]) for one in blank)
    assert np.linalg.norm(blank[0]) == pytest.approx(1)
    assert abs(float(blank[0] @ row(radiographs[0]))) < 0.2
    assert blank[0].shape == (WORDS_DIMENSION,)
