"""Fixtures every test may use."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout, or where HELDOUT_SHARED points."""
    shared = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared"))
    data = shared / "data"
    if not data.is_dir():
        pytest.skip(f"real data is not at {data} (set HELDOUT_SHARED)")
    return data


@pytest.fixture
def picture() -> Callable[..., bytes]:
    """picture(seed) → the bytes of a small noisy image, different for every seed."""

    def make(seed: int, size: tuple[int, int] = (24, 16), format: str = "PNG") -> bytes:
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        buffer = io.BytesIO()
        options = {"lossless": True} if format == "WEBP" else {}
        Image.fromarray(pixels).save(buffer, format, **options)
        return buffer.getvalue()

    return make
