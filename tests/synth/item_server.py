"""A server of chat completions that writes, verifies and answers items by rule, or errs in a chosen way.

    python item_server.py

The first part of the path chooses how: /plain/v1, /faulty/v1 (each prompt meets a fault of its own first),
/mortal-N/v1 (gone after N answers), /orders/v1 (does what a caption tells it to). It prints its port.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

FAULTS = ("busy", "broken", "cut", "empty", "refused", "malformed", "fenced", "length", "slow", "four",
          "letter", "thinking")  # fmt: skip
SLOW = 1.6  # seconds: more than the tests wait
LETTERS = "ABCDE"
KEYS = re.compile(r"^- ([a-z-]+) \(", re.M)
_WORD = re.compile(r"[A-Za-z][a-z]{4,}")
_FILLERS = ("granular debris", "smooth membrane", "dense cortex", "hollow vessel", "diffuse shadow")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    posted: ClassVar[Counter[str]] = Counter()
    tries: ClassVar[Counter[str]] = Counter()
    answered: ClassVar[Counter[str]] = Counter()  # by prompt: what somebody pays for
    fates: ClassVar[dict[str, str]] = {}
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/counts":
            told = {"posted": dict(self.posted), "answered": sum(self.answered.values()),
                    "most": max(self.answered.values(), default=0)}  # fmt: skip
            return self._send(200, json.dumps(told))
        return self._send(200, json.dumps({"data": [{"id": "scripted", "owned_by": "tests"}]}))

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = body["messages"][0]["content"]
        text = next(part["text"] for part in parts if part["type"] == "text")
        images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        prompt = hashlib.sha256(f"{text} {images}".encode()).hexdigest()
        with self.lock:
            self.posted[how] += 1
            self.tries[prompt] += 1
            again, count = self.tries[prompt], self.posted[how]
            self.fates.setdefault(prompt, FAULTS[len(self.fates) % len(FAULTS)])
        fault = self.fates[prompt] if how == "faulty" else ""
        if how.startswith("mortal") and count > int(how.split("-")[1]):
            return self.connection.close()
        if fault == "busy" and again < 2:
            return self._send(429, '{"error": {"message": "slow down"}}', {"Retry-After": "0"})
        if fault == "broken" and again < 2:
            return self._send(500, '{"error": {"message": "CUDA error"}}')
        if fault == "slow" and again < 2:
            time.sleep(SLOW)
            return self.connection.close()
        content, finish = reply(text, fault, how)
        answer = json.dumps({
            "choices": [{"index": 0, "message": {"role": "assistant", "content": content},
                         "finish_reason": finish}],
            "usage": {"prompt_tokens": 200 + 300 * len(images), "completion_tokens": 80},
        })  # fmt: skip
        if fault == "cut" and again < 2:
            return self._send(200, answer[: len(answer) // 2])
        with self.lock:
            self.answered[prompt] += 1
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
        if fault == "fenced":
            return f"Here it is:\n```json\n{content}\n```", "stop"
        if fault == "thinking":
            return f"<think>Let us see {{}}.</think>{content}", "stop"
        return content, "stop"
    return hashlib.sha256(text.encode()).hexdigest()[0].upper(), "stop"


def item(text: str, fault: str, how: str) -> dict[str, Any]:
    """A question about two words of the caption; one figure in five gets a fault that code can see."""
    caption = _fenced(text, "CAPTION")
    if how == "orders" and "IGNORE" in caption:
        return {"question": "HACKED", "options": dict.fromkeys(LETTERS, "yes"), "answer": "A"}
    seed = int(hashlib.sha256(caption.encode()).hexdigest(), 16)
    words = sorted({word.lower() for word in _WORD.findall(caption)}) or ["structure"]
    right = f"{words[seed % len(words)]} {_FILLERS[seed % 5].split()[1]}"
    wrong = [filler for filler in _FILLERS if filler != right][:4]
    options = [*wrong[: seed % 5], right, *wrong[seed % 5 :]][:5]
    question = f"Which feature of the {words[(seed // 7) % len(words)]} is most visible here?"
    if seed % 5 == 0:
        question = f"According to the caption, {question[0].lower()}{question[1:]}"
    made = {"question": question, "options": dict(zip(LETTERS, options, strict=True)),
            "answer": LETTERS[options.index(right)]}  # fmt: skip
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


def _fenced(text: str, name: str) -> str:
    match = re.search(rf"\[\[BEGIN {name} (\w+)\]\]\n(.*?)\n\[\[END {name} \1\]\]", text, re.DOTALL)
    return match[2] if match else ""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
