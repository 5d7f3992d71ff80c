"""A server that loads a tiny model and answers both protocols truthfully, or errs in a chosen way.

    python endpoint_server.py FOLDER_OF_MODELS

The first part of the path chooses how: /plain/v1, /busy/v1, /no-logprobs/v1 … It prints its port. A GET
of /mortal/N opens another port that dies, in the middle of an answer, after N requests.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import torch
from endpoint_serving import KEY
from PIL import Image
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
)

torch.set_num_threads(1)


class Served:
    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        kind = json.loads((folder / "config.json").read_text())
        self.looks = "vision_config" in kind
        loader = AutoModelForImageTextToText if self.looks else AutoModelForCausalLM
        self.model = loader.from_pretrained(folder, dtype=torch.float32).eval()
        self.processor = AutoProcessor.from_pretrained(folder) if self.looks else None
        self.words = (
            self.processor.tokenizer if self.looks else AutoTokenizer.from_pretrained(folder)
        )

    def prompt(self, inputs: dict[str, Any]) -> list[tuple[int, str, float | None]]:
        with torch.inference_mode():
            logits = self.model(**inputs).logits[0].float().log_softmax(-1)
        ids = inputs["input_ids"][0].tolist()
        told: list[tuple[int, str, float | None]] = [(ids[0], self.words.decode(ids[:1]), None)]
        for place, token in enumerate(ids[1:]):
            told.append((token, self.words.decode([token]), float(logits[place, token])))
        return told

    def chat(self, body: dict[str, Any], how: str) -> list[tuple[int, str, float | None]]:
        pictures: list[Image.Image] = []
        messages = [
            {"role": m["role"], "content": _parts(m["content"], pictures, how)}
            for m in body["messages"]
        ]
        if pictures and not self.looks:
            raise ValueError("this model has no eyes: At most 0 image(s) may be provided")
        template = self.processor if self.looks else self.words
        text = template.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
        )
        if not pictures:
            return self.prompt(self.words(text, return_tensors="pt", add_special_tokens=False))
        made = self.processor(text=text, images=pictures, return_tensors="pt")
        return self.prompt(dict(made))


def _parts(content: Any, pictures: list[Image.Image], how: str) -> Any:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    made = []
    for part in content:
        if part["type"] == "image_url":
            data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            image = Image.open(io.BytesIO(data)).convert("RGB")
            if how == "blind":
                image = Image.new("RGB", image.size)
            copies = 2 if how == "misaligned" else 1
            pictures += [image] * copies
            made += [{"type": "image"}] * copies
        else:
            text = part["text"]
            made.append(
                {"type": "text", "text": "x " * len(text.split()) if how == "deaf" else text}
            )
    return made


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    models: ClassVar[dict[str, Served]] = {}  # loaded when first asked for
    seen: ClassVar[Counter[str]] = Counter()
    repeats: ClassVar[Counter[str]] = Counter()
    lock = threading.Lock()
    lives: int | None = None

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        _, how, *rest = self.path.split("/")
        if how == "counts":
            return self._send(200, dict(self.seen))
        if how == "mortal":
            mortal = type("Mortal", (Handler,), {"lives": int(rest[0])})
            return self._send(200, serve(mortal))
        names = sorted(path.parent.name for path in self.folder.glob("*/config.json"))
        rows = [{"id": name, "object": "model", "owned_by": "tiny"} for name in names]
        return self._send(200, {"object": "list", "data": rows})

    def do_POST(self) -> None:
        _, how, _, *rest = self.path.split("/")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            self.seen[how] += 1
            number = self.seen[how]
            self.repeats[json.dumps(body)] += 1
            again = self.repeats[json.dumps(body)]
            if self.lives is not None:
                type(self).lives = self.lives - 1
        if self.lives is not None and self.lives < 0:
            self.server.socket.close()  # from now on nobody is there
            # Without this its loop would spin on the closed socket for the rest of the suite.
            threading.Thread(target=self.server.shutdown, daemon=True).start()
            self.close_connection = True  # or the handler would wait for the next request
            self.connection.close()
            return None
        if how == "key" and self.headers.get("Authorization") != f"Bearer {KEY}":
            return self._send(
                401, {"error": {"message": f"bad key {self.headers['Authorization']}"}}
            )
        if how == "busy" and again < 3:
            return self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})
        if how == "broken":
            return self._send(500, {"error": {"message": "CUDA error"}})
        if how == "moved":
            return self._send(307, {}, {"Location": "http://127.0.0.1:1/v1"})
        if how == "garbage" and number > 3:
            return self._send(
                200, [{"choices": 3}, {"prompt_logprobs": [7]}, [], "x", None][number % 5]
            )
        try:
            with self.lock:
                if body["model"] not in self.models:
                    self.models[body["model"]] = Served(self.folder / body["model"])
                self.served = self.models[body["model"]]
                answer = self._chat(body, how) if rest[0] == "chat" else self._completion(body, how)
            return self._send(200, answer)
        except ValueError as error:
            return self._send(400, {"error": {"message": str(error)}})

    def _chat(self, body: dict[str, Any], how: str) -> dict[str, Any]:
        told = self.served.chat(body, how)
        answer: dict[str, Any] = {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}],
            "usage": {"prompt_tokens": len(told), "completion_tokens": 1},
        }
        if how == "cut":
            told = told[len(told) // 2 :]
        if how not in ("no-logprobs", "echo-only", "generated-only"):
            rows: list[Any] = [None]
            for token, word, logprob in told[1:]:
                value = float("nan") if how == "nan" else logprob
                rows.append(
                    {
                        str(token): {"logprob": value, "rank": 9, "decoded_token": word},
                        "7": {"logprob": -0.1, "rank": 1, "decoded_token": "best"},
                    }
                )
            answer["prompt_logprobs"] = rows
        return answer

    def _completion(self, body: dict[str, Any], how: str) -> dict[str, Any]:
        if how == "no-logprobs":
            return {"choices": [{"index": 0, "text": "x", "logprobs": None}]}
        words = self.served.words
        ids = [words.bos_token_id, *words(body["prompt"], add_special_tokens=False)["input_ids"]]
        told = self.served.prompt({"input_ids": torch.tensor([ids])})
        told.append((0, " and", -1.5))  # the token that was generated
        if how == "generated-only":
            told = told[-1:]
        offsets = [sum(len(word) for _, word, _ in told[:place]) for place in range(len(told))]
        logprobs = {
            "tokens": [word for _, word, _ in told],
            "token_logprobs": [logprob for _, _, logprob in told],
            "text_offset": offsets,
            "top_logprobs": None,
        }
        choice = {"index": 0, "text": "".join(logprobs["tokens"]), "logprobs": logprobs}
        return {"choices": [choice], "usage": {"prompt_tokens": len(told) - 1}}

    def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


def serve(handler: type[Handler]) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[1])
    print(serve(Handler), flush=True)
    sys.stdin.read()  # until whoever started us goes away
