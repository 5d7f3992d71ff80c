"""A server of chat completions that knows the answers, and errs in a chosen way.

    python asking_server.py ANSWERS.json

ANSWERS.json has the text of the right option by question. The first part of the path chooses how:
/plain/v1, /faulty/v1 (each question meets a fault of its own), /mortal-N/v1 (gone after N answers),
/locked/v1 (wants a key), /mute/v1 (every reply is empty), /failing/v1 (status 500 for every third
question), /broken-N/v1 (status 500 for all after N requests). Of a judge's prompt the second text counts:
what ANSWERS.json has for it is the whole reply. It prints its port.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

SLOW = 1.5  # seconds: more than the tests wait
FAULTS = [
    "busy",
    "broken",
    "cut",
    "empty",
    "refused",
    "filtered",
    "long",
    "slow",
    "garbage",
    "length",
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, str]] = {}
    posted: ClassVar[Counter[str]] = Counter()
    answered: ClassVar[Counter[str]] = Counter()  # by the whole prompt: what somebody pays for
    bodies: ClassVar[list[Any]] = []
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/counts":
            told = {
                "posted": dict(self.posted),
                "most": max(self.answered.values(), default=0),
                "answered": sum(self.answered.values()),
                "last": self.bodies[-1:],
            }
            return self._send(200, json.dumps(told))
        if self.path.startswith("/locked/"):
            return self._send(401, '{"error": {"message": "no key"}}')
        return self._send(200, json.dumps({"data": [{"id": "scripted", "owned_by": "tests"}]}))

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = body["messages"][0]["content"]
        text = next(part["text"] for part in parts if part["type"] == "text")
        pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        assert all(url.startswith("data:image/png;base64,") for url in pictures)
        with self.lock:
            self.posted[how] += 1
            name = f"{how} {text}"
            self.posted[name] += 1
            again = self.posted[name]
            self.bodies.append({**body, "messages": text})
        number = int(found[1]) if (found := re.search(r"\((\d+)\)", text)) else -1
        fault = FAULTS[number % 12] if how == "faulty" and number % 12 < len(FAULTS) else ""
        if how.startswith("mortal"):
            with self.lock:
                dead = self.posted[how] > int(how.split("-")[1])
            if dead:
                return self._hang_up()
        if how == "failing" and number % 3 == 0:
            return self._send(500, '{"error": {"message": "out of memory"}}')
        if how.startswith("broken"):
            with self.lock:
                dead = self.posted[how] > int(how.split("-")[1])
            if dead:
                return self._send(500, '{"error": {"message": "CUDA error"}}')
        if fault == "busy" and again < 3:
            return self._send(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if fault == "broken" and again < 2:
            return self._send(500, '{"error": {"message": "CUDA error"}}')
        if fault == "long" or how == "full":
            told = "This model's maximum context length is 4096 tokens"
            return self._send(400, json.dumps({"error": {"message": told}}))
        if fault == "slow":
            time.sleep(SLOW)
            return self._hang_up()
        message, finish = self._message(text, "empty" if how == "mute" else fault)
        told = _logprobs(message["content"] or "") if body.get("logprobs") else None
        answer = json.dumps(
            {
                "choices": [
                    {"index": 0, "message": message, "finish_reason": finish, "logprobs": told}
                ],
                "usage": {"prompt_tokens": 100 + 50 * len(pictures), "completion_tokens": 7},
                **({"model": f"version-{number % 3}"} if how == "changing" else {}),
            }
        )
        if fault == "garbage" or (fault == "cut" and again < 2):
            return self._send(200, answer[: len(answer) // 2])
        with self.lock:
            self.answered[f"{how} {text} {pictures}"] += 1
        return self._send(200, answer)

    def _message(self, text: str, fault: str) -> tuple[dict[str, Any], str]:
        special = {
            "empty": ({"role": "assistant", "content": ""}, "stop"),
            "refused": ({"role": "assistant", "content": None, "refusal": "I can't help."}, "stop"),
            "filtered": ({"role": "assistant", "content": None}, "content_filter"),
            "length": (
                {"role": "assistant", "content": "Let us look at the picture first"},
                "length",
            ),
        }
        if fault in special:
            return special[fault]
        judged = re.search(r"^\[\[BEGIN TEXT 2 \w+\]\]\n(.*)\n\[\[END", text, re.M)
        if judged is not None:
            return {"role": "assistant", "content": self.answers.get(judged[1], "")}, "stop"
        question, *lines = text.split("\n")
        right = self.answers.get(question, "")
        letter = next((line[0] for line in lines if line[1:] == f". {right}"), right or "I see")
        if "<answer>" in text:
            letter = f"First A, then B. <answer>{letter}</answer>"
        return {"role": "assistant", "content": letter}, "stop"

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


def _logprobs(word: str) -> dict[str, Any]:
    top = [
        {"token": word, "logprob": -0.5},
        {"token": f" {word}", "logprob": -2.0},
        {"token": "B" if word != "B" else "A", "logprob": -3.0},
    ]
    return {"content": [{"token": word, "logprob": -0.5, "top_logprobs": top}]}


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # clients are killed on purpose
            super().handle_error(request, client_address)


if __name__ == "__main__":
    Handler.answers = json.loads(Path(sys.argv[1]).read_text())
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until whoever started us goes away
    os._exit(0)
