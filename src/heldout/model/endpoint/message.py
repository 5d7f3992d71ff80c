"""A request as a server reads it: a chat whose last words are the answer, or one plain document."""

from __future__ import annotations

import base64
import functools
import io
from typing import Any

from heldout.image import ImageRef, to_rgb
from heldout.model.request import Request, Text

# Both protocols generate at least one token; what it is does not matter.
_QUIET: dict[str, Any] = {"max_tokens": 1, "temperature": 0, "stream": False}


def chat_body(model: str, request: Request) -> dict[str, Any]:
    """The answer is an assistant's turn that goes on, so that no template tail is scored with it."""
    parts: list[dict[str, Any]] = []
    for part in request.content:
        if isinstance(part, ImageRef):
            parts.append({"type": "image_url", "image_url": {"url": data_url(part)}})
        elif not part.scored:
            parts.append({"type": "text", "text": part.text})
    messages = [
        {"role": "user", "content": parts or [{"type": "text", "text": ""}]},
        {"role": "assistant", "content": request.target},
    ]
    return {
        "model": model,
        "messages": messages,
        "prompt_logprobs": 1,  # not 0: some versions take that for "none asked for"
        "add_generation_prompt": False,
        "continue_final_message": True,
        **_QUIET,
    }


def document(request: Request) -> str:
    """The parts as one text. A turn without a chat template: the answer on a line of its own."""
    texts = [part for part in request.content if isinstance(part, Text)]
    if not request.turn:
        return "".join(part.text for part in texts)
    asked = "".join(part.text for part in texts if not part.scored)
    return f"{asked}\n{request.target}" if asked else request.target


def completion_body(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "echo": True, "logprobs": 1, **_QUIET}


@functools.lru_cache(maxsize=16)  # questions on one picture come one after the other
def data_url(ref: ImageRef) -> str:
    """The pixels our own backend would see, losslessly: rotation, depth and palette are settled here."""
    buffer = io.BytesIO()
    to_rgb(ref.open()).save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
