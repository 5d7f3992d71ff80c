"""A server of chat completions that answers multiple-choice prompts by rule.

    python suite_server.py ANSWERS.json

ANSWERS.json has the text of the right option by question. The first part of the path chooses how:
/plain/v1 (a reasoning reply with the right letter and text), /weak/v1 (wrong on every third question),
/mortal-N/v1 (refuses after N answers), /loud/v1 (a closing full stop after letter and text). It prints its
port.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

_QUESTION = re.compile(r"Question: (.*?)\n\nOptions:", re.DOTALL)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, str]] = {}
    posted: ClassVar[Counter[str]] = Counter()
    last: ClassVar[list[Any]] = []
    revived: ClassVar[bool] = False  # servers that die are paid for again
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/revive":
            Handler.revived = True
        if self.path in ("/counts", "/revive"):
            return self._send(200, {"posted": dict(self.posted), "last": self.last[-1:]})
        return self._send(200, {"data": [{"id": self._served(), "owned_by": "tests"}]})

    def _served(self) -> str:
        return self.path.split("/")[1].partition("-")[0]

    def do_POST(self) -> None:
        how = self.path.split("/")[1]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "".join(p["text"] for p in body["messages"][0]["content"] if p["type"] == "text")
        with self.lock:
            self.posted[how] += 1
            self.last.append({**body, "messages": text})
            count = self.posted[how]
        if how.startswith("mortal") and not self.revived and count > int(how.split("-")[1]):
            return self._send(403, {"error": {"message": "the budget is spent"}})
        return self._send(
            200,
            {
                "model": how,
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": self._reply(how, text)},
                        "finish_reason": "stop",
                    }
                ],
                "usage": {"prompt_tokens": 100, "completion_tokens": 20},
            },
        )

    def _reply(self, how: str, text: str) -> str:
        found = _QUESTION.search(text)
        question = found[1] if found else text.split("\n")[0]
        right = self.answers.get(question, "")
        shown = re.findall(r"^([A-E])\. (.+)$", text, re.MULTILINE)
        place = next((n for n, (_, option) in enumerate(shown) if option == right), 0)
        number = int(told[1]) if (told := re.search(r"\((\d+)\)", question)) else 0
        if how == "weak" and number % 3 == 0:
            place = (place + 1) % max(len(shown), 1)
        letter, option = shown[place] if shown else ("", right)
        end = "." if how == "loud" else ""
        return f"<think>I look at it.</think>\n<answer>{letter}. {option}{end}</answer>"

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    Handler.answers = json.loads(Path(sys.argv[1]).read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()  # until whoever started us goes away
    os._exit(0)
