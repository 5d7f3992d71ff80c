"""A model of the audit file made ready to be scored or asked."""

from __future__ import annotations

import functools
import os

from heldout.audit.audit_file import EndpointEntry, ModelEntry
from heldout.errors import InputError
from heldout.model import (
    Asker,
    ChatEndpoint,
    Connection,
    Endpoint,
    Pace,
    RunningModel,
    Scorer,
    open_model,
)


def open_scorer(entry: ModelEntry, location: str) -> Scorer:
    if entry.endpoint is not None:
        return Endpoint.open(
            _connection(entry.endpoint),
            entry.endpoint.model,
            concurrency=entry.endpoint.concurrency,
            dtype=_dtype(entry),
        )
    return _load(entry, location)


def open_asker(entry: ModelEntry, location: str) -> Asker:
    if entry.endpoint is not None:
        return ChatEndpoint.open(
            _connection(entry.endpoint),
            entry.endpoint.model,
            max_tokens=entry.max_new_tokens,
            concurrency=entry.endpoint.concurrency,
            dtype=_dtype(entry),
            token_field=entry.endpoint.token_field,
        )
    return _load(entry, location).asker(entry.max_new_tokens)


def _load(entry: ModelEntry, location: str) -> RunningModel:
    return _loaded(location, entry.dtype, entry.device, entry.revision, entry.trust_remote_code)


@functools.lru_cache(maxsize=1)
def _loaded(
    location: str, dtype: str, device: str, revision: str | None, trust: bool
) -> RunningModel:
    """The last model stays: it is scored, then asked. Two would not fit."""
    return open_model(
        location, dtype=dtype, device=device, revision=revision, trust_remote_code=trust
    )


def forget_loaded() -> None:
    """Give the last model's memory back."""
    _loaded.cache_clear()


def _connection(entry: EndpointEntry) -> Connection:
    key = None
    if entry.api_key_env is not None:
        key = os.environ.get(entry.api_key_env, "").strip()
        if not key:
            raise InputError(
                f"api_key_env: the environment variable {entry.api_key_env} is not set"
            )
    pace = Pace(entry.requests_per_second)
    return Connection(entry.url, api_key=key, timeout=entry.timeout, pace=pace)


def _dtype(entry: ModelEntry) -> str:
    return "unknown" if entry.dtype == "auto" else entry.dtype
