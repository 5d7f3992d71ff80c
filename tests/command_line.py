"""The `heldout` command without its start-up: inside this process, or in a fork that can be killed."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from heldout.cli import main
from heldout.engine import local
from heldout.engine._worker_main import work
from without_packages import hide

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


COMMAND = "from heldout.cli import main; main()"


class ForkedCommand:
    """A command in a process of its own, with what subprocess.Popen has of methods."""

    def __init__(
        self,
        *arguments: str | Path,
        script: str = COMMAND,
        folder: Path | None = None,
        without: Collection[str] = (),
    ) -> None:
        """``script``: what runs instead of the command; ``without``: packages that it does not find."""
        self._printed = tempfile.TemporaryDirectory()
        words = ["heldout", *map(str, arguments)]
        place = str(folder or Path.cwd())
        printed, environment = self._printed.name, dict(os.environ)
        self._process = FORKS.Process(
            target=_run, args=(words, printed, environment, place, script, tuple(without))
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


def run_forked(
    *arguments: str | Path, script: str = COMMAND, folder: Path | None = None, without: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command or script in a process of its own, to its end. ``without``: packages with commas between."""
    hidden = [name for name in without.split(",") if name]
    started = ForkedCommand(*arguments, script=script, folder=folder, without=hidden)
    out, err = started.communicate()
    return subprocess.CompletedProcess(list(arguments), started.wait(), out, err)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of the local engine begin with what FORKS has imported. For tests in which many of them
    die: how they are started is tested in tests/engine."""
    monkeypatch.setattr(local, "_CONTEXT", types.SimpleNamespace(Pipe=FORKS.Pipe, Process=_worker))


def _worker(target: object, args: tuple[Any, int, dict[str, str]], daemon: bool) -> Any:
    assert target is work
    return FORKS.Process(target=_work, args=(args[0], args[2]), daemon=daemon)


def _work(connection: Any, main: dict[str, str]) -> None:
    work(connection, os.getppid(), main)  # the server of forks


def _no_wait(fd: Any) -> None:
    """In place of os.fsync, as in conftest.py: a kill does not cut the power."""


def _run(
    words: list[str],
    printed: str,
    environment: dict[str, str],
    folder: str,
    script: str,
    without: Collection[str],
) -> None:
    for name, number in (("out", 1), ("err", 2)):
        file = os.open(Path(printed) / name, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    os.fsync = _no_wait
    tempfile.tempdir = None  # that of this environment, not of the server's
    sys.argv = words
    hide(without)
    started = sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        exec(compile(script, "<script>", "exec"), vars(started))
    finally:
        assert not set(without) & set(sys.modules)


# What the command on the path does: hand its words, files, folder and environment to a process that has
# imported everything, and end with the code that this one sends back.
_CLIENT = """
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
body = json.dumps([["heldout", *sys.argv[2:]], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(body).to_bytes(8, "big")], [0, 1, 2])
server.sendall(body)
answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


@contextlib.contextmanager
def command_on_path(folder: Path) -> Iterator[Path]:
    """A folder with a command called heldout, as an installer makes it, but without its start-up.

    Scripts that are run many times call it by name; every call is a process of its own.
    """
    (folder / "client.py").write_text(_CLIENT)
    # Paths of sockets are short: a folder of pytest's own would be too long.
    with tempfile.TemporaryDirectory(prefix="heldout-") as short:
        address = str(Path(short) / "s")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        server = FORKS.Process(target=_answer_calls, args=(listener,), daemon=True)
        server.start()
        listener.close()
        words = [sys.executable, "-SEs", str(folder / "client.py"), address]
        command = folder / "bin" / "heldout"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        command.chmod(0o755)
        try:
            yield command.parent
        finally:
            server.terminate()
            server.join()


def _answer_calls(listener: socket.socket) -> None:
    os.fsync = _no_wait
    while True:
        call, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(call)
        call.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _answer(call: socket.socket) -> None:
    code = 70
    try:
        head, files, _, _ = socket.recv_fds(call, 8, 3)
        body = call.makefile("rb").read(int.from_bytes(head, "big"))
        sys.argv, folder, environment = json.loads(body)
        for file, number in zip(files, (0, 1, 2), strict=True):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        call.sendall(bytes([code]))
        os._exit(code)
