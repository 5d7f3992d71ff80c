"""A running server, and what it is asked about."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

KEY = "sesame-9d1f"
HERE = Path(__file__).parent
QUESTIONS = [
    "Is the sky blue?",
    "What organ is this?",
    "Which side is the heart on?",
    "Ärger über Öl?",
]
ANSWERS = ["yes", "no", "left lung", "the heart", "Größe", "心脏", "2 cm"]


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "endpoint_server.py"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        )

    @functools.cached_property
    def port(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def url(self, how: str = "plain", port: int | None = None) -> str:
        return f"http://127.0.0.1:{port or self.port}/{how}/v1"

    def mortal(self, lives: int) -> int:
        """The port of a server that dies after so many requests."""
        return int(self._get(f"mortal/{lives}"))

    def asked(self, how: str) -> int:
        return int(json.loads(self._get("counts")).get(how, 0))

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}") as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        self.process.communicate()
