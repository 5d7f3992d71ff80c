"""asking_server.py as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any


class Scripted:
    def __init__(self, answers: Path) -> None:
        script = Path(__file__).parent / "asking_server.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(answers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def url(self, how: str = "plain") -> str:
        return f"http://127.0.0.1:{self.port}/{how}/v1"

    def counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts") as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def posted(self, how: str) -> int:
        return int(self.counts()["posted"].get(how, 0))
