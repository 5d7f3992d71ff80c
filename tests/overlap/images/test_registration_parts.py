"""The parts of registration: descriptors' symmetry, whole-frame warps, panels, geometry."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from heldout.overlap.images._agreement import POSES, geometry
from heldout.overlap.images._panels import panel_boxes
from heldout.overlap.images.features import (
    cheap_features,
    frame_warp,
    from_frames,
    from_local_features,
    pose_array,
)
from heldout.overlap.images.register import _whole_and_panels

pytestmark = pytest.mark.skipif(
    find_spec("cv2") is None, reason="registration needs the extra 'vision'"
)


def blobs(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """Smooth random structure, as a radiograph has, without any symmetry."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0]), dtype=np.uint8)
    smooth = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(4))
    return ImageOps.autocontrast(smooth).convert("RGB")


@pytest.mark.parametrize("pose", range(8))
@pytest.mark.parametrize("inverted", [False, True])
def test_local_features_find_every_pose_and_sign(pose: int, inverted: bool) -> None:
    picture = blobs(1)
    posed = Image.fromarray(pose_array(np.asarray(picture), pose))
    posed = ImageOps.invert(posed) if inverted else posed
    query, candidate = cheap_features(picture), cheap_features(posed)
    found = from_local_features(query, candidate)
    assert found is not None and found.inliers > 80 and found.inverted == inverted
    wanted = frame_warp(query.grey.shape, candidate.grey.shape, pose)
    corners = np.array([[0, 0, 1], [319, 0, 1], [319, 239, 1]], np.float64)
    assert np.abs(corners @ found.warp.T - corners @ wanted.T).max() < 1.0


@pytest.mark.parametrize("pose", range(8))
def test_whole_frames_find_every_pose(pose: int) -> None:
    picture = blobs(2)
    posed = Image.fromarray(pose_array(np.asarray(picture), pose)).resize((200, 300))
    query, candidate = cheap_features(picture), cheap_features(ImageOps.invert(posed))
    found = from_frames(query, candidate)
    assert found.score > 0.8 and found.inverted
    assert geometry(found.warp, picture.size).pose == pose
    assert len(POSES) == 8


def test_unrelated_pictures_share_no_placement() -> None:
    found = from_local_features(cheap_features(blobs(3)), cheap_features(blobs(4)))
    assert found is None or found.inliers < 8


def test_gutters_cut_a_page_into_its_panels() -> None:
    page = Image.new("RGB", (520, 270), "white")
    page.paste(blobs(5, (240, 250)), (10, 10))
    page.paste(blobs(6, (250, 120)), (260, 10))
    page.paste(blobs(7, (250, 120)), (260, 140))
    grey = np.asarray(page.convert("L"))
    boxes = panel_boxes(grey)
    assert len(boxes) == 3
    for found, wanted in zip(
        boxes, [(10, 10, 250, 260), (260, 10, 510, 130), (260, 140, 510, 260)], strict=True
    ):
        assert np.abs(np.subtract(found, wanted)).max() <= 3
    assert panel_boxes(np.asarray(blobs(8).convert("L"))) == []
    assert panel_boxes(np.full((200, 200), 255, np.uint8)) == []


def test_a_slanted_rotation_is_named_by_its_angle() -> None:
    turn = np.deg2rad(30.0)
    warp = np.array([[np.cos(turn), np.sin(turn), 5], [-np.sin(turn), np.cos(turn), 9], [0, 0, 1]])
    shape = geometry(2.0 * warp @ np.diag([1, 1, 0.5]), (100, 80))
    assert shape.words == ["rotated 30°"]
    assert shape.scale == pytest.approx((2.0, 2.0))


def test_a_dark_picture_agrees_beyond_the_panel_that_black_ground_leaves_of_it() -> None:
    """Cut along black gutters, little of the picture's area is left; all of it is laid on the page."""
    import cv2

    dark = Image.new("RGB", (360, 360))
    dark.paste(blobs(5, (200, 160)), (90, 120))
    page = Image.new("RGB", (800, 400))
    page.paste(dark, (20, 20))
    page.paste(blobs(6, (300, 300)), (450, 50))
    boxes = panel_boxes(np.asarray(page.convert("L")))
    assert (110, 140, 310, 300) in boxes
    other = dark.copy()
    ImageDraw.Draw(other).ellipse((40, 40, 80, 90), fill=(140, 140, 140))
    for picture, same in ((dark, True), (other, False)):
        whole, *panels = _whole_and_panels(cv2, cheap_features(picture), cheap_features(page))
        assert not whole.panel_of_candidate
        agreement = panels[0].agreement
        assert (agreement.query_overlap > 0.9 and agreement.worst < 0.1) == same
        assert same or agreement.worst == 1.0
