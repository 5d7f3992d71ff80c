"""Models behind servers, opened from their settings."""

from __future__ import annotations

import os

from heldout.errors import InputError
from heldout.model.endpoint import Connection, Pace
from heldout.model.endpoint.chat import ChatEndpoint
from heldout.synth.settings import ModelEndpoint


def open_endpoint(settings: ModelEndpoint, seed: int) -> ChatEndpoint:
    """Ask the server what it serves; an unreachable one is an error before anything is written."""
    connection = Connection(
        settings.url,
        api_key=_key(settings.key_env),
        timeout=settings.timeout,
        pace=Pace(settings.requests_per_second),
    )
    return ChatEndpoint.open(
        connection,
        settings.model,
        max_tokens=settings.max_tokens,
        concurrency=settings.concurrency,
    )


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        raise InputError(f"key_env {variable}: this environment variable is not set")
    return value
