"""A server that repeats the key it was sent wherever text can stand: replies, errors, names, headers.

    python echo_server.py

It prints its port. What it does with a question depends on the question alone: it answers, refuses, fails
or sends half an answer, and does so again when it is asked again. /garbled/v1 answers with no HTTP at all.
"""

from __future__ import annotations

import base64
import html
import json
import os
import re
import sys
import threading
import urllib.parse
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def spelled(key: str, number: int) -> str:
    """The key in one of the ways in which servers write it."""
    header = f"Authorization: Bearer {key}"
    ways = [
        header,
        base64.b64encode(header.encode()).decode(),
        f"https://host/v1?api_key={urllib.parse.quote(key, safe='')}",
        json.dumps({"headers": json.dumps({"authorization": f"Bearer {key}"})}),
        repr({"authorization": key}),
        html.escape(header),
        key.encode().hex(),
        base64.urlsafe_b64encode(f"user:{key}".encode()).decode(),
    ]
    return ways[number % len(ways)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    @property
    def key(self) -> str:
        return self.headers.get("Authorization", "Bearer none").removeprefix("Bearer ")

    def do_GET(self) -> None:
        if self.path.startswith("/garbled"):
            self.close_connection = True
            self.wfile.write(f"HTTP/1.1 200 OK\r\n{self.key}\r\n\r\n".encode())
            return None
        if self.path.startswith("/locked"):
            return self._send(401, json.dumps({"error": {"message": f"bad key {self.key}"}}))
        row = {"id": "echo", "owned_by": self.key, self.key: self.key}
        return self._send(200, json.dumps({"data": [row], "you": self.key}))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        edits = self.path.endswith("/images/edits")
        body = {} if edits else json.loads(data)
        text = _text(body)
        found = re.search(r"\((\d+)\)", text)
        probing = "Is the sky blue?" in text
        number = int(found[1]) if found else zlib.crc32(text.encode())
        if edits:
            number = zlib.crc32(data[data.index(b"\x89PNG") :][:2000])
        echo = spelled(self.key, number)
        fate = "" if probing else {3: "refuse", 5: "half", 7: "fail"}.get(number % 12, "")
        if fate == "refuse" or self.path.endswith("/v1/completions"):
            return self._send(400, json.dumps({"error": {"message": f"I refuse {echo}"}}))
        if fate == "fail":
            return self._send(500, f"<html>{echo}</html>")
        if edits:
            end = data.rindex(b"IEND") + 8
            picture = base64.b64encode(data[data.index(b"\x89PNG") : end]).decode()
            answer: Any = {"data": [{"b64_json": picture, "revised_prompt": echo}]}
        elif "prompt_logprobs" in body:
            answer = {"prompt_logprobs": self._tokens(body, number)}
        else:
            answer = {"choices": [self._choice(text, number, echo)], "request": dict(self.headers)}
        whole = json.dumps(answer)
        return self._send(200, whole[: len(whole) - 20] if fate == "half" else whole)

    def _tokens(self, body: dict[str, Any], number: int) -> list[Any]:
        """Words, pictures, the key in pieces, and the answer, which is no answer at times."""
        pictures = sum(p["type"] == "image_url" for p in body["messages"][0]["content"])
        pieces = [self.key[at : at + 3] for at in range(0, len(self.key), 3)]
        target = body["messages"][-1]["content"]
        words = ["<s>", *["<image>"] * 4 * pictures, *pieces]
        words += [] if number % 12 == 2 else [target]
        rows = [{"5": {"logprob": -0.5, "rank": 1, "decoded_token": word}} for word in words]
        return [None, *rows[1:]]

    def _choice(self, text: str, number: int, echo: str) -> dict[str, Any]:
        said = f"You sent {echo}, therefore A"
        if "KEEP or REJECT" in text:
            said = f"You sent {echo}.\n{'REJECT' if number % 5 == 0 else 'KEEP'}"
        elif "[[BEGIN TEXT 2" in text:
            said = f"Both ask the same, as {echo} shows.\n{'SAME' if number % 2 else 'DIFFERENT'}"
        message: dict[str, Any] = {"role": "assistant", "content": said}
        if number % 12 == 8:
            half = len(self.key) // 2
            parts = [f"in pieces {self.key[:half]}", f"{self.key[half:]} A"]
            message["content"] = [{"type": "text", "text": part} for part in parts]
        if number % 12 == 10:
            message = {"role": "assistant", "content": None, "refusal": f"Not with {echo}"}
        return {"index": 0, "message": message, "finish_reason": "stop"}

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status, f"Said {self.key}")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Retry-After", "0")
        self.send_header("Set-Cookie", f"key={urllib.parse.quote(self.key, safe='')}")
        self.send_header("X-Echo", f"Bearer {self.key}")
        self.end_headers()
        self.wfile.write(data)


def _text(body: dict[str, Any]) -> str:
    if "messages" not in body:
        return str(body.get("prompt", ""))
    return next((p["text"] for p in body["messages"][0]["content"] if p["type"] == "text"), "")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until whoever started us goes away
    os._exit(0)
