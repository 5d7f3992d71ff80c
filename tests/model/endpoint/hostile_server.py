"""Servers that misbehave byte by byte: each connection is handed to a function in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Hostile:
    """``requests``: the heads that arrived, in order; ``connections``: how many were opened."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def read(self, peer: socket.socket) -> bytes:
        """Head of one request, its body read; empty when the client went away."""
        data = b""
        while b"\r\n\r\n" not in data:
            if not (part := peer.recv(65536)):
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                while len(body) < int(line.split(b":")[1]):
                    body += peer.recv(65536)
        self.requests.append(head)
        return head

    def drip(self, peer: socket.socket, data: bytes, every: float = 0.02) -> None:
        """Byte by byte, over and over, until the client goes away."""
        while True:
            for place in range(len(data)):
                peer.sendall(data[place : place + 1])
                if self.stopping.wait(every):
                    return


Behaviour = Callable[[Hostile, socket.socket], None]


@contextmanager
def serving(behave: Behaviour) -> Iterator[Hostile]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = Hostile(listening.getsockname()[1])

    def serve(peer: socket.socket) -> None:
        # A client that went away is what most of these servers wait for.
        with peer, contextlib.suppress(OSError):
            behave(server, peer)

    def accept() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            server.connections += 1
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def reply(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
