"""A running server of a suite."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class SuiteServer:
    def __init__(self, answers: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "suite_server.py"), str(answers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @functools.cached_property
    def port(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def url(self, how: str = "plain") -> str:
        return f"http://127.0.0.1:{self.port}/{how}/v1"

    def counts(self, path: str = "counts") -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}") as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        self.process.communicate()
