"""Worker: the parent's handle on one worker process and the tasks it holds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import deque
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

from heldout.engine.cores import shared_threads
from heldout.engine.worker_main import FUNCTION, READY, STOP, TASK, work

_CONTEXT = multiprocessing.get_context("spawn")  # a fork beside polars' and arrow's threads hangs
_STOP_SECONDS = 5.0


@dataclass(slots=True)
class Job:
    """A task on its way: pickled once, however often it is tried."""

    index: int
    task: Any
    body: bytes
    deaths: int = 0  # workers that died while running it


class Worker:
    """One process. Tasks are answered in the order they were sent, so when the process dies the
    first one without an answer is the one it was running."""

    def __init__(self, share: int) -> None:
        self.jobs: deque[Job] = deque()
        self.ready = False
        self.loaded: object = None  # the name of the function it has
        self.connection, child = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=work, args=(child, os.getpid()), daemon=True)
        resource_tracker.ensure_running()  # would unblock the signal below when started inside
        # The child is born with SIGINT blocked and ignores it before unblocking, so that Ctrl-C
        # while it imports does not print its traceback.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with shared_threads(share):
                self.process.start()
        finally:
            child.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)

    def submit(self, name: object, function: bytes, job: Job) -> None:
        # A dead worker is noticed where answers are received, with its job still in ``jobs``.
        self.jobs.append(job)
        with contextlib.suppress(OSError):
            if self.loaded is not name:
                self.loaded = name
                self.connection.send_bytes(FUNCTION + function)
            self.connection.send_bytes(TASK + job.body)

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next answer that is already there; EOFError when the process is dead."""
        try:
            while self.connection.poll():
                message = self.connection.recv_bytes()
                kind = message[:1]
                if kind != READY:
                    return kind, message[1:]
                self.ready = True
        except OSError as error:
            raise EOFError from error
        if not self.process.is_alive() and not self.connection.poll():
            raise EOFError
        return None

    def death(self) -> str:
        """How the process ended, in words."""
        self.process.join(_STOP_SECONDS)
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = "; the system may have run out of memory" if -code == signal.SIGKILL else ""
        return f"{name}{hint}"

    def kill(self) -> None:
        self.process.kill()
        self.process.join(_STOP_SECONDS)
        self.connection.close()

    def ask_to_stop(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send_bytes(STOP)

    def stop(self) -> None:
        """Let a process that was asked to stop end by itself; insist if it does not."""
        self.process.join(_STOP_SECONDS)
        self.kill()
