"""A server that describes pictures, judges twins and edits pictures as it was told, or errs on purpose.

    python twin_server.py

The first part of the path chooses how: /slow/v1 (a moment per answer), /faulty/v1 (of every job the first
prompts meet a fault each), /mortal-N/v1 (gone after N answers), anything else plainly. It prints its port.
Twins whose question holds "circle" are rejected.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from PIL import Image, ImageOps

FAULTS = (
    "busy",
    "broken",
    "cut",
    "empty",
    "refused",
    "filtered",
    "sorry",
    "long",
    "length",
    "slow",
    "wordy",
    "garbage",
)
SLOW = 1.6  # seconds: more than the tests wait


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    posted: ClassVar[Counter[str]] = Counter()  # by mode
    tries: ClassVar[Counter[str]] = Counter()  # by prompt
    answered: ClassVar[Counter[str]] = Counter()  # by prompt: what somebody pays for
    fates: ClassVar[dict[str, dict[str, str]]] = {}  # by mode and job: prompt → fault
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/counts":
            told = {"posted": dict(self.posted), "answered": dict(self.answered)}
            return self._send(200, json.dumps(told))
        return self._send(200, json.dumps({"data": [{"id": "scripted", "owned_by": "tests"}]}))

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/images/edits"):
            return self._edit(how, data)
        parts = json.loads(data)["messages"][0]["content"]
        text = next(part["text"] for part in parts if part["type"] == "text")
        picture = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
        prompt = hashlib.sha256(f"{text} {picture}".encode()).hexdigest()
        job = "verify" if "KEEP or REJECT" in text else "describe"
        key = f"{how} {job} {prompt}"
        with self.lock:
            self.posted[how] += 1
            self.posted[f"{how} {job}"] += 1
            self.tries[key] += 1
            again, count = self.tries[key], self.posted[how]
            fates = self.fates.setdefault(f"{how} {job}", {})
            if prompt not in fates:
                fates[prompt] = FAULTS[len(fates)] if len(fates) < len(FAULTS) else ""
        fault = fates[prompt] if how == "faulty" else ""
        if how.startswith("mortal") and count > int(how.split("-")[1]):
            return self._hang_up()
        if how == "slow":
            time.sleep(0.03)
        if fault == "busy" and again < 2:
            return self._send(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if fault == "broken" and again < 2:
            return self._send(500, '{"error": {"message": "CUDA error"}}')
        if fault == "long":
            told = "This model's maximum context length is 4096 tokens"
            return self._send(400, json.dumps({"error": {"message": told}}))
        if fault == "slow":
            time.sleep(SLOW)
            return self._hang_up()
        message, finish = _message(text, job, fault)
        answer = json.dumps(
            {
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 7},
            }
        )
        if fault == "garbage" or (fault == "cut" and again < 2):
            return self._send(200, answer[: len(answer) // 2])
        with self.lock:
            self.answered[key] += 1
        return self._send(200, answer)

    def _edit(self, how: str, data: bytes) -> None:
        """The picture in the form, mirrored."""
        boundary = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])
        assert boundary is not None
        parts = data.split(b"--" + boundary[1].encode())
        form = next(part for part in parts if b'name="image"' in part or b'name="image[]"' in part)
        picture = form.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        key = f"{how} edit {hashlib.sha256(data.replace(boundary[1].encode(), b'')).hexdigest()}"
        with self.lock:
            self.posted[how] += 1
            self.posted[f"{how} edit"] += 1
            count = self.posted[how]
        if how.startswith("mortal") and count > int(how.split("-")[1]):
            return self._hang_up()
        drawn = ImageOps.mirror(Image.open(io.BytesIO(picture)).convert("RGB"))
        buffer = io.BytesIO()
        drawn.save(buffer, "PNG")
        with self.lock:
            self.answered[key] += 1
        told = {"data": [{"b64_json": base64.b64encode(buffer.getvalue()).decode()}]}
        return self._send(200, json.dumps(told))

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


def _message(text: str, job: str, fault: str) -> tuple[dict[str, Any], str]:
    new = re.search(r"(?:right answer is|said to be): (.+)$", text.split("Now imagine")[-1], re.M)
    assert new is not None
    caption = f"A flat drawing on a plain ground. What is asked about is {new[1]}."
    verdict = "REJECT" if "circle" in text.split("\n")[2] else "KEEP"
    said = f"The picture shows it plainly.\n{verdict}" if job == "verify" else caption
    special = {
        "empty": ({"content": ""}, "stop"),
        "refused": ({"content": None, "refusal": "I can't help with that."}, "stop"),
        "filtered": ({"content": None}, "content_filter"),
        "sorry": ({"content": "I'm sorry, but I cannot describe medical pictures."}, "stop"),
        "length": ({"content": said[:20]}, "length"),
        "wordy": ({"content": "very " * 400 + said}, "stop"),
    }
    return special.get(fault, ({"content": said}, "stop"))


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until whoever started us goes away
    os._exit(0)
