"""Chat templates of bad will: their process ends or refuses, this one goes on."""

from __future__ import annotations

import time
from typing import Any

import pytest

from heldout.model.local import _template_worker, templates
from heldout.model.local.templates import TemplateError, render_template, render_turns

pytest.importorskip("jinja2")
TURNS = [{"role": "user", "content": [{"type": "text", "text": "Is it?"}]}]
CHAT = "{% for m in messages %}{{ bos }}{{ m.role }}: {{ m.content[0].text }}{% endfor %}"


@pytest.fixture(params=list(_template_worker.WAYS))
def way(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("transformers") if request.param == "transformers" else None
    return str(request.param)


def test_a_template_is_rendered_as_it_would_be_here(way: str) -> None:
    assert render_template(CHAT, TURNS, way, bos="<é>\ud800") == "<é>\ud800user: Is it?"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ('{{ "a" * 10**10 }}', "memory"),
        ('{{ "%2000000000d" | format(1) }}', "memory"),
        ('{{ "a" | center(2000000000) }}', "memory"),
        ('{{ "a" * 20000000 }}', "more than 16,777,216 characters"),
        ("{{ raise_exception('no pictures') }}", "no pictures"),
        ("{% if %}", "TemplateSyntaxError"),
    ],
)
def test_a_template_of_bad_will_is_refused(way: str, template: str, says: str) -> None:
    with pytest.raises(TemplateError, match=says):
        render_template(template, TURNS, way)
    assert render_template("{{ 1 + 1 }}", TURNS, way) == "2"


def test_a_template_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_template_worker, "SECONDS", 1)
    monkeypatch.setitem(templates._RENDERERS, "jinja", templates._Renderer("jinja"))
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    start = time.monotonic()
    with pytest.raises(TemplateError, match="more than 1 s"):
        render_template(endless, TURNS)
    assert time.monotonic() - start < 30
    assert render_template("{{ 1 + 1 }}", TURNS) == "2"


def test_a_process_that_ended_is_replaced() -> None:
    assert render_template("a", TURNS) == "a"
    process = templates._RENDERERS["jinja"]._process
    assert process is not None
    process.kill()
    process.wait()
    with pytest.raises(TemplateError):
        render_template("b", TURNS)
    assert render_template("c", TURNS) == "c"


def test_a_class_of_its_own_writes_its_own_turns() -> None:
    class Own:
        chat_template = "not used"

        def apply_chat_template(self, turns: list[Any], *, tokenize: bool) -> str:
            if not turns:
                raise ValueError("no turn")
            return f"{len(turns)} {tokenize}"

    assert render_turns(Own(), TURNS) == "1 False"
    with pytest.raises(TemplateError, match="ValueError: no turn"):
        render_turns(Own(), [])
