"""A local model on the workers of an engine: prompts go out in chunks, replies come back to one journal."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from heldout.engine import Engine
from heldout.errors import InputError
from heldout.model import STAGE, Asker, Prompt, Reply, open_model
from heldout.store import Dropped

CHUNK = 32  # prompts per task: at most so many are lost with a worker
FAILURES = 3  # chunks in a row: the model is broken, not the items


@dataclass(frozen=True)
class LocalModelSpec:
    """What is needed to open a model on a worker: name, options of ``open_model``, length of replies."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    max_new_tokens: int = 64

    def open(self) -> Asker:
        return open_model(self.name, **dict(self.options)).asker(self.max_new_tokens)


_OPENED: dict[LocalModelSpec, Asker] = {}


def _opened(spec: LocalModelSpec) -> Asker:
    """A worker keeps one model; the next one replaces it in memory."""
    if spec not in _OPENED:
        _OPENED.clear()
        _OPENED[spec] = spec.open()
    return _OPENED[spec]


def identity_on_worker(spec: LocalModelSpec) -> dict[str, str]:
    return dict(_opened(spec).identity)


def ask_on_worker(spec: LocalModelSpec, prompts: tuple[Prompt, ...]) -> list[Reply | Dropped]:
    return list(_opened(spec).ask(iter(prompts), lambda _: None))


class EngineAsker:
    """An Asker whose model runs on the workers of ``engine``."""

    def __init__(self, engine: Engine, spec: LocalModelSpec) -> None:
        self._engine, self._spec = engine, spec
        (outcome,) = engine.map(identity_on_worker, [spec])
        if outcome.value is None:
            raise InputError(f"{spec.name}: no worker can open it: {outcome.error}")
        self._identity = outcome.value

    @property
    def identity(self) -> Mapping[str, str]:
        return self._identity

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        waiting = iter(prompts)
        chunks = iter(lambda: tuple(itertools.islice(waiting, CHUNK)), ())
        failed = 0
        for outcome in self._engine.map(partial(ask_on_worker, self._spec), chunks):
            if outcome.value is None:
                failed += 1
                if failed >= FAILURES:
                    raise InputError(
                        f"{self._spec.name}: {FAILURES} chunks in a row failed on the workers, the last: "
                        f"{outcome.error}"
                    )
                detail = str(outcome.error)[:300]
                for prompt in outcome.task:
                    yield Dropped(STAGE, prompt.request.id, "a worker failed", detail)
                continue
            failed = 0
            for result in outcome.value:
                if isinstance(result, Reply):
                    keep(result)
                yield result
