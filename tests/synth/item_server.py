"""A server of chat completions that writes, verifies and answers items by rule, or errs in a chosen way.

    python item_server.py

The first part of the path chooses how: /plain/v1, /faulty/v1 (each prompt meets a fault of its own first),
/mortal-N/v1 (gone after N requests), /orders/v1 (does what a caption tells it to), /stubborn/v1 (never
writes JSON for some figures), /one-eyed/v1 (takes one image at most), /failing-N/v1 (status 500 for some
figures in the first N requests), /resetting/v1 (breaks the connection for the same figures), /free/v1
(refuses response_format), /seedless/v1 (refuses seed), /changing-N/v1 (another model after N requests),
/slow-S/v1 (S milliseconds an answer), /contrary/v1 (calls all questions different),
/html/v1 (answers with a page). A second part names the
model: /plain/referee/v1. It prints its port. /counts says what was asked, /forget begins to count anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

FAULTS = (
    "busy",
    "broken",
    "cut",
    "empty",
    "refused",
    "malformed",
    "fenced",
    "surrogate",
    "length",
    "slow",
    "four",
    "letter",
    "thinking",
)
SLOW = 1.6  # seconds: more than the tests wait
LETTERS = "ABCDE"
KEYS = re.compile(r"^- ([a-z-]+) \(", re.M)
_WORD = re.compile(r"[A-Za-z][a-z]{4,}")
_FILLERS = ("granular debris", "smooth membrane", "dense cortex", "hollow vessel", "diffuse shadow")


@dataclass
class Asked:
    """What was asked since the server last forgot; a late answer counts where its question did."""

    posted: Counter[str] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)  # by prompt: what somebody pays for
    fates: dict[str, str] = field(default_factory=dict)
    bodies: list[Any] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: ClassVar[Asked] = Asked()
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/counts":
            asked = self.asked
            told = {
                "posted": dict(asked.posted),
                "answered": sum(asked.answered.values()),
                "most": max(asked.answered.values(), default=0),
                "bodies": asked.bodies[-3:],
            }
            return self._send(200, json.dumps(told))
        if self.path == "/forget":
            Handler.asked = Asked()
            return self._send(200, "{}")
        served = {"id": self._model(0), "owned_by": "tests"}
        return self._send(200, json.dumps({"data": [served]}))

    def _model(self, count: int) -> str:
        how, name = self.path.split("/")[1:3]
        name = "scripted" if name == "v1" else name
        changed = how.startswith("changing") and count > int(how.split("-")[1])
        return f"{name}-2" if changed else name

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = body["messages"][0]["content"]
        text = next(part["text"] for part in parts if part["type"] == "text")
        images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        prompt = hashlib.sha256(f"{text} {images}".encode()).hexdigest()
        asked = self.asked
        with self.lock:
            asked.posted[how] += 1
            asked.tries[prompt] += 1
            again, count = asked.tries[prompt], asked.posted[how]
            asked.bodies.append({key: value for key, value in body.items() if key != "messages"})
            asked.fates.setdefault(prompt, FAULTS[len(asked.fates) % len(FAULTS)])
        fault = asked.fates[prompt] if how == "faulty" else ""
        if how.startswith("mortal") and count > int(how.split("-")[1]):
            return self.connection.shutdown(socket.SHUT_RDWR)
        for way, name in (("free", "response_format"), ("seedless", "seed")):
            if how == way and name in body:
                return self._send(
                    400, json.dumps({"error": {"message": f"{name} is not supported"}})
                )
        if how == "one-eyed" and len(images) > 1:
            told = f"At most 1 image(s) may be provided in one request, got {len(images)}"
            return self._send(400, json.dumps({"error": {"message": told}}))
        if how.startswith("failing") and count <= int(how.split("-")[1]) and _chosen(text):
            return self._send(500, '{"error": {"message": "out of memory"}}')
        if how == "hanging" and _chosen(text):
            time.sleep(60)
        if how == "busy" and _chosen(text):
            return self._send(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if how == "resetting" and _chosen(text):
            return self.connection.shutdown(socket.SHUT_RDWR)
        if how == "html":
            return self._send(200, "<html><body>Welcome!</body></html>")
        if how.startswith("slow"):
            time.sleep(int(how.split("-")[1]) / 1000)
        if fault == "busy" and again < 2:
            return self._send(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if fault == "broken" and again < 2:
            return self._send(500, '{"error": {"message": "CUDA error"}}')
        if fault == "slow" and again < 2:
            time.sleep(SLOW)
            return self.connection.close()
        content, finish = reply(text, fault, how)
        answer = json.dumps(
            {
                "model": self._model(count),
                "system_fingerprint": "fp-2" if self._model(count).endswith("-2") else "fp-1",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": content},
                        "finish_reason": finish,
                    }
                ],
                "usage": {"prompt_tokens": 200 + 300 * len(images), "completion_tokens": 80},
            }
        )
        if fault == "cut" and again < 2:
            return self._send(200, answer[: len(answer) // 2])
        with self.lock:
            asked.answered[prompt] += 1
        return self._send(200, answer)

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def reply(text: str, fault: str, how: str) -> tuple[str, str]:
    """What a model would say: an item, a verdict, or an answer."""
    asked_again = "An earlier reply could not be used" in text
    fault = "" if asked_again else fault
    if how == "stubborn" and _chosen(text):
        return "It is the second from the left.", "stop"
    if fault == "empty":
        return "", "stop"
    if fault == "refused":
        return "I'm sorry, I cannot help with that.", "stop"
    if fault == "length":
        return '{"question": "Which', "length"
    if "Reply with one JSON object" in text:
        value = verdict(text) if '"met"' in text else item(text, fault, how)
        content = json.dumps(value, ensure_ascii=False)
        if fault == "malformed":
            return content[:-10], "stop"
        if fault == "surrogate":  # also NUL; in the question, or in the notes
            return re.sub("Which|by rule", r"\g<0> \\ud83d\\u0000", content), "stop"
        if fault == "fenced":
            return f"Here it is:\n```json\n{content}\n```", "stop"
        if fault == "thinking":
            return f"<think>Let us see {{}}.</think>{content}", "stop"
        return content, "stop"
    if "SAME, DIFFERENT or UNSURE" in text:
        return f"Both ask.\n{'DIFFERENT' if how == 'contrary' else 'SAME'}", "stop"
    if "inside <think>" in text:  # a trace; its letter is right by chance
        letter = LETTERS[int(hashlib.sha256(text.encode()).hexdigest(), 16) % 5]
        return f"<think>It is\nplain to see.</think><answer>{letter}</answer>", "stop"
    return hashlib.sha256(text.encode()).hexdigest()[0].upper(), "stop"


def item(text: str, fault: str, how: str) -> dict[str, Any]:
    """A question about two words of the caption; one figure in five gets a fault that code can see."""
    caption = _fenced(text, "CAPTION")
    # A model that takes anything like a closing mark for the end of the fence, and does what follows.
    outside = re.sub(r"\[\[BEGIN .*?\[\[END[^\]]*\]\]", "", text, flags=re.DOTALL)
    if how == "orders" and "IGNORE" in outside:
        return {"question": "HACKED", "options": dict.fromkeys(LETTERS, "yes"), "answer": "A"}
    seed = int(hashlib.sha256(caption.encode()).hexdigest(), 16)
    words = sorted({word.lower() for word in _WORD.findall(caption)}) or ["structure"]
    right = f"{words[seed % len(words)]} {_FILLERS[seed % 5].split()[1]}"
    wrong = [filler for filler in _FILLERS if filler != right][:4]
    options = [*wrong[: seed % 5], right, *wrong[seed % 5 :]][:5]
    question = f"Which feature of the {words[(seed // 7) % len(words)]} is most visible here?"
    if seed % 5 == 0:
        question = f"According to the caption, {question[0].lower()}{question[1:]}"
    made = {
        "question": question,
        "options": dict(zip(LETTERS, options, strict=True)),
        "answer": LETTERS[options.index(right)],
    }
    if fault == "four":
        made["options"] = dict(list(made["options"].items())[:4])
    if fault == "letter":
        made["answer"] = right
    return made


def verdict(text: str) -> dict[str, Any]:
    """Meets all, except that one item in four has weak distractors."""
    caption = _fenced(text, "CAPTION")
    weak = int(hashlib.sha256(caption.encode()).hexdigest(), 16) % 4 == 0
    faults = {"forbidden-terms", "synonym-drift", "multiple-keys", "medical-inaccuracy"}
    return {
        key: {"met": key not in faults and not (key == "distractors" and weak), "note": "by rule"}
        for key in KEYS.findall(text)
    }


def _chosen(text: str) -> bool:
    return int(hashlib.sha256(_fenced(text, "CAPTION").encode()).hexdigest(), 16) % 3 == 0


def _fenced(text: str, name: str) -> str:
    match = re.search(rf"\[\[BEGIN {name} (\w+)\]\]\n(.*?)\n\[\[END {name} \1\]\]", text, re.DOTALL)
    return match[2] if match else ""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
