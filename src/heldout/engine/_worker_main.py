"""What runs inside a worker process of this machine: receive a task, run it, send the result."""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from heldout.engine.engine import describe_error
from heldout.engine.underway import listening

_PARENT_CHECK_SECONDS = 1.0
_MOVED_SECONDS = 0.5  # between two messages of how far a task is

# Kinds of messages. To the worker: FUNCTION and TASK with a pickle each, STOP with nothing.
# From the worker: READY, then for every task in turn VALUE (a pickle), ERROR or BROKEN (text
# pickles; BROKEN means that the function itself cannot be loaded here); before those of a long task MOVED (a
# pickle of what it has done since the last).
FUNCTION, TASK, STOP = b"F", b"T", b"S"
READY, VALUE, ERROR, BROKEN, MOVED = b"R", b"V", b"E", b"B", b"M"
_UNGUARDED = (
    "worker processes import the script, because it defines what they run, and it calls heldout when it "
    'is imported: put its calls under if __name__ == "__main__":'
)


class _Unpickler(pickle.Unpickler):
    """Imports the main module as soon as something that it defines is needed, not before."""

    def __init__(self, body: bytes, main: dict[str, str]) -> None:
        super().__init__(io.BytesIO(body))
        self._main = main

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__" and self._main:
            from heldout.store import no_new_runs

            main = dict(self._main)
            self._main.clear()
            with no_new_runs(_UNGUARDED):
                spawn.prepare(main)
        return super().find_class(module, name)


def work(connection: Connection, parent: int, main: dict[str, str]) -> None:
    """Serve tasks until the parent says stop or is gone.

    Args:
        connection: To the parent.
        parent: The parent's process id.
        main: Where the parent's main module is, as ``multiprocessing.spawn.prepare`` takes it.
    """
    # Ctrl-C reaches the whole process group; the parent decides what to cancel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Standard output belongs to the parent (--json prints one document there): a library that
    # prints in a worker prints to standard error.
    os.dup2(2, 1)
    inbox: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, parent, inbox), daemon=True).start()
    connection.send_bytes(READY)
    function: Callable[[Any], Any] | None = None
    broken: bytes = b""
    while True:
        message = inbox.get()
        kind, body = message[:1], message[1:]
        if kind == STOP:
            return
        if kind == FUNCTION:
            function, broken = None, b""
            try:
                function = _Unpickler(body, main).load()
            except (Exception, SystemExit) as error:
                broken = BROKEN + pickle.dumps(describe_error(error))
        elif function is None:
            connection.send_bytes(broken)
        else:
            with listening(_Sender(connection)):
                reply = _run(function, body, main)
            connection.send_bytes(reply)


class _Sender:
    """Sends what a task counts now and then. The rest of it is in the task's value."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._counts: Counter[str] = Counter()
        self._sent = time.monotonic()

    def __call__(self, name: str, count: int) -> None:
        self._counts[name] += count
        now = time.monotonic()
        if now - self._sent >= _MOVED_SECONDS:
            self._connection.send_bytes(MOVED + pickle.dumps(dict(self._counts)))
            self._counts.clear()
            self._sent = now


def _run(function: Callable[[Any], Any], body: bytes, main: dict[str, str]) -> bytes:
    try:
        value = function(_Unpickler(body, main).load())
        return VALUE + pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:
        return ERROR + pickle.dumps(describe_error(error))


def _receive(connection: Connection, parent: int, inbox: SimpleQueue[bytes]) -> None:
    """Take messages in as they come, so that the parent never waits for a busy worker to read;
    end this process when the parent is gone, even in the middle of a task."""
    while True:
        try:
            # Normally the pipe is closed, but a process that the parent forked may hold it
            # open; a changed parent is certain.
            while not connection.poll(_PARENT_CHECK_SECONDS):
                if os.getppid() != parent:
                    os._exit(1)
            message = connection.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)
        inbox.put(message)
        if message[:1] == STOP:
            sys.stderr.flush()
            return
