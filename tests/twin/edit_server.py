"""A server of image edits that gives back the negative of what it was sent, or errs in a chosen way.

    python edit_server.py

The first part of the path chooses how: /plain/v1, /busy/v1 (429 twice), /cut/v1 … It prints its port.
"""

from __future__ import annotations

import base64
import email
import io
import json
import os
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from PIL import Image, ImageOps

SLOW = 1.5  # seconds: more than the tests wait


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    posted: ClassVar[Counter[str]] = Counter()
    forms: ClassVar[list[dict[str, str]]] = []
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        self._send(200, json.dumps({"posted": dict(self.posted), "last": self.forms[-1:]}))

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fields, picture = _parts(self.headers["Content-Type"], body)
        with self.lock:
            self.posted[how] += 1
            again = self.posted[how]
            self.forms.append({**fields, "path": self.path, "key": self.headers["Authorization"]})
        if how.startswith("mortal") and again > int(how.split("-")[1]):
            return self._hang_up()
        errors = {
            "gone": (404, "no such route"),
            "broken": (500, "CUDA error"),
            "policy": (400, "Your request was rejected as a result of our safety system."),
            "strict": (400, "Invalid value: size"),
            "key": (401, "bad key"),
        }
        if how in errors:
            status, told = errors[how]
            return self._send(status, json.dumps({"error": {"message": told}}))
        if how == "busy" and again % 3:
            return self._send(429, '{"error": {"message": "slow"}}', {"Retry-After": "0"})
        if how == "picky" and "response_format" in fields:
            told = "Unknown parameter: 'response_format'."
            return self._send(400, json.dumps({"error": {"message": told}}))
        if how == "slow":
            time.sleep(SLOW)
            return self._hang_up()
        answer = json.dumps(
            {
                "created": 1,
                "data": _data(how, picture),
                "usage": {"input_tokens": 300, "output_tokens": 4000, "total_tokens": 4300},
            }
        )
        if how == "garbage" or (how == "cut" and again == 1):
            answer = answer[: len(answer) // 2]
        return self._send(200, answer)

    def _hang_up(self) -> None:
        self.close_connection = True  # or the handler would wait for the next request
        self.connection.close()

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _parts(content_type: str, body: bytes) -> tuple[dict[str, str], Image.Image]:
    """A form as Python's own parser of messages reads it."""
    message = email.message_from_bytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    fields, files = {}, {}
    for part in message.get_payload():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        (files if part.get_filename() else fields)[name] = data
    assert set(files) == {"image"}
    words = {name: data.decode() for name, data in fields.items()}
    return words, Image.open(io.BytesIO(files["image"]))


def _data(how: str, picture: Image.Image) -> Any:
    made = ImageOps.invert(picture.convert("RGB"))
    made = made.resize((64, 64)) if how == "square" else made
    encoded = base64.b64encode(_png(made)).decode()
    return {
        "empty": [],
        "nothing": [{"b64_json": ""}],
        "odd": "a string",
        "text": [{"b64_json": "*" * 40}],
        "address": [{"url": "http://127.0.0.1:9/secret.png"}],
        "inline": [{"url": f"data:image/png;base64,{encoded}"}],
        "bomb": [{"b64_json": base64.b64encode(_bomb()).decode()}],
        "noise": [{"b64_json": base64.b64encode(b"no picture at all").decode()}],
        "half": [{"b64_json": base64.b64encode(_png(made)[:-200]).decode()}],
    }.get(how, [{"b64_json": encoded}])


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _bomb() -> bytes:
    """A small file that says it is 30000 pixels wide and high."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until whoever started us goes away
    os._exit(0)
