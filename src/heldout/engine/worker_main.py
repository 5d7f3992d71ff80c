"""What runs inside a worker process of this machine: receive a task, run it, send what became."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from heldout.engine.engine import describe_error

_PARENT_CHECK_SECONDS = 1.0

# Kinds of messages. To the worker: FUNCTION and TASK with a pickle each, STOP with nothing.
# From the worker: READY, then for every task in turn VALUE (a pickle), ERROR or BROKEN (text
# pickles; BROKEN means that the function itself cannot be loaded here).
FUNCTION, TASK, STOP = b"F", b"T", b"S"
READY, VALUE, ERROR, BROKEN = b"R", b"V", b"E", b"B"


def work(connection: Connection, parent: int) -> None:
    """Serve tasks until the parent says stop or is gone."""
    # Ctrl-C reaches the whole process group; it is the parent who decides what to cancel.
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
                function = pickle.loads(body)
            except Exception as error:
                broken = BROKEN + pickle.dumps(describe_error(error))
        elif function is None:
            connection.send_bytes(broken)
        else:
            connection.send_bytes(_run(function, body))


def _run(function: Callable[[Any], Any], body: bytes) -> bytes:
    try:
        value = function(pickle.loads(body))
        return VALUE + pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (Exception, SystemExit) as error:
        return ERROR + pickle.dumps(describe_error(error))


def _receive(connection: Connection, parent: int, inbox: SimpleQueue[bytes]) -> None:
    """Take messages in as they come, so that the parent never waits for a busy worker to read;
    end this process when the parent is gone, even in the middle of a task."""
    while True:
        try:
            # The pipe normally says so itself, but a process that the parent forked may hold it
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
