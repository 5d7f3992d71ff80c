"""Words inside a picture, read by RapidOCR (Apache-2.0): its wheel carries the models, nothing is downloaded."""

from __future__ import annotations

import functools
import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import require
from heldout.image.decode import to_rgb
from heldout.weights import check_weights

EXTRA = "ocr"
_LONGEST = 2000  # pixels of a side; letters of a page are still legible
_SHORTEST = 16  # pixels below which nothing is read
_LEAST_SURE = 0.6  # of a line, as the reader says itself


def require_ocr(why: str) -> None:
    """Raise a PrerequisiteError unless words in pictures can be read."""
    require("rapidocr", EXTRA, why)
    require("onnxruntime", EXTRA, why)


def picture_lines(image: Image.Image) -> tuple[str, ...]:
    """Lines of words in a picture, from top to bottom; empty where there are none."""
    if min(image.size) < _SHORTEST:
        return ()
    image = to_rgb(image)
    image.thumbnail((_LONGEST, _LONGEST))
    reading = _reader()(np.asarray(image))
    texts, scores = reading.txts or (), reading.scores or ()
    return tuple(
        text.strip()
        for text, score in zip(texts, scores, strict=True)
        if score >= _LEAST_SURE and text.strip()
    )


@functools.lru_cache(maxsize=1)  # once per worker
def _reader() -> Any:
    require_ocr("reading words in pictures")
    threads = os.environ.get("OMP_NUM_THREADS", "")
    rapidocr: Any = importlib.import_module("rapidocr")
    # It would fetch a model that is not the one it names.
    install = f"install it anew: pip install --force-reinstall 'heldout[{EXTRA}]'"
    check_weights(Path(rapidocr.__file__).parent, "", install)
    return rapidocr.RapidOCR(
        params={
            "Global.log_level": "error",
            "EngineConfig.onnxruntime.intra_op_num_threads": int(threads)
            if threads.isdigit()
            else -1,
        }
    )
