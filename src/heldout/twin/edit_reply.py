"""What an image edit endpoint answered: one picture and what it cost, or the reason why not."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from PIL import Image

from heldout.image import ImageError, decode, to_rgb
from heldout.twin.renderer import RenderError

MOST_PIXELS = 2**26  # 8192 x 8192: more than any endpoint draws, little enough to unpack
_NO_PICTURE = "no picture in the answer"


def read_picture(answer: Any) -> Image.Image:
    """The first picture, RGB. Addresses are not fetched: they would lead wherever the server says."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    first = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(first, dict):
        raise RenderError(_NO_PICTURE, f"{str(answer)[:120]!r}")
    text, url = first.get("b64_json"), first.get("url")
    if not isinstance(text, str) and isinstance(url, str):
        head, comma, text = url.partition(",")
        if not (head.startswith("data:image/") and head.endswith(";base64") and comma):
            raise RenderError(
                "a picture behind an address",
                f"{url[:80]!r} is not fetched: b64_json was asked for",
            )
    if not isinstance(text, str) or not text:
        raise RenderError(_NO_PICTURE, f"its fields: {', '.join(map(str, first))[:120]}")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RenderError("not base64", f"{error}: {text[:40]!r}") from error
    try:
        return to_rgb(decode(data, max_pixels=MOST_PIXELS))
    except ImageError as error:
        raise RenderError(error.reason, error.detail) from error


def read_tokens(answer: Any) -> tuple[int, int]:
    """Tokens read and written, 0 where the endpoint does not say."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    read = usage.get("input_tokens", usage.get("prompt_tokens"))
    written = usage.get("output_tokens", usage.get("completion_tokens"))
    return _count(read), _count(written)


def _count(value: Any) -> int:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9
    return value if known else 0
