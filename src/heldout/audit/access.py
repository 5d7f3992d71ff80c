"""A model of the audit file made ready to be scored or asked."""

from __future__ import annotations

import functools

from heldout.model import (
    Asker,
    AskSettings,
    OneModel,
    RunningModel,
    Scorer,
    ScoreSettings,
    open_asker,
    open_model,
    open_server,
)


def scorer_of(settings: ScoreSettings) -> Scorer:
    return open_server(settings) if settings.endpoint is not None else _load(settings)


def asker_of(settings: AskSettings) -> Asker:
    if settings.endpoint is not None:
        return open_asker(settings)[0]
    return _load(settings).asker(settings.reply_tokens)


def _load(settings: OneModel) -> RunningModel:
    assert settings.model is not None
    return _loaded(settings.model, tuple(settings.local.items()))


@functools.lru_cache(maxsize=1)
def _loaded(model: str, how: tuple[tuple[str, object], ...]) -> RunningModel:
    """The last model stays: it is scored, then asked. Two would not fit."""
    return open_model(model, **dict(how))  # type: ignore[arg-type]


def forget_loaded() -> None:
    """Give the last model's memory back."""
    _loaded.cache_clear()
