"""A running server for twins: a real process, and what it counted."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any


class TwinServer:
    def __init__(self) -> None:
        script = Path(__file__).parent / "twin_server.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def url(self, how: str = "plain") -> str:
        return f"http://127.0.0.1:{self.port}/{how}/v1"

    def posted(self, what: str) -> int:
        """``what``: a mode, or a mode and a job."""
        return int(self._counts()["posted"].get(what, 0))

    def answered(self, how: str) -> list[int]:
        """How often each prompt of a mode was answered, and paid for."""
        found = self._counts()["answered"]
        return [count for key, count in found.items() if key.startswith(f"{how} ")]

    def _counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts") as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def stop(self) -> None:
        self.process.communicate()
