"""The `heldout` command without its start-up: inside this process, or in a fork that can be killed."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from heldout.cli import main

# Its server has imported what the verbs need; importing takes longer than most of these commands run.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "heldout.audit.runner",
        "heldout.overlap.images.scan",
        "heldout.overlap.texts.scan",
        "heldout.synth.pipeline",
        "heldout.twin.twinning",
        "command_line",
    ]
)


def run_inside(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = ["heldout", *map(str, arguments)]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch("sys.argv", words),
        mock.patch.dict("os.environ", {"COLUMNS": "120"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


class ForkedCommand:
    """A command in a process of its own, with what subprocess.Popen has of methods."""

    def __init__(self, *arguments: str | Path) -> None:
        self._printed = tempfile.TemporaryDirectory()
        words = ["heldout", *map(str, arguments)]
        self._process = FORKS.Process(
            target=_run, args=(words, self._printed.name, dict(os.environ), str(Path.cwd()))
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("heldout", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        out, err = ((Path(self._printed.name) / name).read_text() for name in ("out", "err"))
        return out, err


def _run(words: list[str], printed: str, environment: dict[str, str], folder: str) -> None:
    for name, number in (("out", 1), ("err", 2)):
        file = os.open(Path(printed) / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = words
    main()
