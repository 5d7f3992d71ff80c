"""The process in which chat templates are rendered: it holds nothing of the user's, and has little memory and time.

It is run as a file, imports nothing of heldout, and takes one line of JSON per template from its standard input.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

MEMORY = 512 << 20  # bytes that a template may take
SECONDS = 10
LONGEST = 16 << 20  # characters of a rendered template


def with_transformers(template: str, turns: list[Any], **named: Any) -> str:
    """As a processor or tokenizer of transformers renders it."""
    from transformers.utils.chat_template_utils import render_jinja_template

    ((text,), _) = render_jinja_template(conversations=[turns], chat_template=template, **named)
    return str(text)


def with_jinja(template: str, turns: list[Any], **named: Any) -> str:
    """The same where transformers is not installed: with what it gives to templates."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def as_json(value: Any, **how: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **how})

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = as_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    compiled = environment.from_string(template)
    return str(compiled.render(messages=turns, tools=None, documents=None, **named))


WAYS = {"transformers": with_transformers, "jinja": with_jinja}


def _limit_memory() -> None:
    """No more than now and what a template may take."""
    try:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    except (
        OSError,
        ValueError,
    ):  # a system that cannot tell or limit it: the time is limited anyway
        pass


def serve() -> None:
    """Answer until the input ends: ["", text] or [what is wrong, ""]."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    way, seconds = WAYS[sys.argv[1]], int(sys.argv[2])
    way("", [])  # imports what it needs before memory is limited
    _limit_memory()
    answers.write("\n")
    answers.flush()
    for line in sys.stdin:
        signal.alarm(seconds)  # ends the process: nothing else stops a loop in a template
        try:
            text = way(**json.loads(line))
            problem = "" if len(text) <= LONGEST else f"it writes more than {LONGEST:,} characters"
        except MemoryError:
            text, problem = "", f"it takes more than {MEMORY >> 20} MiB of memory"
        except Exception as error:  # a template is code of the model's author
            text, problem = "", f"{type(error).__name__}: {error}"[:1000]
        answer = json.dumps(["", text] if not problem else [problem, ""])
        signal.alarm(0)
        answers.write(f"{answer}\n")
        answers.flush()


if __name__ == "__main__":
    serve()
