"""Which encoder a search uses: the default one, one that is named, or none."""

from __future__ import annotations

import importlib.util

import pytest

from heldout.errors import InputError
from heldout.overlap import OverlapSettings


@pytest.mark.usefixtures("default_encoder")
def test_pixels_is_the_default_where_opencv_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert OverlapSettings().near_encoder == "pixels"
    assert OverlapSettings().calibrated_encoder is None  # nearness was not asked for
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert OverlapSettings().near_encoder is None


@pytest.mark.parametrize("settings", [{"encoder": "none"}, {"exact": True}])
def test_a_search_can_do_without_an_encoder(settings: dict[str, object]) -> None:
    chosen = OverlapSettings.read(settings)
    assert chosen.near_encoder is None and chosen.calibrated_encoder is None
    with pytest.raises(InputError, match="embeddings"):
        OverlapSettings.read({**settings, "embeddings": "folder"})


def test_an_encoder_that_is_named_is_calibrated() -> None:
    chosen = OverlapSettings(encoder="onnx:model.onnx")
    assert chosen.near_encoder == chosen.calibrated_encoder == "onnx:model.onnx"
    with pytest.raises(InputError, match="exact"):
        OverlapSettings.read({"exact": True, "encoder": "pixels"})
    with pytest.raises(InputError, match="second_encoders"):
        OverlapSettings.read({"second_encoders": ["pixels"]})
