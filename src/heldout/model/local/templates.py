"""Chat templates are programs of a model's author: they are rendered in a process of their own, within limits."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from heldout.engine import isolated
from heldout.errors import MachineError
from heldout.model.local import _template_worker

_WORKER = Path(_template_worker.__file__)


class TemplateError(Exception):
    """A template that fails, or that takes more memory or time than one may; the message says which."""


class _Renderer:
    """One process per way of rendering, started when it is first needed and again after a template ended it."""

    def __init__(self, way: str) -> None:
        self._way = way
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def render(self, template: str, turns: Sequence[Any], named: Mapping[str, Any]) -> str:
        asked = json.dumps({"template": template, "turns": turns, **named}, default=str)
        with self._lock:
            process = self._process or self._started()
            try:
                _pipe(process.stdin).write(f"{asked}\n")
                _pipe(process.stdin).flush()
                answer = _pipe(process.stdout).readline()
            except OSError:  # it has ended
                answer = ""
            except BaseException:  # an interrupt: what it answers later belongs to no request
                self._end()
                raise
            if not answer:
                self._end()
                most = f"{_template_worker.SECONDS} s or {_template_worker.MEMORY >> 20} MiB"
                raise TemplateError(f"it takes more than {most}")
        problem, text = json.loads(answer)
        if problem:
            raise TemplateError(problem)
        return str(text)

    def _started(self) -> subprocess.Popen[str]:
        command = [sys.executable, str(_WORKER), self._way, str(_template_worker.SECONDS)]
        pipe = subprocess.PIPE
        with isolated():
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                start_new_session=True,  # an interrupt is for this process
            )
        if not _pipe(self._process.stdout).readline():
            code = self._end()
            raise MachineError(f"the process that renders chat templates ended with status {code}")
        return self._process

    def _end(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        _pipe(process.stdout).close()
        return process.wait()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


_RENDERERS = {way: _Renderer(way) for way in _template_worker.WAYS}


def render_template(template: str, turns: Sequence[Any], way: str = "jinja", **named: Any) -> str:
    """What a chat template writes for turns; ``named``: further names it may use. Raises TemplateError."""
    return _RENDERERS[way].render(template, turns, named)


def render_turns(processor: Any, turns: Sequence[Any], **how: Any) -> str:
    """What ``processor.apply_chat_template`` gives. A class that is not of transformers has a method of its own.

    Raises:
        TemplateError: The template fails, or takes too much.
    """
    method = type(processor).apply_chat_template
    if method.__module__.partition(".")[0] != "transformers":
        try:
            return str(processor.apply_chat_template(turns, tokenize=False, **how))
        except TemplateError:
            raise
        except Exception as error:  # code of the model's author
            raise TemplateError(f"{type(error).__name__}: {error}") from error
    template = processor.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str):
        raise TemplateError("of several templates none is named 'default'")
    tokens = getattr(processor, "tokenizer", processor).special_tokens_map
    return render_template(template, turns, "transformers", **tokens, **how)
