"""A running item server."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


class ItemServer:
    """``url("plain")``: the address of a model; ``counts()``: what was posted and answered so far."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, how: str, model: str = "scripted") -> str:
        return f"http://127.0.0.1:{self.port}/{how}/{model}/v1"

    def counts(self) -> dict[str, Any]:
        return self._get("counts")

    def forget(self) -> None:
        """Begin to count anew, as a server does that was just started."""
        self._get("forget")

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}") as answer:
            told: dict[str, Any] = json.load(answer)
        return told
